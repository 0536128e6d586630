"""A database that goes away while a studio is open, and comes back."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from helpers.studios import answered, open_studio, post, wait_until, write_pictures
from unitail.studio.app import make_app
from unitail.studio.changes import StoreAway
from unitail.studio.studio import Studio
from unitail.web.access import Access


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    write_pictures(tmp_path / "pictures", 4)
    studio = answered(open_studio(tmp_path / "pictures"))
    yield studio
    studio.stop()


def rename(studio: Studio, before: str, after: str) -> None:
    """Take a table away from under a studio, as a server that is down takes all."""
    file = studio.catalogue.source / ".unitail" / "studio.db"
    with closing(sqlite3.connect(file)) as other, other:
        other.execute(f"ALTER TABLE {before} RENAME TO {after}")


def test_it_is_told_in_a_sentence_and_by_a_503(studio: Studio) -> None:
    app = make_app(studio, Access.at("127.0.0.1"))
    cat = studio.store.add_class("cat").class_id
    studio.sync()
    rename(studio, "counters", "elsewhere")
    sentence = "the database of the labels does not answer: got no such table: counters; allowed: "
    with pytest.raises(StoreAway, match=sentence):
        studio.store.since()
    with pytest.raises(StoreAway, match=sentence):
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
    monkeypatch.setattr(studio.hub, "tell", lambda *news: told.append(news))
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1

    monkeypatch.setattr(studio, "look_at_files", look)
    studio.start()
    rename(studio, "counters", "elsewhere")
    wait_until(lambda: any(name == "trouble" for name, _ in told))
    before = looks
    wait_until(lambda: looks > before + 2)  # it lives, and says nothing twice
    assert [name for name, _ in told].count("trouble") == 1
    assert studio.trouble == ""
    rename(studio, "elsewhere", "counters")
    wait_until(lambda: ("notice", "The database of the labels answers again.") in told)
    studio.store.add_class("cat")  # by somebody else
    wait_until(lambda: [row.name for row in studio.labels.classes()] == ["cat"])
