"""Settings that are stored with the labels: what was labelled is in view whenever it is opened."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from unitail.encoders.encoder import Modality
from unitail.errors import InvalidConfig, InvalidInput
from unitail.studio.catalogue import Catalogue
from unitail.studio.project import Project, open_project
from unitail.studio.settings import ProjectSettings

TEXTS = "title,body,label,other\n" + "".join(
    f"Mr {n},this is the long text of a letter about {n},{'ab'[n % 2]},{n}\n" for n in range(8)
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "two.csv"
    path.write_text(TEXTS)
    return path


def reopened(source: Path, project: str | None = None, **given: str) -> Project:
    """Open a project, and close its database."""
    opened = open_project(source, project, ProjectSettings(**given))  # type: ignore[arg-type]
    opened.store.close()
    return opened


def label_some(source: Path, **given: str) -> set[str]:
    """Label the first two items, and return their keys."""
    opened = open_project(source, None, ProjectSettings(**given))  # type: ignore[arg-type]
    keys = opened.catalogue.keys[:2]
    opened.store.label_by_name(dict(zip(keys, ("one", "two"), strict=True)))
    opened.store.close()
    return set(keys)


def test_a_table_is_read_as_when_it_was_first_opened(table: Path) -> None:
    keys = label_some(table, content_column="body", label_column="other")
    for _ in range(2):
        again = reopened(table)
        assert keys <= set(again.catalogue.places)
        assert again.catalogue.modality is Modality.TEXT
        assert again.catalogue.label_column == "other"
        assert again.notes == ()


def test_what_was_recognised_is_not_guessed_again(table: Path) -> None:
    """With more rows a number identifies none, and a table of texts becomes one of rows."""

    def write(numbers: list[int]) -> None:
        rows = (f"{n},this is a long text of many words: {r}\n" for r, n in enumerate(numbers))
        table.write_text("number,body\n" + "".join(rows))

    write(list(range(30)))
    keys = label_some(table)
    write([*range(30), *[1, 2, 3] * 30])
    assert Catalogue.read(table).modality is Modality.TABLE
    again = reopened(table)
    assert again.catalogue.modality is Modality.TEXT
    assert keys <= set(again.catalogue.places)


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ({"content_column": "title"}, "got --content-column title; allowed: body, as for the 2"),
        (
            {"label_column": "title"},
            "got --label-column title; allowed: label, as for the 2 labels",
        ),
        ({"modality": "table"}, "got --modality table; allowed: text"),
    ],
)
def test_an_option_that_would_hide_labels_is_refused(
    table: Path, given: dict[str, str], got: str
) -> None:
    keys = label_some(table, content_column="body")
    with pytest.raises(InvalidConfig, match=got) as refused:
        reopened(table, **given)
    assert "or keep other labels elsewhere with --project FILE" in str(refused.value)
    same = reopened(table, content_column="body", label_column="label", modality="text")
    assert keys <= set(same.catalogue.places)
    elsewhere = reopened(table, str(table.parent / "other.db"), content_column="title")
    assert elsewhere.catalogue.items.content_column == "title"


def test_without_labels_another_option_begins_anew(table: Path) -> None:
    reopened(table, content_column="body")
    assert reopened(table, content_column="title").settings.content_column == "title"
    assert reopened(table, modality="table").catalogue.modality is Modality.TABLE
    assert reopened(table).catalogue.modality is Modality.TABLE


def test_another_encoder_is_used_from_then_on_and_noted(table: Path) -> None:
    label_some(table, content_column="body", encoder="minilm")
    assert reopened(table).settings.encoder == "minilm"
    changed = reopened(table, encoder="hashing")
    assert changed.notes == ("the encoder is now hashing; it was minilm",)
    again = reopened(table)
    assert (again.settings.encoder, again.settings.content_column) == ("hashing", "body")


def test_labels_of_earlier_versions_are_not_hidden_silently(table: Path) -> None:
    label_some(table, content_column="body")
    file = table.parent / ".unitail" / "two.csv.studio.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("DROP TABLE settings")
    [note] = reopened(table, content_column="title").notes
    assert note.startswith("none of the 2 labels so far belongs to these items: they may have been")
    assert reopened(table, content_column="body").notes == ()
    assert reopened(table).settings.content_column == "body"  # only what fits is stored


NOTES = [f"this is note number {n} with a few more words in it" for n in range(30)]


def write_rows(path: Path, columns: str, rows: Iterable[int] = range(30)) -> None:
    """Write some columns of a table whose `id` tells rows apart."""
    cells = [{"x": n * 1.5, "y": n % 7, "id": n, "note": NOTES[n]} for n in rows]
    names = columns.split()
    lines = (",".join(str(row[name]) for name in names) for row in cells)
    path.write_text("\n".join([",".join(names), *lines, ""]))


@pytest.mark.parametrize("given", [{}, {"modality": "table"}])
@pytest.mark.parametrize("columns", ["x y id", "x y note", "x y"])
def test_rows_keep_their_labels_whatever_happens_to_other_rows(
    table: Path, columns: str, given: dict[str, str]
) -> None:
    write_rows(table, columns, range(25))
    keys = label_some(table, **given)
    before = reopened(table).settings
    for rows in (range(25), range(30), range(10), [0, 1, *range(20)]):
        write_rows(table, columns, rows)
        for options in ({}, given):
            again = reopened(table, **options)
            assert keys <= set(again.catalogue.places)
            assert (again.settings, again.notes) == (before, ())


def test_a_column_that_was_used_is_used_when_it_only_tells_rows_apart(table: Path) -> None:
    write_rows(table, "x y id", [*range(30), 4])
    keys = label_some(table)
    write_rows(table, "x y id")
    again = reopened(table)
    assert keys <= set(again.catalogue.places)
    assert again.settings.columns == {"x": "table", "y": "table", "id": "table"}


def test_a_table_that_lost_a_column_is_opened_and_has_its_labels_when_it_is_back(
    table: Path,
) -> None:
    write_rows(table, "x y id note")
    keys = label_some(table, modality="table")
    before = reopened(table).settings
    write_rows(table, "x id")
    lost = reopened(table)
    assert list(lost.catalogue.columns) == ["x", "id"]  # id is not guessed anew
    gone, unknown = lost.notes
    assert "two.csv was read without columns that it had before: 'y', 'note'; labels are in" in gone
    assert unknown.startswith("none of the 2 labels so far belongs to these items: they may be of")
    assert lost.settings.columns == before.columns
    write_rows(table, "x y id note")
    again = reopened(table)
    assert keys <= set(again.catalogue.places)
    assert (again.settings.columns, again.notes) == (before.columns, ())


def test_a_column_that_no_label_needs_may_go(table: Path) -> None:
    write_rows(table, "x y id")
    keys = label_some(table)
    write_rows(table, "x y")
    again = reopened(table)
    assert keys <= set(again.catalogue.places)
    assert again.notes == ()
    write_rows(table, "id")
    assert list(reopened(table).catalogue.columns) == ["id"]  # what was skipped is all there is


def test_a_table_that_cannot_be_read_as_before_is_not_guessed(table: Path) -> None:
    folder = table.parent / "files"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.txt").write_text("words")
    table.write_text("x,file\n" + "".join(f"{n},files/{n}.txt\n" for n in range(4)))
    label_some(table)
    before = reopened(table).settings
    assert before.columns == {"file": "text", "x": "table"}
    folder.rename(table.parent / "elsewhere")
    with pytest.raises(InvalidInput, match="none of the files named in column 'file' exists"):
        reopened(table)
    (table.parent / "elsewhere").rename(folder)
    assert reopened(table).settings == before


def test_settings_of_a_newer_version_are_kept(table: Path) -> None:
    opened = open_project(table, None, ProjectSettings(content_column="body"))
    opened.store.save_settings({"colour": "blue"})
    opened.store.close()
    opened = open_project(table, None, ProjectSettings(encoder="hashing"))
    stored = opened.store.settings()
    opened.store.close()
    assert (stored["colour"], stored["encoder"]) == ("blue", "hashing")


def test_nothing_is_created_for_what_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for source in (tmp_path / "empty", tmp_path / "none", tmp_path / "none.csv"):
        with pytest.raises(InvalidInput):
            reopened(source)
    assert [each.name for each in tmp_path.rglob("*")] == ["empty"]
