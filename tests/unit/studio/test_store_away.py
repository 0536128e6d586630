"""A database that goes away while a studio is open, and comes back."""

import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from helpers.studios import answered, get, open_studio, post, wait_until, write_pictures
from unitail.studio.app import make_app
from unitail.studio.store import Store
from unitail.studio.stored_rows import ActionResult, Snapshot, StoreUnavailable
from unitail.studio.studio import Studio
from unitail.web.access import Access


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    write_pictures(tmp_path / "pictures", 4)
    studio = answered(open_studio(tmp_path / "pictures"))
    yield studio
    studio.stop()


def database(studio: Studio) -> Path:
    return studio.catalogue.source / ".unitail" / "studio.db"


def rename(studio: Studio, before: str, after: str) -> None:
    """Take a table away from under a studio, as a server that is down takes all."""
    with closing(sqlite3.connect(database(studio))) as other, other:
        other.execute(f"ALTER TABLE {before} RENAME TO {after}")


def test_it_is_told_in_a_sentence_and_by_a_503(studio: Studio) -> None:
    app = make_app(studio, Access.at("127.0.0.1"))
    cat = studio.store.add_class("cat").class_id
    studio.sync()
    rename(studio, "counters", "elsewhere")
    sentence = "the label database does not answer: got no such table: counters; allowed: "
    with pytest.raises(StoreUnavailable, match=sentence):
        studio.store.since()
    with pytest.raises(StoreUnavailable, match=sentence):
        studio.store.revision()
    told = post(app, "/api/label", {"items": {"0": 0}, "class_id": cat}, status=503)
    assert told["error"].startswith(sentence)
    rename(studio, "elsewhere", "counters")
    post(app, "/api/label", {"items": {"0": 0}, "class_id": cat})
    assert studio.labels.row(0).class_id == cat


def test_a_studio_goes_on_to_look_and_tells_pages_once_and_when_it_is_back(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unitail.studio.studio.POLL_SECONDS", 0.01)
    told: list[tuple[str, object]] = []
    monkeypatch.setattr(studio.hub, "publish", lambda *news: told.append(news))
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1

    monkeypatch.setattr(studio, "check_files", look)
    studio.start()
    rename(studio, "counters", "elsewhere")
    wait_until(lambda: any(name == "trouble" for name, _ in told))
    before = looks
    wait_until(lambda: looks > before + 2)  # it lives, and says nothing twice
    assert [name for name, _ in told].count("trouble") == 1
    assert studio.trouble == ""
    rename(studio, "elsewhere", "counters")
    wait_until(lambda: ("notice", "The label database is available again.") in told)
    studio.store.add_class("cat")  # by somebody else
    wait_until(lambda: [row.name for row in studio.labels.classes()] == ["cat"])


def test_a_page_that_is_opened_meanwhile_shows_what_is_known_and_is_told(studio: Studio) -> None:
    app = make_app(studio, Access.at("127.0.0.1"))
    names = {"0000.png": "cat", "0001.png": "dog", "gone.png": "dog"}
    studio.apply(lambda store: store.label_by_name(names))
    before = get(app, "/api/state")
    assert before["trouble"] == ""
    rename(studio, "counters", "elsewhere")
    meanwhile = get(app, "/api/state")
    assert meanwhile["changes"] == before["changes"]
    assert meanwhile["trouble"].startswith("the label database does not answer: got no")
    rename(studio, "elsewhere", "counters")
    assert get(app, "/api/state")["trouble"] == ""


def test_what_was_stored_is_not_told_to_have_failed(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    since = studio.store.since

    def away(_revision: int) -> Snapshot:
        raise StoreUnavailable("it does not answer", got="nothing", allowed="an answer")

    monkeypatch.setattr(studio.store, "since", away)

    def add(store: Store) -> ActionResult:
        return store.add_class("cat")

    assert studio.apply(add, [2]).class_id == 1
    assert studio.labels.classes() == []
    monkeypatch.setattr(studio.store, "since", since)
    studio.sync()  # as what watches the store does
    assert [row.name for row in studio.labels.classes()] == ["cat"]


def test_nothing_goes_to_a_file_that_was_deleted_or_replaced(studio: Studio) -> None:
    studio.apply(lambda store: store.add_class("cat"))
    file, aside = database(studio), database(studio).parent / "aside"
    aside.mkdir()
    for each in file.parent.glob("studio.db*"):
        os.rename(each, aside / each.name)
    remedy = re.escape("Move it back; if you only have a copy, restart")
    for act in (studio.store.since, lambda: studio.store.add_class("dog")):
        with pytest.raises(
            StoreUnavailable, match=rf"database is gone: got no file .*studio\.db; .*{remedy}"
        ):
            act()
    assert not file.exists(), "and none is made"
    shutil.copy(aside / file.name, file)
    with pytest.raises(
        StoreUnavailable, match=r"database is gone: got another file at .*studio\.db"
    ):
        studio.store.add_class("dog")
    for each in aside.iterdir():
        os.replace(each, file.parent / each.name)
    assert studio.store.add_class("dog").class_id == 2
    studio.sync()
    assert [row.name for row in studio.labels.classes()] == ["cat", "dog"]


def test_a_database_without_its_revision_ends_nothing(studio: Studio) -> None:
    with closing(sqlite3.connect(database(studio))) as other, other:
        other.execute("DELETE FROM counters")
    for act in (studio.store.revision, lambda: studio.store.add_class("cat")):
        with pytest.raises(
            StoreUnavailable, match="incomplete: got no number of its last action; allowed"
        ):
            act()


def test_connections_that_are_all_taken_are_told_and_our_own_errors_are_not(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = studio.store._engine.pool
    assert isinstance(pool, sa.QueuePool)
    with monkeypatch.context() as patched:
        patched.setattr(pool, "_timeout", 0.05)
        held = [studio.store._engine.connect() for _ in range(pool.size() + pool._max_overflow)]
        with pytest.raises(
            StoreUnavailable, match="does not answer: got QueuePool limit of size 5"
        ):
            studio.store.since()
        for each in held:
            each.close()
    assert studio.store.revision() == 0
    with pytest.raises(sa.exc.IntegrityError), studio.store._reading() as connection:
        connection.execute(sa.text("INSERT INTO counters VALUES ('revision', 1)"))


def test_a_database_that_is_no_file_is_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("sqlite://", "sqlite:///:memory:"):
        store = Store(url)
        assert store.add_class("cat").class_id == 1
        store.close()
    assert list(tmp_path.iterdir()) == []
