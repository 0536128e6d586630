"""Pictures as phones write them."""

import sys
from pathlib import Path

import pytest

from helpers.heic import RED
from unitail.encoders.images import read_image
from unitail.errors import Unreadable


def test_heic_is_read() -> None:
    image = read_image(RED)
    assert (image.mode, image.size) == ("RGB", (64, 32))
    assert image.getpixel((5, 5)) == (200, 30, 30)


def test_half_a_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "half.heic"
    path.write_bytes(RED[:200])
    with pytest.raises(Unreadable, match=r"half\.heic cannot be read as an image"):
        read_image(path)


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pi_heif", None)
    with pytest.raises(Unreadable, match=r"got HEIC without .*pip install 'unitail\[heic\]'"):
        read_image(RED)
