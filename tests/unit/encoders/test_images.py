import io
import os
import struct
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from unitail.encoders import images
from unitail.encoders.images import read_image
from unitail.errors import Unreadable

Colour = int | tuple[int, ...]
RED, WHITE = (255, 0, 0), (255, 255, 255)


def encoded(image: Image.Image, form: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def halves(left: Colour = 255, right: Colour = 0, *, mode: str = "L") -> Image.Image:
    """Draw an image of 8 x 4 pixels with two halves."""
    image = Image.new(mode, (8, 4), right)
    image.paste(left, (0, 0, 4, 4))
    return image


def pixels(item: object) -> NDArray[np.uint8]:
    image = read_image(item)
    assert image.mode == "RGB"
    return np.asarray(image)


def test_a_path_bytes_an_image_and_an_array_are_the_same_image(tmp_path: Path) -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8))
    path = tmp_path / "ein Bild ü.png"
    image.save(path)
    for item in (path, str(path), path.read_bytes(), image, np.asarray(image)):
        np.testing.assert_array_equal(pixels(item), np.asarray(image))


@pytest.mark.parametrize("form", ["JPEG", "TIFF", "WEBP", "PNG"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation_is_applied(form: str, orientation: int) -> None:
    upright = np.full((8, 16, 3), 40, np.uint8)
    upright[:4, :8] = 220  # the corner at the top left is light
    across = upright.swapaxes(0, 1)
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: across,
        6: across[::-1],
        7: across[::-1, ::-1],
        8: across[:, ::-1],
    }
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if form == "WEBP" else {}
    content = encoded(
        Image.fromarray(np.ascontiguousarray(stored[orientation])), form, exif=exif, **options
    )
    read = pixels(content)
    assert read.shape == upright.shape
    assert np.abs(read.astype(int) - upright).mean() < 5


def test_broken_exif_around_good_pixels_is_ignored() -> None:
    for form in ("JPEG", "PNG", "WEBP"):
        content = encoded(halves(mode="RGB"), form, exif=b"Exif\x00\x00nonsense")
        assert pixels(content).shape == (4, 8, 3)


@pytest.mark.parametrize("mode", ["L", "1", "RGB", "CMYK", "YCbCr", "P", "LAB", "HSV"])
def test_modes_become_rgb(mode: str) -> None:
    image = halves(250, 5).convert("RGB").convert(mode) if mode != "LAB" else halves(mode="LAB")
    read = pixels(image)
    if mode != "LAB":
        assert read[0, 0].min() > 200
        assert read[0, -1].max() < 50


@pytest.mark.parametrize("form", ["JPEG", "TIFF"])
def test_cmyk_files(form: str) -> None:
    read = pixels(encoded(halves(WHITE, RED, mode="RGB").convert("CMYK"), form))
    np.testing.assert_allclose(read[0, 0], WHITE, atol=12)
    np.testing.assert_allclose(read[0, -1], RED, atol=12)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA"])
def test_transparency_is_white(mode: str) -> None:
    image = Image.new("RGBA", (4, 4), (0, 0, 0, 0)).convert(mode)
    np.testing.assert_array_equal(pixels(image), 255)
    half = np.zeros((4, 4, 4), np.uint8)
    half[..., 3] = 128
    np.testing.assert_allclose(pixels(half), 127, atol=1)


def test_a_transparent_palette_or_grey_level_is_white() -> None:
    palette = halves(0, 1, mode="P")
    palette.putpalette([0, 0, 0, 255, 0, 0])
    for form in ("PNG", "GIF"):
        read = pixels(encoded(palette, form, transparency=0))
        np.testing.assert_array_equal(read[0, 0], WHITE)
        np.testing.assert_array_equal(read[0, -1], RED)
    read = pixels(encoded(halves(7, 200), "PNG", transparency=7))
    np.testing.assert_array_equal(read[0, 0], WHITE)


def test_sixteen_bits_are_scaled_and_deeper_ones_stretched() -> None:
    ramp = np.array([[257 * 20, 257 * 100, 257 * 200]], np.uint16)
    expected = np.repeat(np.array([[20, 100, 200]], np.uint8)[:, :, None], 3, 2)
    np.testing.assert_array_equal(pixels(encoded(Image.fromarray(ramp), "PNG")), expected)
    np.testing.assert_array_equal(pixels(encoded(Image.fromarray(ramp), "TIFF")), expected)
    np.testing.assert_array_equal(pixels(ramp), expected)
    deep = Image.fromarray(np.array([[-5.0, 0, 5]], np.float32))
    np.testing.assert_array_equal(pixels(deep)[0, :, 0], [0, 128, 255])
    constant = Image.fromarray(np.full((2, 2), np.nan, np.float32))
    np.testing.assert_array_equal(pixels(constant), 0)


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP", "TIFF"])
def test_the_first_frame_of_many(form: str) -> None:
    frames = [Image.new("RGB", (6, 6), colour) for colour in (RED, WHITE, (0, 0, 255))]
    options = {"lossless": True} if form == "WEBP" else {}
    content = encoded(frames[0], form, save_all=True, append_images=frames[1:], **options)
    np.testing.assert_array_equal(pixels(content)[0, 0], RED)


@pytest.mark.parametrize(
    ("array", "value"),
    [
        (np.full((2, 3), 7, np.uint8), 7),
        (np.full((2, 3, 1), 7, np.uint8), 7),
        (np.full((2, 3, 3), 0.5), 128),
        (np.ones((2, 3), bool), 255),
        (np.ones((2, 3, 4), np.float32), 255),
        (np.zeros((4, 6, 3), np.uint8)[::2, ::-2], 0),
    ],
)
def test_arrays(array: NDArray[Any], value: int) -> None:
    read = pixels(array)
    assert read.shape == (2, 3, 3)
    np.testing.assert_array_equal(read, value)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 3, 2), np.uint8), r"got shape \(2, 3, 2\)"),
        (np.zeros(3, np.uint8), r"got shape \(3,\)"),
        (np.zeros((0, 3), np.uint8), "images with pixels"),
        (np.full((2, 2), 1.5), "floats from 0 to 1"),
        (np.full((2, 2), -0.1), "floats from 0 to 1"),
        (np.full((2, 2), np.nan), "floats from 0 to 1"),
        (np.zeros((2, 2), np.int64), "values of int64"),
        (np.array([["a"]]), "cannot be read"),
    ],
)
def test_arrays_that_are_no_images(array: NDArray[Any], message: str) -> None:
    with pytest.raises(Unreadable, match=message):
        read_image(array)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"])
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_truncated_files_are_refused_by_name(form: str, share: float, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8)
    content = encoded(Image.fromarray(noise), form)
    path = tmp_path / "half.img"
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(Unreadable, match=r"half\.img cannot be read as an image"):
        read_image(path)
    lazily = path.read_bytes()
    try:
        image = Image.open(io.BytesIO(lazily))
    except OSError:
        return
    with pytest.raises(Unreadable, match="the image cannot be read"):
        read_image(image)


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\x89PNG\r\n\x1a\n", b"%!PS-Adobe-3.0 EPSF-3.0"]
)
def test_files_that_are_no_images(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.jpg").write_bytes(content)
    with pytest.raises(Unreadable, match=r"x\.jpg cannot be read as an image"):
        read_image(tmp_path / "x.jpg")


def test_formats_that_start_programs_are_not_opened() -> None:
    with pytest.raises(Unreadable, match="an unknown format"):
        read_image(encoded(halves(mode="RGB"), "EPS"))


def test_what_is_not_there_or_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for item, message in [
        (tmp_path / "nothing.png", "No such file"),
        (tmp_path, "a folder, a pipe or a device"),
        (tmp_path / "pipe", "a folder, a pipe or a device"),
        (tmp_path / "loop", "symbolic links"),
        ("a" * 5000, "too long"),
        ("nul\0", "null"),
        (3, "not an image: got int"),
        (None, "not an image: got NoneType"),
    ]:
        with pytest.raises(Unreadable, match=message):
            read_image(item)


def png_of_size(width: int, height: int) -> bytes:
    """Write a PNG whose header gives this size, without any pixels."""
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))]
    chunks += [(b"IDAT", zlib.compress(b"")), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


@pytest.mark.parametrize("side", [9_000, 10_000, 60_000])  # ours, PIL's warning, PIL's error
def test_image_bombs_are_refused(side: int) -> None:
    with pytest.raises(Unreadable, match=f"images up to {images.MAX_PIXELS} pixels"):
        read_image(png_of_size(side, side))


def test_lines_of_pixels_are_refused() -> None:
    with pytest.raises(Unreadable, match="sides up to 100 to 1"):
        read_image(np.zeros((1, 101), np.uint8))
    assert pixels(np.zeros((1, 100), np.uint8)).shape == (1, 100, 3)
    with pytest.raises(Unreadable, match="images with pixels"):
        read_image(Image.new("RGB", (0, 5)))


def test_huge_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "huge.bmp"
    halves().save(path)
    monkeypatch.setattr(images, "MAX_BYTES", path.stat().st_size - 1)
    content = path.read_bytes()
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("opened"))
    for item in (path, content):
        with pytest.raises(Unreadable, match=r"got \d+ bytes; allowed: .*at most"):
            read_image(item)


def test_threads_leave_the_filters_of_warnings_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    Image.new("RGB", (64, 64)).save(path)
    before = list(warnings.filters)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read_image, [path] * 200))
    assert list(warnings.filters) == before
