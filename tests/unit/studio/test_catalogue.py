import os
import sys
from pathlib import Path

import pytest

from helpers.studios import write_pictures
from unitail.errors import InvalidInput
from unitail.studio.catalogue import Catalogue


def test_files_are_known_by_their_paths(tmp_path: Path) -> None:
    write_pictures(tmp_path / "b", 2)
    write_pictures(tmp_path / "a", 1)
    catalogue = Catalogue.read(tmp_path)
    assert catalogue.keys == ("a/0000.png", "b/0000.png", "b/0001.png")
    assert catalogue.places["b/0001.png"] == 2
    assert catalogue.folder_classes() == {"a": [0], "b": [1, 2]}
    write_pictures(tmp_path, 1)
    assert Catalogue.read(tmp_path).folder_classes() == {}


@pytest.mark.skipif(sys.platform != "linux", reason="names are text here")
def test_a_name_that_is_no_text_has_a_key_that_is(tmp_path: Path) -> None:
    write_pictures(tmp_path, 1)
    os.rename(tmp_path / "0000.png", os.fsencode(tmp_path) + b"/\xff.png")
    [key] = Catalogue.read(tmp_path).keys
    assert key == "bytes %FF.png"


def test_rows_are_known_by_what_they_hold_wherever_they_are(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("text,label\nmy first text,\nanother one here,spam\nmy first text,ham\n")
    before = Catalogue.read(table)
    assert before.table_labels == {1: "spam", 2: "ham"}
    assert before.keys[2] == f"{before.keys[0]} #2"
    table.write_text("text\nanother one here\nmy first text\n")
    assert Catalogue.read(table).keys == (before.keys[1], before.keys[0])
    numbers = tmp_path / "n.csv"
    numbers.write_text("a,b\n1,2\n1,3\n1,2\n")
    keys = Catalogue.read(numbers).keys
    assert keys[2] == f"{keys[0]} #2"
    assert keys[1] != keys[0]


def test_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be opened in a studio: got no such file"):
        Catalogue.read(tmp_path / "none")
    (tmp_path / "x.py").write_text("")
    with pytest.raises(InvalidInput, match="got another file"):
        Catalogue.read(tmp_path / "x.py")
    write_pictures(tmp_path, 2)
    catalogue = Catalogue.read(tmp_path)
    with pytest.raises(InvalidInput, match=r"got 2; allowed: 0 to 1\. Choose another"):
        catalogue.require(2)


def test_columns_of_texts_have_more_room(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("size,kind,text\n1,small,a text that is longer than a word\n2,large,\n")
    assert Catalogue.read(table).columns == {"size": False, "kind": False, "text": True}
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("one")
    assert Catalogue.read(tmp_path / "notes").columns == {}
