"""Files that are put into the folder while a studio is open on it."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.studios import answered, open_studio, wait_until, write_pictures
from unitail.studio.studio import Studio


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_pictures(tmp_path / "pictures", 6)
    write_pictures(tmp_path / "more", 9)
    return tmp_path / "pictures"


@pytest.fixture
def studio(folder: Path) -> Iterator[Studio]:
    studio = open_studio(folder)
    names = {studio.catalogue.keys[place]: ["red", "green", "blue"][place] for place in range(3)}
    studio.store.label_by_name(names)
    studio.sync()
    yield studio
    studio.stop()


@pytest.fixture
def news(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    told: list[tuple[str, Any]] = []
    monkeypatch.setattr(studio.hub, "publish", lambda name, content: told.append((name, content)))
    return told


def bring(folder: Path, number: int, name: str) -> None:
    target = folder / name
    target.parent.mkdir(exist_ok=True)
    shutil.copy(folder.parent / "more" / f"{number:04}.png", target)


def test_new_files_come_after_the_others_and_are_answered(
    studio: Studio, folder: Path, news: list[tuple[str, Any]]
) -> None:
    answered(studio)
    bring(folder, 7, "0000a.png")
    bring(folder, 8, "deep/0.png")
    (folder / "notes.txt").write_text("no picture")
    studio.check_files()
    assert studio.catalogue.items.names[6:] == ("0000a.png", "deep/0.png")
    assert ("items", {"first": 6, "names": ("0000a.png", "deep/0.png")}) in news
    assert studio.progress()["total"] == 8
    answered(studio)
    assert studio.progress()["done"] == 8
    best = studio.answers.at(studio.vectors.encoded_places()).class_ids[:, 0].tolist()
    assert best == [1, 2, 3, 1, 2, 3, 2, 3]
    news.clear()
    studio.check_files()
    assert news == []
    bring(folder, 1, "0000a.png")  # new ones are watched, too
    studio.check_files()
    assert studio.progress()["changed"] == [6]
    bring(folder, 0, "deep/1.png")
    studio.check_files()
    assert studio.catalogue.places["deep/1.png"] == 8
    studio.label({8: 1}, {8: 0}, author="")
    records = studio.results().queries.records
    assert [record.label for record in records] == ["red", "green", "blue", *[""] * 5, "red"]
    assert [record.cells["file"] for record in records][6:] == [
        str(folder / name) for name in ("0000a.png", "deep/0.png", "deep/1.png")
    ]


def test_a_labelled_file_that_comes_back_later_has_its_label(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_studio(folder)
    first.store.label_by_name({"0000.png": "red", "0001.png": "green"})
    first.stop()
    (folder / "0000.png").rename(folder.parent / "away.png")
    studio = open_studio(folder)
    assert [each["text"] for each in studio.progress()["missing_items"]] == ["0000.png"]
    told: dict[str, Any] = {}
    monkeypatch.setattr(studio.hub, "publish", told.__setitem__)
    (folder.parent / "away.png").rename(folder / "0000.png")
    studio.check_files()
    assert studio.labels.row(5).class_id == 1
    assert told["changes"]["labels"] == [[5, 1, 1]]
    assert studio.progress()["missing_items"] == []
    studio.stop()


def test_threads_take_new_files_in_by_themselves(studio: Studio, folder: Path) -> None:
    studio.start()
    wait_until(lambda: len(studio.vectors.encoded_places()) == 6)
    bring(folder, 3, "new.png")
    wait_until(lambda: len(studio.vectors.encoded_places()) == 7)
    wait_until(lambda: studio.progress()["done"] == 7)
    assert studio.catalogue.items.names[6] == "new.png"

    def best() -> list[int]:
        return list(studio.answers.at(studio.vectors.encoded_places()).class_ids[:, 0].tolist())

    wait_until(lambda: best() == [1, 2, 3, 1, 2, 3, 1])  # another thread answers
