from pathlib import Path

import pytest

from helpers import miniatures as mini
from unitail.datasets.catalogue import find_entry
from unitail.errors import InvalidInput


def read(root: Path, name: str) -> object:
    entry = find_entry(name)
    [part] = entry.parts(root, entry.split())
    return entry.read(part, entry.split(), any_version=True)


@pytest.mark.parametrize(
    ("name", "file", "text", "message"),
    [
        ("cub200", "images.txt", "1 a.jpg", r"labels\.txt is not the .* got the item '4'; allowed"),
        (
            "cub200",
            "classes.txt",
            "1 x\n3 y",
            "got the class '7'; allowed: one of the 2 that are list",
        ),
        ("cub200", "images.txt", "1 a\n1 b", "got '1' a second time in line 2; allowed: two words"),
        ("cub200", "classes.txt", "1", "got one word in line 1; allowed: two words per line"),
        (
            "aircraft",
            "data/variants.txt",
            "737-200",
            "got the label 'DHC-8-100'; allowed: one of the 1",
        ),
        (
            "aircraft",
            "data/images_variant_test.txt",
            "9999999 F/A-18",
            "got 1 of 3: data/images/999",
        ),
        (
            "pascal_voc",
            "ImageSets/Main/cow_trainval.txt",
            "2007_000001 2",
            "got the flag '2' of 2007_000001; allowed: 1, 0 or -1",
        ),
    ],
)
def test_files_that_do_not_agree_are_reported(
    tmp_path: Path, name: str, file: str, text: str, message: str
) -> None:
    getattr(mini, name)(tmp_path)
    mini.lines(tmp_path / file, *text.split("\n"))
    with pytest.raises(InvalidInput, match=message):
        read(tmp_path, name)


def test_missing_images_are_counted(tmp_path: Path) -> None:
    mini.cub200(tmp_path)
    (tmp_path / "images/001.Bird_1/b2.jpg").unlink()
    message = r"are missing: got 1 of 4: images/001\.Bird_1/b2\.jpg; allowed: all files that its"
    with pytest.raises(InvalidInput, match=message):
        read(tmp_path, "cub200")


def test_what_is_left_out_of_pascal_voc_is_counted(tmp_path: Path) -> None:
    mini.pascal_voc(tmp_path)
    contents = read(tmp_path, "pascal_voc")
    assert contents.left_out == {  # type: ignore[attr-defined]
        "items of several classes": 2,
        "items of difficult objects only": 1,
        "items of no class": 1,
    }
