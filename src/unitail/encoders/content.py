"""Hashes of what items hold: equal contents have equal hashes, whatever the file's name."""

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from unitail.errors import Unreadable

LARGEST_BYTES = 2**31
"""Larger files are refused unread; encoders have narrower limits."""
ORIENTATION = 0x0112
"""The EXIF tag that says how an image is turned."""


def content_hash(item: object) -> str:
    """Hash a file's bytes (of a `Path`), a text, an image, an array, bytes or (samples, rate).

    Items of different types never share a hash, so an encoder may read each type in its own way.
    A string is a text, also if a file of that name exists.
    """
    if isinstance(item, Path):
        return _file_hash(item)
    found = hashlib.sha256()
    for part in _parts(item):
        # The length before each part keeps ("ab", "c") and ("a", "bc") apart.
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.hexdigest()


def _file_hash(path: Path) -> str:
    try:
        _check_file(path)
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.sha256(b"file")).hexdigest()
    except (OSError, ValueError) as error:
        raise Unreadable(
            f"{path} cannot be read", got=_reason(error), allowed="a file that can be read"
        ) from error


def _check_file(path: Path) -> None:
    """Refuse what would be read without end: a pipe, a device, a file of hundreds of GB."""
    if path.stat().st_size > LARGEST_BYTES:
        raise OSError(f"it is larger than {LARGEST_BYTES} bytes")
    if not path.is_file():
        raise OSError("it is not a file")


def _parts(item: object) -> Iterator[bytes]:
    """Give the name of the item's type, then all that it holds."""
    if isinstance(item, str):
        yield from (b"text", item.encode("utf-8", "surrogatepass"))
    elif isinstance(item, bytes):
        yield from (b"bytes", item)
    elif isinstance(item, np.ndarray) and not item.dtype.hasobject:
        yield from (b"array", *_array_parts(item))
    elif is_image(item):
        yield from (b"image", *_image_parts(item))
    elif is_sound(item):
        yield from (b"sound", str(float(item[1])).encode(), *_array_parts(item[0]))
    else:
        raise Unreadable(
            "an item of this type cannot be encoded",
            got=type(item).__name__,
            allowed="a path, a text, an image, an array, bytes, or a pair (samples, rate)",
            remedy="Convert the item.",
        )


def is_image(item: object) -> bool:
    """Tell whether an item is an image of Pillow, which is not imported for that."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(item, pillow.Image)


def is_sound(item: object) -> TypeGuard[tuple[NDArray[Any], float]]:
    """Tell whether an item is a pair of an array of samples and a rate."""
    return (
        isinstance(item, tuple | list)
        and len(item) == 2
        and isinstance(item[0], np.ndarray)
        and item[0].dtype.kind in "iuf"
        and isinstance(item[1], int | float | np.number)
    )


def _array_parts(array: NDArray[Any]) -> Iterator[bytes]:
    yield from (array.dtype.str.encode(), str(array.shape).encode(), array.tobytes())


def _image_parts(image: Any) -> Iterator[bytes]:  # noqa: ANN401 - Pillow is optional
    """Give the pixels, and what decides how they look: palette, transparency and rotation."""
    try:
        pixels = image.tobytes()
    except (OSError, ValueError, SyntaxError) as error:
        raise Unreadable(
            "the image cannot be decoded", got=_reason(error), allowed="a whole image"
        ) from error
    palette = image.palette
    colours = (b"", b"") if palette is None else (palette.mode.encode(), bytes(palette.palette))
    look = (image.mode, image.size, image.info.get("transparency"), _orientation(image))
    yield from (repr(look).encode(), *colours, pixels)


def _orientation(image: Any) -> object:  # noqa: ANN401 - Pillow is optional
    try:
        return image.getexif().get(ORIENTATION)
    except Exception:  # broken notes around good pixels make Pillow raise anything
        return None


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
