"""Decode images of any kind to upright RGB images, within safe limits."""

import io
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.item_file import opened
from unitail.errors import MissingExtra, Unreadable, optional

MAX_BYTES = 200 * 2**20
"""Larger files are not opened."""
MAX_PIXELS = 80_000_000
"""Larger images are not decoded: a small file can hold a very large image."""
MAX_RATIO = 100
"""Largest aspect ratio: models enlarge the short side, so a line of pixels would become huge."""
FORMATS = frozenset(
    ("AVIF", "BMP", "DIB", "GIF", "HEIF", "ICO", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TGA")
) | {"TIFF", "WEBP"}
"""Supported formats. All others are refused, since some decoders start external programs."""
MAX_UINT16 = 2**16 - 1
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
"""Brands after `ftyp` in the header of HEIC files, which phones write."""


def read_image(item: object) -> Any:  # noqa: ANN401 - a PIL image; PIL is optional
    """Return the first frame as an RGB image, rotated by its EXIF data, transparency on white.

    An item is a path, the bytes of a file, a PIL image, or an array (H, W), (H, W, 3) or (H, W, 4)
    of uint8, of uint16 or of floats from 0 to 1. Raises `Unreadable`, which names the file and the
    reason.
    """
    pil = optional("PIL.Image", extra="encoders")
    if isinstance(item, pil.Image):
        with _broken(pil, "the image"):
            return _rgb(item, "the image")
    if isinstance(item, np.ndarray):
        return _rgb(_from_array(item), "the array")
    if isinstance(item, bytes):
        return _decode(item, "the image")
    if isinstance(item, str | Path):
        with opened(Path(item), MAX_BYTES, kind="an image") as file:
            content = file.read()
        return _decode(content, str(item))
    raise Unreadable(
        "not an image",
        got=type(item).__name__,
        allowed="a path, bytes, a PIL image or an array",
    )


def has_pages(path: Path) -> bool:
    """Return whether a TIFF file has a second page; counting all pages may be slow."""
    pil = optional("PIL.Image", extra="encoders")
    try:
        with _QUIET, opened(path, MAX_BYTES) as file, pil.open(file, formats=["TIFF"]) as image:
            image.seek(1)
            return True
    except Exception:  # errors of the file are reported when it is read
        return False


def is_image(item: object) -> bool:
    """Return whether an item is a Pillow image, without importing Pillow."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(item, pillow.Image)


def _decode(content: bytes, name: str) -> Any:  # noqa: ANN401 - a PIL image
    pil = optional("PIL.Image", extra="encoders")
    if len(content) > MAX_BYTES:
        raise _refusal(name, f"{len(content)} bytes", f"at most {MAX_BYTES} bytes")
    pil.init()
    if content[4:8] == b"ftyp" and content[8:12] in HEIC_BRANDS:
        _register_heic(name)
    formats = [form for form in pil.OPEN if form in FORMATS]
    with _broken(pil, name), pil.open(io.BytesIO(content), formats=formats) as image:
        return _rgb(image, name)


def _register_heic(name: str) -> None:
    """Let Pillow decode HEIC; raise `Unreadable` if the package for it is missing."""
    try:
        heif = optional("pi_heif", extra="heic")
    except MissingExtra as error:
        allowed = "HEIC images after pip install 'unitail[heic]'"
        raise _refusal(name, "HEIC without the package pi_heif", allowed) from error
    heif.register_heif_opener()


class _Quiet:
    """Ignores warnings while any thread is decoding.

    `catch_warnings` in each thread would restore the filters it found. These may be those of
    another decoding thread, which would silence the user's warnings for good. Pillow's warnings of
    decompression bombs are not needed: sizes are checked here.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._caught = warnings.catch_warnings()
                self._caught.__enter__()
                warnings.simplefilter("ignore")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._caught.__exit__(None, None, None)


_QUIET = _Quiet()


@contextmanager
def _broken(pil: Any, name: str) -> Iterator[None]:  # noqa: ANN401 - the module PIL.Image
    """Turn any error of a decoder into `Unreadable`, and silence its warnings."""
    try:
        with _QUIET:
            yield
    except Unreadable:
        raise
    except pil.DecompressionBombError as error:
        raise _refusal(name, "far more pixels", f"images up to {MAX_PIXELS} pixels") from error
    except pil.UnidentifiedImageError as error:
        raise _refusal(name, "an unknown format") from error
    except Exception as error:
        raise _refusal(name, str(error) or type(error).__name__) from error


def _rgb(image: Any, name: str) -> Any:  # noqa: ANN401 - PIL images
    """Check the size before decoding any pixel, then return an upright, opaque RGB image."""
    width, height = image.size
    if min(width, height) < 1:
        raise _refusal(name, f"{width} x {height} pixels", "images with pixels")
    if width * height > MAX_PIXELS:
        raise _refusal(name, f"{width} x {height}", f"images up to {MAX_PIXELS} pixels")
    if max(width, height) > MAX_RATIO * min(width, height):
        raise _refusal(name, f"{width} x {height}", f"sides up to {MAX_RATIO} to 1")
    return _opaque(_upright(_eight_bit(image)))


def _eight_bit(image: Any) -> Any:  # noqa: ANN401 - PIL images
    """Convert to 8 bits; 32-bit images, whose scale is unknown, are stretched to their range."""
    if not (image.mode.startswith("I") or image.mode == "F"):
        return image
    pil = optional("PIL.Image", extra="encoders")
    values = np.nan_to_num(np.asarray(image, dtype=np.float64))
    low, high = values.min(), values.max()
    if image.mode != "F" and low >= 0 and high <= MAX_UINT16:
        low, high = 0, MAX_UINT16
    scaled = np.rint((values - low) * (255 / max(high - low, 1e-12)))
    converted = pil.fromarray(scaled.astype(np.uint8))
    converted.info["exif"] = image.info.get("exif", b"")
    return converted


def _upright(image: Any) -> Any:  # noqa: ANN401 - PIL images
    operations = optional("PIL.ImageOps", extra="encoders")
    try:
        return operations.exif_transpose(image)
    except Exception:  # broken EXIF data: leave the image as stored
        return image


def _opaque(image: Any) -> Any:  # noqa: ANN401 - PIL images
    """Convert to RGB, with transparent areas in white."""
    if image.mode not in {"LA", "La", "PA", "RGBA", "RGBa"} and "transparency" not in image.info:
        return image.convert("RGB")
    pil = optional("PIL.Image", extra="encoders")
    image = image.convert("RGBA")
    white = pil.new("RGBA", image.size, "white")
    return pil.alpha_composite(white, image).convert("RGB")


def _from_array(array: NDArray[Any]) -> Any:  # noqa: ANN401 - a PIL image
    pil = optional("PIL.Image", extra="encoders")
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))):
        raise _refusal("the array", f"shape {array.shape}", "(H, W), (H, W, 3) or (H, W, 4)")
    if array.size == 0:
        raise _refusal("the array", f"shape {array.shape}", "images with pixels")
    return pil.fromarray(np.ascontiguousarray(_to_bytes(array)))


def _to_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.uint16:
        array = array / MAX_UINT16
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    in_range = np.issubdtype(array.dtype, np.floating) and array.min() >= 0 and array.max() <= 1
    if not in_range:  # also true for NaN
        raise _refusal(
            "the array",
            f"values of {array.dtype}",
            "uint8, uint16, bool, or floats from 0 to 1",
        )
    scaled: NDArray[np.uint8] = np.rint(array * 255).astype(np.uint8)
    return scaled


def _refusal(
    name: str, got: str, allowed: str = "a complete image in a common format"
) -> Unreadable:
    return Unreadable(f"{name} cannot be read as an image", got=got, allowed=allowed)


def middle_square(image: Any, side: int) -> NDArray[np.uint8]:  # noqa: ANN401 - a PIL image
    """Crop the middle square and resize it, in one step.

    Encoders that use this must name it in their cache keys, like `efficientnet.PREPROCESSING`.
    """
    pil = optional("PIL.Image", extra="encoders")
    short = min(image.size)
    left, top = ((length - short) / 2 for length in image.size)
    box = (left, top, left + short, top + short)
    return np.array(image.resize((side, side), pil.Resampling.BICUBIC, box=box), dtype=np.uint8)


def whole_square(image: Any, side: int) -> NDArray[np.uint8]:  # noqa: ANN401 - a PIL image
    """Resize the whole image to a square, ignoring its aspect ratio."""
    pil = optional("PIL.Image", extra="encoders")
    return np.array(image.resize((side, side), pil.Resampling.BILINEAR), dtype=np.uint8)
