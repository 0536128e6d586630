"""Content hashes of items: equal contents have equal hashes, whatever the file's name."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.images import is_image
from unitail.encoders.item_file import opened
from unitail.encoders.sounds import is_sound
from unitail.errors import Unreadable

MAX_BYTES = 2**31
"""Larger files are refused without reading them; encoders have tighter limits."""
ORIENTATION = 0x0112
"""The EXIF tag for the rotation of an image."""


def content_hash(item: object) -> str:
    """Hash the bytes of a file (a `Path`), a text, an image, an array, bytes or (samples, rate).

    Items of different types never share a hash, so an encoder may treat types differently. A string
    is a text, even if a file of that name exists.
    """
    if isinstance(item, Path):
        return _file_hash(item)
    digest = hashlib.sha256()
    for piece in _pieces(item):
        # The length prefix distinguishes ("ab", "c") from ("a", "bc").
        digest.update(len(piece).to_bytes(8, "little"))
        digest.update(piece)
    return digest.hexdigest()


def _file_hash(path: Path) -> str:
    with opened(path, MAX_BYTES) as file:
        return hashlib.file_digest(file, lambda: hashlib.sha256(b"file")).hexdigest()


def _pieces(item: object) -> Iterator[bytes]:
    """Yield the name of the item's type, then its content."""
    if isinstance(item, str):
        yield from (b"text", item.encode("utf-8", "surrogatepass"))
    elif isinstance(item, bytes):
        yield from (b"bytes", item)
    elif isinstance(item, np.ndarray) and not item.dtype.hasobject:
        yield from (b"array", *_array_pieces(item))
    elif is_image(item):
        yield from (b"image", *_image_pieces(item))
    elif is_sound(item):
        yield from (b"sound", str(float(item[1])).encode(), *_array_pieces(item[0]))
    else:
        raise Unreadable(
            "an item of this type cannot be encoded",
            got=type(item).__name__,
            allowed="a path, a text, an image, an array, bytes, or a pair (samples, rate)",
            remedy="Convert the item.",
        )


def _array_pieces(array: NDArray[Any]) -> Iterator[bytes]:
    yield from (array.dtype.str.encode(), str(array.shape).encode(), array.tobytes())


def _image_pieces(image: Any) -> Iterator[bytes]:  # noqa: ANN401 - Pillow is optional
    """Yield the pixels, and what affects how they look: palette, transparency and rotation."""
    try:
        pixels = image.tobytes()
    except (OSError, ValueError, SyntaxError) as error:
        raise Unreadable(
            "the image cannot be decoded", got=str(error), allowed="a complete image"
        ) from error
    palette = image.palette
    colours = (b"", b"") if palette is None else (palette.mode.encode(), bytes(palette.palette))
    properties = (image.mode, image.size, image.info.get("transparency"), _orientation(image))
    yield from (repr(properties).encode(), *colours, pixels)


def _orientation(image: Any) -> object:  # noqa: ANN401 - Pillow is optional
    try:
        return image.getexif().get(ORIENTATION)
    except Exception:  # Pillow raises errors of any type on broken EXIF data
        return None
