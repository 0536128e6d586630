import io
from pathlib import Path

import pytest
from PIL import Image

from helpers.sounds import write_sounds
from helpers.studios import write_pictures
from unitail.errors import Unreadable
from unitail.studio import media
from unitail.studio.catalogue import Catalogue
from unitail.studio.media import Media


def test_images_are_small_turned_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pictures(tmp_path, 1, side=900)
    turned = Image.new("RGB", (30, 10))
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(tmp_path / "turned.jpg", exif=exif)
    shown = Media(Catalogue.read(tmp_path))
    assert Image.open(io.BytesIO(shown.image(0, "small"))).size == (360, 360)
    assert Image.open(io.BytesIO(shown.image(0, "large"))).size == (900, 900)
    assert Image.open(io.BytesIO(shown.image(1, "small"))).size == (10, 30)
    first = shown.image(0, "small")
    monkeypatch.setattr(media, "jpeg_preview", lambda *_: b"made again")
    assert shown.image(0, "small") is first
    write_pictures(tmp_path, 1, side=30)
    assert shown.image(0, "small") == b"made again"
    (tmp_path / "0000.png").unlink()
    with pytest.raises(Unreadable, match="cannot be shown: got No such file"):
        shown.image(0, "small")


def test_texts_and_cells_and_search(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Grüße aus\n" + "x" * 1000)
    (tmp_path / "b.txt").write_text("something else")
    texts = Media(Catalogue.read(tmp_path))
    assert texts.content(0) == ("Grüße aus\n" + "x" * 590) + " …"
    assert texts.content(0, "large") == "Grüße aus\n" + "x" * 1000
    assert texts.search("GRÜSSE aus") == [0]
    assert texts.search("b.txt") == [1]
    assert texts.search("else nothing") == []
    (tmp_path / "b.txt").unlink()
    assert texts.content(1) == ""
    with pytest.raises(Unreadable, match="cannot be shown"):
        texts.sound(1)
    table = tmp_path / "t.csv"
    table.write_text("name,size\nAnn,1.50\nBob,\n")
    rows = Media(Catalogue.read(table))
    assert [rows.content(0), rows.content(1)] == [
        [["name", "Ann"], ["size", "1.5"]],
        [["name", "Bob"], ["size", ""]],
    ]
    assert rows.search("ann") == [0]
    with pytest.raises(Unreadable, match="the item is not a file"):
        rows.image(0, "small")


def test_sounds_are_files(tmp_path: Path) -> None:
    write_sounds(tmp_path, count=1)
    path, kind = Media(Catalogue.read(tmp_path)).sound(0)
    assert path.suffix == ".wav"
    assert kind in ("audio/x-wav", "audio/wav", "audio/vnd.wave")
