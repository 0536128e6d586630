"""Files and tables that change or vanish, while a studio is open on them or in between."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.studios import add, answered, answers, label, open_studio, write_pictures
from unitail.studio.state import Answered
from unitail.studio.studio import Studio


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_pictures(tmp_path / "pictures", 30)
    return tmp_path / "pictures"


@pytest.fixture
def studio(folder: Path) -> Iterator[Studio]:
    studio = open_studio(folder)
    yield studio
    studio.stop()


def test_files_that_vanish_change_or_come_back_are_told(studio: Studio, folder: Path) -> None:
    add(studio, "red", "green")
    answered(studio)
    label(studio, red=[0], green=[1])
    studio.answerer.answer_all()
    shutil.move(folder / "0005.png", folder.parent / "0005.png")
    shutil.copy(folder / "0001.png", folder / "0000.png")
    studio.check_files()
    told = studio.progress()
    assert told["failures"] == {"5": "the file is gone"}
    assert told["changed"] == [0]
    assert 5 not in studio.vectors.encoded_places()
    assert np.array_equal(*studio.vectors.at(np.array([0, 1])))
    shutil.move(folder.parent / "0005.png", folder / "0005.png")
    studio.check_files()
    assert studio.progress()["failures"] == {}
    assert 5 in studio.vectors.encoded_places()


def test_a_labelled_file_that_changes_is_learned_again(studio: Studio, folder: Path) -> None:
    add(studio, "red", "green")
    label(studio, red=[0], green=[1])
    before = answers(answered(studio))
    for place, other in ((0, 4), (1, 3)):  # red shows a green picture now, green a red one
        shutil.copy(folder / f"{other:04}.png", folder / f"{place:04}.png")
    studio.check_files()
    studio.answerer.answer_all()
    swapped = {"red": "green", "green": "red"}
    reds_and_greens = [place for place in range(3, 30) if place % 3 < 2]
    after = answers(studio)
    assert [after[each] for each in reds_and_greens] == [
        swapped[before[each]] for each in reds_and_greens
    ]


def test_an_answer_to_an_older_vector_is_given_again(
    studio: Studio, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(studio, "red", "green")
    label(studio, red=[0], green=[1])
    studio.vectors.encode_all()
    put, times = studio.answers.put, []

    def late(told: Answered) -> None:
        """Change the file while it is answered."""
        times.append(told)
        if len(times) == 1:
            shutil.copy(folder / "0004.png", folder / "0003.png")
            studio.check_files()
        put(told)

    monkeypatch.setattr(studio.answers, "put", late)
    studio.answerer.answer_all()
    assert answers(studio)[3] == "green"
    assert [told.places.tolist() for told in times[1:]] == [[3], [0, 1]]  # the labelled come last


def test_what_changed_or_vanished_while_it_was_closed_is_told(folder: Path) -> None:
    studio = open_studio(folder)
    add(studio, "red", "green")
    answered(studio)
    label(studio, red=[0, 3], green=[1])
    studio.stop()
    shutil.copy(folder / "0001.png", folder / "0000.png")
    (folder / "0003.png").unlink()
    (folder / "0004.png").write_bytes(b"no picture")
    again = answered(open_studio(folder))
    told = again.progress()
    assert told["changed"] == [0]
    assert [each["text"] for each in told["missing_items"]] == ["0003.png"]
    assert list(told["failures"]) == ["3"]
    assert told["failures"]["3"].startswith("cannot be read as an image")
    again.stop()


def test_a_file_with_its_old_content_is_not_changed(studio: Studio, folder: Path) -> None:
    add(studio, "red")
    answered(studio)
    label(studio, red=[0])
    for place in (0, 1):
        content = (folder / f"{place:04}.png").read_bytes()
        os.utime(folder / f"{place:04}.png", (1, 1))
        studio.check_files()
        assert studio.progress()["changed"] == []
        (folder / f"{place:04}.png").unlink()
        studio.check_files()
        assert list(studio.progress()["failures"]) == [str(place)]
        shutil.copy(folder / "0004.png", folder / f"{place:04}.png")
        studio.check_files()
        assert studio.progress()["changed"] == [place]
        copied = studio.progress()["contents"]
        shutil.copy(folder / "0005.png", folder / f"{place:04}.png")
        studio.check_files()
        assert studio.progress()["changed"] == [place]  # as before, but with yet another content
        assert list(copied) == list(studio.progress()["contents"]) == [str(place)]
        assert copied != studio.progress()["contents"]
        (folder / f"{place:04}.png").write_bytes(content)
        studio.check_files()
        assert (studio.progress()["changed"], studio.progress()["failures"]) == ([], {})


def test_a_table_that_changes_or_vanishes_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "t.csv"
    content = "x,y,label\n0,0,a\n9,9,b\n1,0,\n8,9,\n"
    table.write_text(content)
    studio = answered(open_studio(table))
    told: list[tuple[str, Any]] = []
    monkeypatch.setattr(studio.hub, "publish", lambda *event: told.append(event))

    def news() -> list[str]:
        told.clear()
        studio.check_files()
        for name, progress in told:
            assert name in ("progress", "notice")
            assert name == "notice" or progress["source"] == studio.progress()["source"]
        return [words for name, words in told if name == "notice"]

    assert news() == []
    os.utime(table, (1, 1))
    assert news() == []
    table.write_text(content + "3,4,\n")
    [changed] = news()
    assert changed.startswith(
        "t.csv has changed since the studio was opened: open the studio again"
    )
    assert news() == []
    table.unlink()
    table.mkdir()
    assert news() == ["t.csv cannot be read; what is shown here was read before. Labels are kept."]
    table.rmdir()
    assert news() == ["t.csv is gone; what is shown here was read before. Labels are kept."]
    table.write_text(content)
    assert news() == []
    assert studio.progress()["source"] == ""
    studio.stop()


def test_labelled_rows_that_are_gone_are_shown_in_words(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("x,y,label\n0,0,a\n9,9,b\n1,0,\n8,9,\n")
    studio = answered(open_studio(table))
    studio.label({2: 1}, {2: 0}, author="")
    assert studio.progress()["missing_sentence"] == ""
    studio.stop()
    table.write_text("x,y,label\n9,9,b\n8,9,\n")
    again = answered(open_studio(table))
    told = again.progress()
    assert told["missing_sentence"] == (
        "2 labelled rows are no longer in the table, or not with the same cells"
    )
    assert sorted(told["missing_items"], key=str) == [
        {"kind": "row", "text": "x: 0, y: 0"},
        {"kind": "row", "text": "x: 1, y: 0"},
    ]
    again.label({1: 1}, {1: 0}, author="")
    names = [each.name for each in again.results().answers.unreadable]
    assert sorted(names) == ["x: 0, y: 0", "x: 1, y: 0"]
    again.stop()
