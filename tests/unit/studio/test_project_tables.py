"""Whatever happens to a table, labels stay with their rows, or a note says where they are."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pandas
import pytest
from PIL import Image

from helpers.studio_tables import ROWS, label_rows, labels, reopened, with_column, write
from unitail.encoders.encoder import Modality
from unitail.errors import InvalidConfig, InvalidInput
from unitail.studio.catalogue import Catalogue
from unitail.studio.project import open_project
from unitail.studio.settings import ProjectSettings
from unitail.studio.store import Store


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    write(path, "x y z", ROWS)
    return path


BOTH = {"0.0": "class 0", "1.5": "class 1"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["01/02/2021", "02/01/2021", "03/01/2021"], ["25/03/2021"]),  # the day is first
        (["3", "4", "5"], ["unknown"]),  # numbers become names
        (["3", "unknown", "5"], []),  # a row goes, and names become numbers
        (["1,234", "2,345", "3,456"], ["1,5"]),  # thousands become decimals
        (["1 kg", "2 kg", "3 kg"], ["4 lb"]),  # numbers with a unit become names
    ],
)
def test_how_other_rows_are_written_changes_no_key(
    tmp_path: Path, before: list[str], after: list[str]
) -> None:
    table = tmp_path / "t.csv"
    kept = [cell for cell in before if after or cell != "unknown"]
    write(table, "a b", [[cell, n] for n, cell in enumerate(before)])
    label_rows(table, 3)
    write(table, "a b", [[cell, before.index(cell)] for cell in kept] + [[c, 9] for c in after])
    again = reopened(table)
    assert labels(again) == {cell: f"class {before.index(cell)}" for cell in kept}
    assert again.notes == ()


def test_rows_in_another_format_leave_numbers_numbers_and_are_noted(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    rows = [[f"{n}.25", n % 3] for n in range(12)]
    write(table, "a b", rows)
    label_rows(table)
    write(table, "a b", [*rows, ["12,25", 1], ["unknown", 2]])
    again = reopened(table)
    sizes = again.catalogue.items.items["a"]  # type: ignore[call-overload]
    assert sizes.tolist()[:12] == [n + 0.25 for n in range(12)]
    assert sizes.isna().tolist()[12:] == [True, True]
    assert "2 cells of 'a' without a number ('12,25')" in again.catalogue.items.guesses
    assert again.settings == reopened(table).settings
    opened = open_project(table, None, ProjectSettings())
    opened.store.undo()
    opened.store.close()
    fresh = reopened(table).catalogue.items  # without labels all is recognised anew
    assert fresh.items["a"].dtype == object  # type: ignore[call-overload]


def test_numbers_are_the_same_however_a_program_writes_them(tmp_path: Path) -> None:
    def keys(name: str, cells: list[object]) -> tuple[str, ...]:
        frame = pandas.DataFrame({"a": cells, "b": 1})
        path = tmp_path / name
        frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
        return Catalogue.read(path).keys

    first = keys("one.csv", ["1.50", "20", None])
    assert keys("two.csv", ["1.5", "20.00", "n/a"]) == first
    assert keys("three.parquet", [1.5, 20.0, None]) == first
    assert keys("four.csv", ["1.5", "20.001", ""]) != first
    long = ["1234567890123456789012345678901", "1234567890123456789012345678902", "3"]
    first, second, _ = keys("five.csv", list(long))
    assert keys("six.csv", [*reversed(long)])[1:] == (second, first)  # not "first #2"


@pytest.mark.parametrize(
    "cells",
    [
        range(8),
        ["a", "b"] * 4,
        [f"this is the long text number {n}" for n in range(8)],
        [f"missing/{n}.png" for n in range(8)],
        ["1,5"] * 8,
    ],
)
def test_a_new_column_hides_no_label_and_is_used_once_there_are_none(
    table: Path, cells: Sequence[object]
) -> None:
    label_rows(table)
    before = reopened(table).settings
    write(table, "x y z new", with_column(ROWS, cells))
    for _ in range(2):
        again = reopened(table)
        assert labels(again) == BOTH
        [note] = again.notes
        assert note.endswith(
            "rows.csv has columns that are not used, since the 2 labels of its rows were given"
            " without them: 'new'; to use them, label anew with --project FILE; if one of them"
            " holds the labels, name it with --label-column"
        )
        assert list(again.catalogue.columns) == ["x", "y", "z"]
        assert again.settings == before
    write(table, "x y z", ROWS)
    assert reopened(table).notes == ()


def test_without_labels_a_new_column_is_used(table: Path) -> None:
    reopened(table)
    write(table, "x y z new", with_column(ROWS, range(8)))
    again = reopened(table)
    assert again.settings.columns == dict.fromkeys(("x", "y", "z", "new"), "table")
    assert again.notes == ()
    texts = [f"this is the long text number {n}" for n in range(8)]
    write(table, "x y z new text", with_column(with_column(ROWS, range(8)), texts))
    columns = reopened(table).settings.columns
    assert columns is not None
    assert columns["text"] == "text"  # though all of them were "table"


def test_new_columns_do_not_change_how_others_are_read(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    rows = [[f"{n},234", n] for n in range(1, 9)]
    write(table, "a b", rows)
    label_rows(table)
    write(table, "a b new", with_column(rows, ["0,5"] * 8))
    assert reopened(table).catalogue.items.items["a"].tolist()[:2] == [1234, 2234]


def test_a_column_that_goes_while_another_comes_is_told(table: Path) -> None:
    label_rows(table)
    write(table, "x y other", ROWS)
    gone, none = reopened(table).notes
    assert "without columns that it had before: 'z'; labels are in view again" in gone
    assert none.startswith("none of the 2 labels so far belongs to these items")
    write(table, "p q r", ROWS)
    assert list(reopened(table).catalogue.columns) == ["p", "q", "r"]
    write(table, "x y z", ROWS)
    assert labels(reopened(table)) == BOTH


def test_labels_that_only_some_rows_kept_are_counted_when_a_column_is_gone(table: Path) -> None:
    write(table, "x y z", [[1, 1, ""], [2, 2, "b"]])
    label_rows(table)
    write(table, "x y", [[1, 1], [2, 2]])
    gone, _ = reopened(table).notes
    assert "'z'" in gone
    write(table, "x y z new", [[1, 1, "", 5], [3, 2, "b", 6]])
    _, some = reopened(table).notes
    assert some.startswith("1 of the 2 labels so far are of rows that are not among these")


def test_a_label_column_of_another_name_is_no_feature_and_can_be_named(table: Path) -> None:
    write(table, "x y z label", with_column(ROWS, ["one", "two", *[""] * 6]))
    label_rows(table)
    write(table, "x y z species", with_column(ROWS, ["one", "two", *[""] * 6]))
    again = reopened(table)
    assert labels(again) == BOTH
    assert list(again.catalogue.columns) == ["x", "y", "z"]
    named = reopened(table, label_column="species")
    assert labels(named) == BOTH
    assert set(named.catalogue.table_labels.values()) == {"one", "two"}
    assert reopened(table).settings.label_column == "species"
    assert reopened(table).notes == ()
    with pytest.raises(InvalidConfig, match="with another --label-column: got --label-column y"):
        reopened(table, label_column="y")


def test_a_column_that_is_used_does_not_become_the_label_column(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    label_rows(table)  # it has no column of labels
    closed: list[Store] = []

    def close(store: Store) -> None:
        closed.append(store)

    monkeypatch.setattr(Store, "close", close)
    with pytest.raises(InvalidConfig, match="with another --label-column: got --label-column z"):
        reopened(table, label_column="z")
    assert len(closed) == 1


def test_a_label_column_that_is_not_there_is_refused(table: Path) -> None:
    with pytest.raises(InvalidInput, match="no column of labels named 'spceies'"):
        reopened(table, label_column="spceies")
    assert not (table.parent / ".unitail").exists()


def test_a_content_column_of_another_name_can_be_named(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    texts = [[f"this is the long text of letter {n}", f"title {n}"] for n in range(6)]
    write(table, "body title", texts)
    label_rows(table, content_column="body")
    write(table, "text title", texts)
    with pytest.raises(InvalidInput, match="has no column 'body' to take its items from"):
        reopened(table)
    assert len(labels(reopened(table, content_column="text"))) == 2
    assert len(labels(reopened(table))) == 2


def test_without_labels_other_content_is_recognised_anew(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    assert reopened(folder).catalogue.modality is Modality.IMAGE
    (folder / "a.png").unlink()
    (folder / "a.txt").write_text("a text")
    assert reopened(folder).catalogue.modality is Modality.TEXT
    assert reopened(folder).settings.modality == "text"
    table = tmp_path / "t.csv"
    for names in ("a b", "c d"):
        write(table, names, [[1, 2], [3, 4]])
        assert list(reopened(table).catalogue.columns) == names.split()
    assert reopened(table).notes == ()


def test_columns_of_files_keep_their_labels_wherever_the_table_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    for number in range(3):
        Image.new("RGB", (8, 8), (80 * number, 0, 0)).save(folder / f"{number}.png")
    write(folder / "t.csv", "x pic", [[n, f"{n}.png"] for n in range(3)])
    label_rows(folder / "t.csv")
    both = {"0": "class 0", "1": "class 1"}
    monkeypatch.chdir(folder)
    assert labels(reopened(Path("t.csv"))) == both
    shutil.copytree(folder, tmp_path / "two")
    assert labels(reopened(Path(os.path.relpath(tmp_path / "two" / "t.csv")))) == both


def test_columns_may_be_chosen_and_stay_chosen(table: Path) -> None:
    write(table, "x y z pic", with_column(ROWS, [f"missing/{n}.png" for n in range(8)]))
    with pytest.raises(InvalidInput, match="leave the column out: --column pic=skip"):
        reopened(table)
    label_rows(table, columns={"pic": "skip", "z": "hashing"})
    again = reopened(table)
    assert again.settings.columns == {"x": "table", "y": "table", "z": "hashing", "pic": "skip"}
    layout = again.catalogue.items.layout
    assert layout is not None
    assert layout.contents["z"].encoder == "hashing"
    assert labels(reopened(table, columns={"pic": "skip"})) == BOTH
    with pytest.raises(InvalidConfig) as refused:
        reopened(table, columns={"y": "skip"})
    assert "with another --column: got --column y=skip; allowed: y=table" in str(refused.value)
    with pytest.raises(InvalidInput, match="a table has no column 'w'"):
        reopened(table, columns={"w": "skip"})
    with pytest.raises(InvalidConfig, match="--column is about a column of the examples"):
        reopened(table.parent, columns={"w": "skip"})


def test_without_labels_other_columns_begin_anew(table: Path) -> None:
    reopened(table, columns={"z": "text"})
    again = reopened(table, columns={"y": "skip"})
    assert again.settings.columns == {"x": "table", "y": "skip", "z": "table"}
    assert list(again.catalogue.columns) == ["x", "z"]
    assert reopened(table).settings == again.settings


def test_rows_that_an_earlier_version_labelled_get_the_keys_of_this_one(table: Path) -> None:
    opened = open_project(table, None, ProjectSettings())
    earlier = opened.catalogue.keys_of_converted_cells()
    assert not set(earlier) & set(opened.catalogue.keys)
    opened.store.label_by_name(dict(zip(earlier[:2], ("class 0", "class 1"), strict=True)))
    opened.store.close()
    write(table, "x y z new", with_column(ROWS, range(8)))
    assert labels(reopened(table)) == BOTH
    opened = open_project(table, None, ProjectSettings())
    assert opened.store.undo(author="").items == opened.catalogue.keys[:2]
    opened.store.close()
    assert labels(reopened(table)) == {}
