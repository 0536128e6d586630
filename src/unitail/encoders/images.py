"""Images of any kind to upright RGB images, and the limits on what is decoded."""

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
"""Files above this are not opened."""
MAX_PIXELS = 80_000_000
"""Images above this are not decoded: a small file can hold a very large image."""
MAX_RATIO = 100
"""Long side by short side; models enlarge the short side, so a line of pixels would explode."""
FORMATS = frozenset(
    ("AVIF", "BMP", "DIB", "GIF", "HEIF", "ICO", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TGA")
) | {"TIFF", "WEBP"}
"""What is decoded. Others are refused, because decoders of rare formats start other programs."""
MAX_UINT16 = 2**16 - 1
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
"""What the first bytes of a phone's pictures say, after `ftyp`."""


def read_image(item: object) -> Any:  # noqa: ANN401 - a PIL image; PIL is optional
    """Return an RGB image, upright as its EXIF says, transparency on white, the first frame.

    An item is a path, the bytes of a file, a PIL image, or an array (H, W), (H, W, 3) or
    (H, W, 4) of bytes, of 16-bit numbers or of floats from 0 to 1. Raises `Unreadable`, which
    names the file and the reason.
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
    """Tell whether a TIFF file has a second page; to count all may take longer than to read one."""
    pil = optional("PIL.Image", extra="encoders")
    try:
        with _QUIET, opened(path, MAX_BYTES) as file, pil.open(file, formats=["TIFF"]) as image:
            image.seek(1)
            return True
    except Exception:  # whatever is wrong with the file is told when it is read
        return False


def is_image(item: object) -> bool:
    """Tell whether an item is an image of Pillow, which is not imported for that."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(item, pillow.Image)


def _decode(content: bytes, name: str) -> Any:  # noqa: ANN401 - a PIL image
    pil = optional("PIL.Image", extra="encoders")
    if len(content) > MAX_BYTES:
        raise _refusal(name, f"{len(content)} bytes", f"at most {MAX_BYTES} bytes")
    pil.init()
    if content[4:8] == b"ftyp" and content[8:12] in HEIC_BRANDS:
        _learn_heic(name)
    known = [form for form in pil.OPEN if form in FORMATS]
    with _broken(pil, name), pil.open(io.BytesIO(content), formats=known) as image:
        return _rgb(image, name)


def _learn_heic(name: str) -> None:
    """Let Pillow decode HEIC, as phones write it, if the package for it is there."""
    try:
        heif = optional("pi_heif", extra="heic")
    except MissingExtra as error:
        allowed = "such images after pip install 'unitail[heic]'"
        raise _refusal(name, "HEIC without the package pi_heif", allowed) from error
    heif.register_heif_opener()


class _Quiet:
    """Ignores warnings as long as any thread decodes.

    `catch_warnings` in each thread would put back what it found, which may be another thread's
    silence, and leave the user without warnings for good. Bombs need no warning: sizes are checked.
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
    """Turn whatever decoders raise on broken files into one sentence, and keep them quiet."""
    try:
        with _QUIET:
            yield
    except Unreadable:
        raise
    except pil.DecompressionBombError as error:
        raise _refusal(name, "far more", f"images up to {MAX_PIXELS} pixels") from error
    except pil.UnidentifiedImageError as error:
        raise _refusal(name, "no format that is known") from error
    except Exception as error:
        raise _refusal(name, str(error) or type(error).__name__) from error


def _rgb(image: Any, name: str) -> Any:  # noqa: ANN401 - PIL images
    """Check the size before any pixel is decoded, then make the image upright, RGB and opaque."""
    width, height = image.size
    if min(width, height) < 1:
        raise _refusal(name, f"{width} x {height} pixels", "images with pixels")
    if width * height > MAX_PIXELS:
        raise _refusal(name, f"{width} x {height}", f"images up to {MAX_PIXELS} pixels")
    if max(width, height) > MAX_RATIO * min(width, height):
        raise _refusal(name, f"{width} x {height}", f"sides up to {MAX_RATIO} to 1")
    return _opaque(_upright(_shallow(image)))


def _shallow(image: Any) -> Any:  # noqa: ANN401 - PIL images
    """Return an image of 8 bits; 32-bit ones, whose scale is unknown, from least to greatest."""
    if not (image.mode.startswith("I") or image.mode == "F"):
        return image
    pil = optional("PIL.Image", extra="encoders")
    values = np.nan_to_num(np.asarray(image, dtype=np.float64))
    low, high = values.min(), values.max()
    if image.mode != "F" and low >= 0 and high <= MAX_UINT16:
        low, high = 0, MAX_UINT16
    scaled = np.rint((values - low) * (255 / max(high - low, 1e-12)))
    fresh = pil.fromarray(scaled.astype(np.uint8))
    fresh.info["exif"] = image.info.get("exif", b"")
    return fresh


def _upright(image: Any) -> Any:  # noqa: ANN401 - PIL images
    operations = optional("PIL.ImageOps", extra="encoders")
    try:
        return operations.exif_transpose(image)
    except Exception:  # broken EXIF around good pixels: as the file lies
        return image


def _opaque(image: Any) -> Any:  # noqa: ANN401 - PIL images
    """Return an RGB image, with white where it was transparent."""
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
    inside = np.issubdtype(array.dtype, np.floating) and array.min() >= 0 and array.max() <= 1
    if not inside:  # a NaN is not inside either
        raise _refusal(
            "the array",
            f"values of {array.dtype}",
            "uint8, uint16, bool, or floats from 0 to 1",
        )
    scaled: NDArray[np.uint8] = np.rint(array * 255).astype(np.uint8)
    return scaled


def _refusal(name: str, got: str, allowed: str = "a whole image in a usual format") -> Unreadable:
    return Unreadable(f"{name} cannot be read as an image", got=got, allowed=allowed)


def middle_square(image: Any, side: int) -> NDArray[np.uint8]:  # noqa: ANN401 - a PIL image
    """Shrink or enlarge the middle square, in one step: the crop is a box of the original.

    Who uses it names it in the keys of the cache, as `efficientnet.PREPROCESSING` does.
    """
    pil = optional("PIL.Image", extra="encoders")
    short = min(image.size)
    left, top = ((length - short) / 2 for length in image.size)
    box = (left, top, left + short, top + short)
    return np.array(image.resize((side, side), pil.Resampling.BICUBIC, box=box), dtype=np.uint8)


def whole_square(image: Any, side: int) -> NDArray[np.uint8]:  # noqa: ANN401 - a PIL image
    """Squeeze the whole image into a square, whatever its shape."""
    pil = optional("PIL.Image", extra="encoders")
    return np.array(image.resize((side, side), pil.Resampling.BILINEAR), dtype=np.uint8)
