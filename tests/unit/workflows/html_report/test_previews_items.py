import io
import math
from pathlib import Path

import pytest
from PIL import Image

from unitail.errors import Unreadable
from unitail.workflows.html_report.previews import cell_preview, jpeg_preview, text_preview


def test_images_are_small_turned_and_never_enlarged(tmp_path: Path) -> None:
    picture = Image.new("RGB", (30, 10))
    exif = picture.getexif()
    exif[0x0112] = 6
    picture.save(tmp_path / "turned.png", exif=exif)
    for side, size in ((15, (5, 15)), (90, (10, 30))):
        made = Image.open(io.BytesIO(jpeg_preview(tmp_path / "turned.png", side, 80)))
        assert (made.format, made.size) == ("JPEG", size)


def test_a_missing_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="cannot be read as an image: got No such file"):
        jpeg_preview(tmp_path / "gone.png", 10, 80)


def test_texts_are_cut_after_characters_not_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\N{BYTE ORDER MARK}".encode() + "\U0001f600".encode() * 6 + b"\n")
    smiles = "\U0001f600"
    assert text_preview(path, 6) == text_preview(smiles * 6, 6) == smiles * 6
    assert text_preview(path, 5) == text_preview(smiles * 6, 5) == f"{smiles * 5} …"
    assert text_preview("one two", 4) == "one …"
    assert text_preview(tmp_path / "gone.txt", 5) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "?"), (math.nan, "?"), (1.5, "1.5"), (2.0, "2"), (0, "0"), ("", ""), ("x", "x")],
)
def test_cells_are_short_and_what_is_missing_is_reported(value: object, text: str) -> None:
    assert cell_preview(value, missing="?") == text
