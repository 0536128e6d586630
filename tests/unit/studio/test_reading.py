"""Which reading of a table shows most labels, and options that would hide some."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pandas
import pytest

from helpers.studio_tables import ROWS, label_rows, labels, reopened, with_column, write
from helpers.studios import open_studio
from unitail.errors import InvalidConfig, InvalidInput
from unitail.studio.catalogue import Catalogue
from unitail.studio.project import open_project
from unitail.studio.settings import ProjectSettings
from unitail.studio.studio import Studio

BOTH = {"0.0": "class 0", "1.5": "class 1"}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    write(path, "x y z", ROWS)
    return path


def open_again(table: Path) -> Studio:
    opened = open_project(table, None, ProjectSettings())
    opened.store.close()
    return open_studio(table, notes=opened.notes, takes_table_labels=opened.takes_table_labels)


@pytest.mark.parametrize(
    "given",
    [
        {"content_column": "z"},
        {"content_column": "note"},
        {"columns": {"y": "skip"}},
        {"columns": {"note": "text"}},
        {"modality": "text"},
    ],
)
def test_what_would_hide_labels_of_rows_is_refused_and_changes_nothing(
    table: Path, given: dict[str, object]
) -> None:
    label_rows(table, columns={"z": "hashing"})
    notes = [f"this is the long text number {n}" for n in range(8)]
    write(table, "x y z note", with_column(ROWS, notes))
    before = reopened(table).settings
    with pytest.raises(InvalidConfig, match=r"^the labels of .* were given with another --"):
        reopened(table, **given)
    again = reopened(table)
    assert (again.settings, labels(again)) == (before, BOTH)


def test_the_column_of_texts_does_not_become_the_label_column(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    texts = [[f"this is the long text of letter {n}", f"title {n}"] for n in range(6)]
    write(table, "body title", texts)
    label_rows(table, content_column="body")
    before = reopened(table).settings
    with pytest.raises(InvalidConfig, match="with another --label-column: got --label-column body"):
        reopened(table, label_column="body")
    again = reopened(table)
    assert (again.settings, len(labels(again))) == (before, 2)


def test_kinds_that_hide_nothing_may_change(table: Path) -> None:
    label_rows(table)
    for kind in ("hashing", "table"):
        again = reopened(table, columns={"z": kind})
        assert labels(again) == BOTH
        columns = reopened(table).settings.columns
        assert columns is not None
        assert columns["z"] == kind
    write(table, "x y z new", with_column(ROWS, range(8)))
    assert len(reopened(table).notes) == 1
    assert reopened(table, columns={"new": "skip"}).notes == ()
    assert reopened(table).notes == ()  # it is known now


@pytest.mark.parametrize(
    "codes", [["7", "007", "A1"], ["1.1", "1.10", "2.0.1"], ["100000", "1e5", "f3a"]]
)
def test_codes_that_look_like_numbers_keep_rows_apart(tmp_path: Path, codes: list[str]) -> None:
    table = tmp_path / "t.csv"
    write(table, "code size", [[code, 5] for code in codes])
    label_rows(table)
    first, second, third = codes
    write(table, "code size", [[code, 5] for code in (second, first, third)])
    assert labels(reopened(table)) == {first: "class 0", second: "class 1"}


def test_a_code_keeps_its_label_when_one_that_looks_like_it_comes(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    write(table, "code size", [["007", 5], ["A1", 5]])
    label_rows(table)
    write(table, "code size", [["7", 5], ["007", 5], ["A1", 5]])
    assert labels(reopened(table)) == {"007": "class 0", "A1": "class 1"}


def test_numbers_have_the_same_keys_in_other_formats(tmp_path: Path) -> None:
    numbers = [1e-7, -1e20, 1.5e300, -0.5, 3.0, 12345678901234567.0]
    frame = pandas.DataFrame({"a": numbers, "b": 1})
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    first, second = (Catalogue.read(tmp_path / name).keys for name in ("t.parquet", "t.csv"))
    assert first == second
    assert len(set(first)) == len(numbers)


def test_labels_of_content_that_replaced_other_content_are_kept_too(table: Path) -> None:
    label_rows(table)
    other = [[n, n * n, n % 2] for n in range(8)]
    write(table, "p q r", other)
    reopened(table)
    label_rows(table, 3)
    write(table, "p q r s", with_column(other, range(8)))
    for _ in range(2):
        again = reopened(table)
        assert labels(again) == {"0": "class 0", "1": "class 1", "2": "class 2"}
        assert "the 3 labels of its rows were given without them: 's'" in again.notes[0]
    write(table, "x y z", ROWS)
    assert labels(reopened(table)) == BOTH


def test_one_row_of_before_does_not_hide_the_labels_of_many_others(table: Path) -> None:
    label_rows(table, 2)
    later = [[n + 100, n % 3, "kind 0", n] for n in range(8)]
    write(table, "x y z new", later)
    reopened(table)
    label_rows(table, 6)
    write(table, "x y z new", [*later, [*ROWS[0], 5]])
    assert len(labels(reopened(table))) == 6
    write(table, "x y z", ROWS)
    assert labels(reopened(table)) == BOTH


def test_labels_of_the_table_do_not_come_back_while_a_column_is_gone(table: Path) -> None:
    write(table, "x y z label", with_column(ROWS, ["a", "b"] * 4))
    studio = open_again(table)
    first = {0: next(row.id for row in studio.labels.classes() if row.name == "b")}
    studio.label(first, {0: studio.labels.row(0).version}, author="me")
    studio.stop()
    write(table, "x y label", [[x, y, "ab"[n % 2]] for n, (x, y, _) in enumerate(ROWS)])
    studio = open_again(table)
    assert studio.labels.labelled().places == ()
    studio.stop()
    write(table, "x y z label", with_column(ROWS, ["a", "b"] * 4))
    studio = open_again(table)
    assert labels(reopened(table))["0.0"] == "b"
    assert (len(studio.labels.labelled().places), studio.labels.missing()) == (8, [])
    studio.stop()


def test_a_later_label_that_cannot_be_a_class_is_noted(table: Path) -> None:
    label_rows(table)
    write(table, "x y z label", with_column(ROWS, ["", "", "c" * 101, *[""] * 5]))
    studio = open_again(table)
    [note] = studio.notes
    assert note.startswith(f"Not used: 1 label, added to {table} later: this cannot be the name of")
    assert len(studio.labels.labelled().places) == 2
    studio.stop()


def test_a_column_that_is_not_used_may_become_the_label_column(table: Path) -> None:
    write(table, "x y id", [[x, y, n] for n, (x, y, _) in enumerate(ROWS)])
    label_rows(table, columns={"id": "skip"})
    again = reopened(table, label_column="id")
    assert labels(again) == BOTH
    assert len(again.catalogue.table_labels) == 8


def test_impossible_columns_are_refused(table: Path) -> None:
    write(table, "x y z label", with_column(ROWS, ["a", "b"] * 4))
    with pytest.raises(InvalidConfig, match="the column of labels has no other kind"):
        reopened(table, columns={"label": "skip"})
    with pytest.raises(InvalidInput, match="no column is left: got --column NAME=skip for all"):
        reopened(table, columns=dict.fromkeys("xyz", "skip"))
    assert reopened(table, columns={"x": "skip", "y": "skip"}).settings.columns == {
        **{"z": "table", "x": "skip", "y": "skip"}
    }


def test_what_is_given_for_columns_and_for_all_of_them_both_count(table: Path) -> None:
    texts = [f"this is the long text number {n}" for n in range(8)]
    write(table, "x y z note", with_column(ROWS, texts))
    again = reopened(table, modality="table", columns={"x": "skip"})
    assert again.settings.columns == {**dict.fromkeys(("y", "z", "note"), "table"), "x": "skip"}


def test_options_that_begin_anew_keep_the_encoder(table: Path) -> None:
    reopened(table, columns={"z": "text"}, encoder="hashing")
    again = reopened(table, columns={"z": "table"})
    assert again.settings.encoder == "hashing"


def test_row_numbers_are_not_new_columns(table: Path) -> None:
    label_rows(table)
    before = reopened(table).settings
    pandas.read_csv(table, sep=";").to_csv(table, sep=";")  # with its index
    again = reopened(table)
    assert (again.settings, again.notes) == (before, ())
    assert sorted(labels(again).values()) == ["class 0", "class 1"]
    pandas.read_csv(table, sep=";", index_col=0).assign(new=1).to_csv(table, sep=";")
    again = reopened(table)
    assert sorted(labels(again).values()) == ["class 0", "class 1"]
    assert "were given without them: 'new'; to use them, label anew" in again.notes[0]


def test_an_option_that_shows_fewer_labels_is_refused(table: Path) -> None:
    label_rows(table, 2)
    write(table, "x y", [row[:2] for row in ROWS])
    reopened(table)
    label_rows(table, 3)
    write(table, "x y z", ROWS)
    assert len(labels(reopened(table))) == 3
    with pytest.raises(InvalidConfig, match="got --column x=skip; allowed: x=table, as for the 5"):
        reopened(table, columns={"x": "skip"})  # the first two would be in view
    write(table, "p q r label", with_column(ROWS, [""] * 8))
    assert list(reopened(table, columns={"p": "skip"}).catalogue.columns) == ["q", "r"]
    assert list(reopened(table).catalogue.columns) == ["q", "r"]
    with pytest.raises(InvalidConfig, match="with another --column: got --column q=text"):
        reopened(table, columns={"q": "text"})  # none is in view, with or without


def test_an_option_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    rows = [[f"this is the long text of letter {n}", f"missing/{n}.png"] for n in range(6)]
    write(table, "body picture", rows)
    label_rows(table, content_column="body")
    with pytest.raises(InvalidConfig, match="got --content-column picture; allowed: body"):
        reopened(table, content_column="picture")
    write(table, "text picture", rows)
    with pytest.raises(InvalidInput, match="none of the files named in column 'picture' exists"):
        reopened(table, content_column="picture")


def test_a_database_without_settings_says_which_options_may_have_been_others(table: Path) -> None:
    label_rows(table)
    with closing(sqlite3.connect(table.parent / ".unitail" / f"{table.name}.studio.db")) as file:
        file.execute("DROP TABLE settings")
    [note] = reopened(table, columns={"y": "skip"}).notes
    assert "--label-column, --column or --modality" in note
    assert labels(reopened(table)) == BOTH


def test_rows_labelled_in_two_versions_keep_both_keys(table: Path) -> None:
    opened = open_project(table, None, ProjectSettings())
    old, new = opened.catalogue.keys_of_converted_cells()[0], opened.catalogue.keys[0]
    opened.store.label_by_name({old: "earlier", new: "later"})
    opened.store.close()
    assert labels(reopened(table)) == {"0.0": "later"}
