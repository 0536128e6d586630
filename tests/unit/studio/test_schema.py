"""A database whose file is damaged: it is told, and left as it is."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from helpers.studios import answered, get, open_studio, post, write_pictures
from unitail.studio.app import make_app
from unitail.studio.store import Store
from unitail.studio.stored_rows import Origin, StoreUnavailable
from unitail.web.access import Access

PAGE = 4096


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Make a database of many labels, all in one file."""
    file = tmp_path / "labels.db"
    store = Store(f"sqlite:///{file}")
    store.label_by_name({f"item {number}": f"class {number % 3}" for number in range(400)})
    store.close()
    return file


def damage_table(file: Path, table: str, content: bytes) -> bytes:
    """Write nonsense over the first page of a table."""
    with closing(sqlite3.connect(file)) as database:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        [[root]] = database.execute(query, [table]).fetchall()
    start = (root - 1) * PAGE
    return content[:start] + b"\xff" * PAGE + content[start + PAGE :]


def damage_a_name(_file: Path, content: bytes) -> bytes:
    return content.replace(b"CREATE TABLE classes", b"\xf4REATE TABLE classes")


DAMAGES: dict[str, Callable[[Path, bytes], bytes]] = {
    "no database at all": lambda _, content: b"plain text" * 999,
    "the end is missing": lambda _, content: content[: len(content) // 2],
    "a page is another": lambda file, content: damage_table(file, "labels", content),
    "a name is no text": damage_a_name,
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_file_is_told_when_it_is_opened_and_not_written_to(file: Path, how: str) -> None:
    content = DAMAGES[how](file, file.read_bytes())
    file.write_bytes(content)
    with pytest.raises(StoreUnavailable) as refused:
        Store(f"sqlite:///{file}")
    told = str(refused.value)
    assert re.match(
        r"the label database is damaged, or is not a database: got .*labels\.db: .+; allowed: a"
        r"n intact database of a studio\. Nothing was written to it: tools such as"
        r" \.recover of sqlite3 may still save what can be read\. Restore it from a copy, or start"
        r" anew with another --project\.$",
        told,
    )
    assert file.read_bytes() == content


def test_damage_under_an_open_studio_is_a_sentence_and_the_page_goes_on(tmp_path: Path) -> None:
    write_pictures(tmp_path / "pictures", 4)
    studio = answered(open_studio(tmp_path / "pictures"))
    app = make_app(studio, Access.at("127.0.0.1"))
    cat = studio.store.add_class("cat").class_id
    studio.sync()
    studio.store.close()  # what the connections hold in memory is not damaged
    file = tmp_path / "pictures" / ".unitail" / "studio.db"
    content = file.read_bytes()
    file.write_bytes(damage_table(file, "counters", content))
    told = post(app, "/api/label", {"items": {"0": 0}, "class_id": cat}, status=503)
    assert told["error"].startswith("the label database is damaged, or is not a database: got ")
    state = get(app, "/api/state")
    assert "cat" in str(state["changes"])
    assert state["trouble"] == told["error"]
    studio.store.close()
    file.write_bytes(content)
    post(app, "/api/label", {"items": {"0": 0}, "class_id": cat})
    assert studio.labels.row(0).class_id == cat
    studio.stop()


def test_databases_of_earlier_versions_get_the_columns_that_they_lack(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute("ALTER TABLE labels DROP COLUMN origin")
        database.execute("ALTER TABLE labels DROP COLUMN excerpt")
        database.execute("DROP TABLE settings")
    for _ in range(2):  # the second time nothing is missing
        store = Store(f"sqlite:///{file}")
        assert {(row.origin, row.excerpt) for row in store.since().labels} == {("chosen", None)}
        assert store.settings() == {}
        store.close()


def test_the_origin_of_a_label_is_kept_and_undone_with_it(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'labels.db'}")
    [row] = [store.add_class("a")]
    assert row.class_id is not None
    store.label_each({"x": row.class_id}, {}, origin=Origin.SUGGESTED)
    [label] = store.since().labels
    assert label.origin == "suggested"
    store.label_each({"x": row.class_id}, {"x": label.version}, origin=Origin.CONFIRMED)
    assert [each.origin for each in store.since().labels] == ["confirmed"]
    store.undo()
    assert [each.origin for each in store.since().labels] == ["suggested"]
    store.close()
