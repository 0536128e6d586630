from pathlib import Path

import pytest

from helpers import miniatures as mini
from unitail.datasets.csv_index import CsvIndex
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput

INDEX = CsvIndex(file="t.csv", item="file", label="kind", split_column="part", splits=("test",))


def _write(root: Path, *content: tuple[str, ...]) -> None:
    mini.rows(root / "t.csv", ("file", "kind", "part"), content)
    mini.touch(root, *(row[0] for row in content if row and row[0]))


def test_rows_of_other_splits_and_without_a_label_are_counted(tmp_path: Path) -> None:
    _write(tmp_path, ("1", "a", "test"), ("2", "b", "train"), ("3", "", "test"), ("4", "b", "test"))
    contents = INDEX.read(tmp_path, Modality.IMAGE)
    assert contents.items == [tmp_path / "1", tmp_path / "4"]
    assert list(contents.labels) == ["a", "b"]
    assert contents.left_out == {"items of other splits": 1, "items without a label": 1}


def test_a_file_is_never_two_items(tmp_path: Path) -> None:
    index = CsvIndex(file="t.csv", item="file", label="kind", no_item=("N/A",))
    again = [("1", "a", ""), ("2", "b", ""), ("1", "b", ""), ("N/A", "a", ""), ("3", "a", "")]
    _write(tmp_path, *again)
    contents = index.read(tmp_path, Modality.IMAGE)
    assert list(zip(contents.items, contents.labels, strict=True)) == [
        (tmp_path / "2", "b"),
        (tmp_path / "3", "a"),
    ]
    assert contents.left_out == {"rows without a file": 1, "rows that share a file": 2}
    assert index.read(tmp_path, Modality.TEXT).items == ["1", "2", "1", "3"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([("1", "a")], r"line 2 of .*t\.csv is not a row .*: got 2 cells; allowed: 3 cells: file"),
        ([("", "a", "test")], r"line 2 of .*t\.csv names no item: got an empty cell 'file'"),
    ],
)
def test_broken_rows_are_reported(tmp_path: Path, content: list[tuple[str]], message: str) -> None:
    _write(tmp_path, *content)
    with pytest.raises(InvalidInput, match=message):
        INDEX.read(tmp_path, Modality.IMAGE)


def test_a_missing_column_file_or_image_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"t\.csv cannot be read: got no such file"):
        INDEX.read(tmp_path, Modality.IMAGE)
    mini.rows(tmp_path / "t.csv", ("file", "class", "part"), [("1", "a", "test")])
    with pytest.raises(InvalidInput, match=r"t\.csv has no column 'kind': got file, class, part"):
        INDEX.read(tmp_path, Modality.IMAGE)
    mini.rows(tmp_path / "t.csv", ("file", "kind", "part"), [("1", "a", "test")])
    with pytest.raises(InvalidInput, match=r"files of .* are missing: got 1 of 1: 1; allowed"):
        INDEX.read(tmp_path, Modality.IMAGE)
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00bad")
    with pytest.raises(InvalidInput, match=r"t\.csv cannot be read: got 'utf-8' codec"):
        INDEX.read(tmp_path, Modality.IMAGE)


def test_a_collection_without_sets_and_a_broken_info_are_reported(tmp_path: Path) -> None:
    many = CsvIndex(file="t.csv", item="file", label="kind", each="*", columns_from="info.json")
    mini.touch(tmp_path, "other.txt")
    with pytest.raises(InvalidInput, match=r"holds no data set of the collection: got other\.txt"):
        many.parts(tmp_path)
    _write(tmp_path / "one", ("1", "a", "test"))
    (tmp_path / "one" / "info.json").write_text("{")
    [part] = many.parts(tmp_path)
    with pytest.raises(InvalidInput, match=r"info\.json cannot be read: got JSONDecodeError"):
        part.shape.read(part.root, Modality.IMAGE)
