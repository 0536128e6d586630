import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unitail.encoders import hashing
from unitail.encoders.hashing import content_hash
from unitail.errors import Unreadable

BYTES = np.arange(12, dtype=np.uint8)


def test_a_file_is_known_by_its_bytes_alone(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("a.png", "ä b.jpg", "c.png"))
    first.write_bytes(b"same")
    second.write_bytes(b"same")
    third.write_bytes(b"other")
    assert content_hash(first) == content_hash(second)
    assert content_hash(first) != content_hash(third)


def test_no_file_passes_for_another_item(tmp_path: Path) -> None:
    framed = b"".join(len(part).to_bytes(8, "little") + part for part in (b"text", b"abc"))
    (tmp_path / "file").write_bytes(framed)  # what is hashed of the text
    assert content_hash(tmp_path / "file") != content_hash("abc")


def test_a_large_file_is_read_to_its_end(tmp_path: Path) -> None:
    hashes = set()
    for last in (b"a", b"b"):
        (tmp_path / "file").write_bytes(b"0" * 2**20 + last)
        hashes.add(content_hash(tmp_path / "file"))
    assert len(hashes) == 2


def _image(mode: str = "L", **info: Any) -> Image.Image:  # noqa: ANN401
    image = Image.new(mode, (3, 4))
    image.putdata(BYTES.tolist())
    image.info.update(info)
    return image


def _turned() -> Image.Image:
    image = _image()
    image.getexif()[hashing.ORIENTATION] = 6
    return image


def _painted() -> Image.Image:
    image = _image("P")
    image.putpalette([255, 0, 0] * 256)
    return image


def test_different_items_have_different_hashes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    items = [
        tmp_path / "file",
        "abc",
        b"abc",
        "ab",
        "",
        b"",
        BYTES,
        BYTES.astype(np.int8),
        BYTES.reshape(3, 4),
        BYTES.reshape(4, 3),
        (BYTES, 8000),
        (BYTES, 16000),
        (BYTES[:6], 8000),
        _image(),
        _image().transpose(Image.Transpose.ROTATE_180),
        _image("P"),
        _painted(),
        _image("P", transparency=1),
        Image.frombytes("L", (4, 3), BYTES.tobytes()),
        _turned(),
    ]
    assert len({content_hash(item) for item in items}) == len(items)


def test_equal_items_have_equal_hashes(tmp_path: Path) -> None:
    _image().save(tmp_path / "image.png")
    with Image.open(tmp_path / "image.png") as opened:
        assert content_hash(opened) == content_hash(_image())
    grid = BYTES.reshape(3, 4)
    assert content_hash(grid.T) == content_hash(np.ascontiguousarray(grid.T))
    assert content_hash((BYTES, 8000)) == content_hash([BYTES, 8000.0])
    assert content_hash("\ud800") == content_hash("\ud800")  # no valid text, yet no crash


def test_a_missing_file_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"gone\.png cannot be read: got No such file"):
        content_hash(tmp_path / "gone.png")
    with pytest.raises(Unreadable, match="cannot be read: got a folder, a pipe or a device"):
        content_hash(tmp_path)
    with pytest.raises(Unreadable, match=r"cannot be read: got .*null"):
        content_hash(Path("a\0b"))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("no pipes here")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Unreadable, match="a folder, a pipe or a device"):
        content_hash(tmp_path / "pipe")


def test_a_huge_file_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "MAX_BYTES", 3)
    (tmp_path / "three").write_bytes(b"123")
    (tmp_path / "four").write_bytes(b"1234")
    content_hash(tmp_path / "three")
    with pytest.raises(Unreadable, match="allowed: a file of at most 3 bytes"):
        content_hash(tmp_path / "four")


def test_a_truncated_image_is_unreadable(tmp_path: Path) -> None:
    Image.effect_noise((64, 64), 50).save(tmp_path / "noise.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "noise.png").read_bytes()[:1000])
    with (
        Image.open(tmp_path / "cut.png") as opened,
        pytest.raises(Unreadable, match=r"the image cannot be decoded: got .*truncated"),
    ):
        content_hash(opened)


@pytest.mark.parametrize("item", [3, None, ["a"], {"a": 1}, np.array([None])])
def test_other_types_are_refused(item: object) -> None:
    with pytest.raises(Unreadable, match=r"cannot be encoded: got \w+; allowed: a path, a text"):
        content_hash(item)


def test_broken_notes_do_not_matter(tmp_path: Path) -> None:
    _image().save(tmp_path / "image.png", exif=b"Exif\0\0MM\0*\xff\xff")
    with Image.open(tmp_path / "image.png") as opened:
        assert content_hash(opened) == content_hash(_image())
