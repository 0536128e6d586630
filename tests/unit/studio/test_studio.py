import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.studios import add, answered, answers, label, open_studio, wait_until, write_pictures
from unitail.errors import InvalidInput
from unitail.estimator.classifier import TailClassifier
from unitail.studio import page_data
from unitail.studio.stored_rows import ASIDE
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


def test_everything_is_sorted_as_soon_as_two_classes_have_an_example(studio: Studio) -> None:
    add(studio, "red", "green", "blue")
    label(studio, red=[0])
    assert set(answers(answered(studio))) == {"-"}
    label(studio, green=[1], blue=[2])
    studio.answerer.answer_all()
    assert answers(studio)[3:] == ["red", "green", "blue"] * 9


def test_what_is_looked_at_is_answered_by_itself_and_all_in_chunks(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unitail.studio.answerer.CHUNK", 5)
    add(studio, "red", "green")
    label(studio, red=[0], green=[1])
    studio.vectors.encode_all()
    told: list[list[int]] = []
    studio.answerer._on_answers = lambda answered: told.append(answered.places.tolist())
    studio.answerer.look_at([22, 20])
    studio.answerer.answer_all()
    assert [20, 22] in told
    assert max(map(len, told)) <= 5
    assert sorted(place for chunk in told for place in chunk) == list(range(30))
    told.clear()
    studio.answerer.answer_all()
    assert told == []


def test_a_correction_changes_answers_and_undo_takes_it_back(studio: Studio) -> None:
    add(studio, "red", "green")
    label(studio, red=[0], green=[1])
    before = answers(answered(studio))
    label(studio, green=[0], red=[1])
    studio.answerer.answer_all()
    assert answers(studio)[3:] != before[3:]
    studio.apply(lambda store: store.undo())
    studio.answerer.answer_all()
    assert answers(studio) == before


def test_items_set_aside_teach_nothing(studio: Studio) -> None:
    add(studio, "red", "green")
    label(studio, red=[0], green=[1])
    before = answers(answered(studio))
    studio.label({2: ASIDE}, {2: 0}, author="")
    studio.answerer.answer_all()
    assert answers(studio) == before
    assert 2 not in studio.next(40)


def test_other_suggestions_are_others_until_all_were_shown(studio: Studio) -> None:
    studio.vectors.encode_all()
    open_items = set(studio.next(40))
    first = studio.next(5)
    second = studio.next(5, skip=first)
    assert len(set(first) | set(second)) == 10
    nearly_all = sorted(open_items - set(first[:3]))
    assert len(studio.next(5, skip=nearly_all)) == 5  # three are too few: it begins anew


def test_subfolders_become_classes(tmp_path: Path) -> None:
    write_pictures(tmp_path / "warm", 2)
    write_pictures(tmp_path / "cold", 3, seed=1)
    studio = open_studio(tmp_path)
    studio.use_folders("me")
    names = [row.name for row in studio.labels.classes()]
    assert names == ["cold", "warm"]
    assert [studio.labels.row(place).class_id for place in range(5)] == [1, 1, 1, 2, 2]
    studio.apply(lambda store: store.undo(author="me"))
    assert studio.labels.classes() == []
    studio.stop()


def test_a_table_brings_its_labels_once(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("x,y,label\n0,0,a\n9,9,b\n1,0,\n8,9,\n")
    studio = answered(open_studio(table))
    assert answers(studio)[2:] == ["a", "b"]
    studio.apply(lambda store: store.undo())
    studio.stop()
    again = open_studio(table)
    assert again.labels.labelled().places == ()
    assert again.notes == ()
    again.stop()


def test_labels_that_a_table_gets_later_are_used_and_noted(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("x,y,label\n0,0,a\n9,9,b\n1,0,\n8,9,\n5,5,\n")
    studio = answered(open_studio(table))
    label(studio, b=[2])
    studio.stop()
    table.write_text("x,y,label\n0,0,b\n9,9,b\n1,0,a\n8,9,c\n5,5,\n")
    again = open_studio(table, notes=["first"])
    names = {row.id: row.name for row in again.labels.classes()}
    given = {place: names[row.class_id] for place, row in again.labels.rows().items()}  # type: ignore[index]
    assert given == {0: "a", 1: "b", 2: "b", 3: "c"}  # what was labelled before stays
    assert again.notes == ("first", f"Used as well: 1 label, added to {table} later")
    again.stop()


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (["a", "b" * 101], "'bbbb.*…', 101 characters; allowed: 1 to 100 printable characters"),
        ([f"class {n}" for n in range(1001)], "too many classes, 1,001; allowed: up to 1,000"),
    ],
)
def test_labels_that_cannot_be_classes_are_told(
    tmp_path: Path, labels: list[str], sentence: str
) -> None:
    table = tmp_path / "t.csv"
    table.write_text("\n".join(["x,label", *(f"{n},{name}" for n, name in enumerate(labels))]))
    with pytest.raises(InvalidInput, match=sentence) as caught:
        open_studio(table)
    assert str(caught.value).startswith(f"the labels of {table} cannot be classes of a studio: got")
    assert str(caught.value).endswith("name another column of labels with --label-column.")


def test_labels_by_others_in_the_database_come_in(studio: Studio, folder: Path) -> None:
    other = open_studio(folder)
    add(other, "red", "green")
    label(other, red=[0], green=[1])
    assert studio.labels.labelled().places == ()
    studio.sync()
    assert studio.labels.labelled().places == (0, 1)
    other.stop()


def test_threads_encode_answer_and_estimate_by_themselves(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unitail.studio.answerer.QUIET_SECONDS", 0.01)
    monkeypatch.setattr("unitail.studio.estimate.SPLITS", 6)  # its thread lets all others go first
    studio.start()
    add(studio, "red", "green", "blue")
    label(studio, red=[0, 3, 6], green=[1, 4, 7], blue=[2, 5, 8])
    wait_until(lambda: studio.vectors.progress.is_over and studio.estimated is not None)
    wait_until(lambda: answers(studio)[9:] == ["red", "green", "blue"] * 7)
    told = page_data.estimated(studio.estimated)
    assert told is not None
    assert told["sentence"].startswith("About 100 % (")
    assert told["sentence"].endswith(" right with 9 labels; 10 more: about 100 %")
    assert told["short"] in told["sentence"]
    assert (told["labels"], told["confirmed"]) == (9, 0)
    label(studio, blue=[9])
    wait_until(lambda: bool(studio.estimated and studio.estimated.suspicious))
    assert studio.estimated is not None
    [(place, likely, _)] = studio.estimated.suspicious
    assert (place, likely) == (9, studio.labels.classes()[0].id)


def test_labels_that_were_there_at_the_start_are_estimated(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unitail.studio.answerer.QUIET_SECONDS", 0.05)
    monkeypatch.setattr("unitail.studio.estimate.SPLITS", 6)
    colours = write_pictures(folder, 30)
    names = {f"{place:04}.png": colours[place] for place in range(18)}
    before = open_studio(folder)
    before.store.label_by_name(names)
    before.stop()
    studio = open_studio(folder)
    studio.start()
    wait_until(lambda: studio.estimated is not None)
    assert studio.estimated is not None
    assert studio.estimated.labels == 18
    studio.stop()


def test_changes_are_told_in_their_order(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []

    def tell(name: str, content: Any) -> None:  # noqa: ANN401
        if content["revision"] == 1:  # the second change must wait until the first is told
            studio.store.add_class("green")
            other = threading.Thread(target=studio.sync)
            other.start()
            other.join(timeout=0.2)
            threads.append(other)
        told.append(content["revision"])

    threads: list[threading.Thread] = []
    monkeypatch.setattr(studio.hub, "publish", tell)
    add(studio, "red")
    threads[0].join()
    assert told == [1, 2]


def test_why_an_answer_is_given_are_the_examples_that_decided_it(studio: Studio) -> None:
    def why(place: int) -> list[dict[str, Any]]:
        shares = studio.answerer.shares(place)
        return page_data.deciding(place, studio.labels, studio.vectors, shares)

    add(studio, "red", "green", "blue")
    label(studio, red=[0, 3], green=[1, 4], blue=[2])
    assert why(7) == []
    told, rows = why(answered(studio).catalogue.require(7)), studio.vectors.at(np.arange(30))
    bare = TailClassifier(device="cpu", scale="none").fit(rows[[0, 3, 1, 4, 2]], [0, 0, 1, 1, 2])
    shares = dict(zip([0, 3, 1, 4, 2], bare.influence(rows[[7]]).shares[0], strict=True))
    assert {each["place"] for each in told[:2]} == {1, 4}
    assert [each["share"] for each in told] == sorted((e["share"] for e in told), reverse=True)
    assert all(each["share"] == pytest.approx(shares[each["place"]], abs=2e-3) for each in told)
    near = why(0)  # it has a label itself: those that are most alike
    assert (near[0]["place"], {each["share"] for each in near}) == (3, {None})
    cosines = [each["cosine"] for each in near]
    assert cosines == sorted(cosines, reverse=True)
    assert 0 not in {each["place"] for each in near}


def test_trouble_in_a_thread_is_told(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        studio._run(broken)
    assert studio.trouble == "RuntimeError: broken"
