import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.studios import answered, open_studio, wait_until, write_pictures
from unitail.errors import InvalidInput
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.novelty import Novelty
from unitail.estimator.rows import Rows
from unitail.studio import page_data
from unitail.studio.changes import ASIDE, ActionResult, Origin
from unitail.studio.fitted import choose_pool
from unitail.studio.latest import NONE, Answered, Labelled
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


def add(studio: Studio, *names: str) -> list[int]:
    """Add classes, and return their ids."""
    done = [studio.apply(lambda store, name=name: store.add_class(name)) for name in names]  # type: ignore[misc]
    return [each.class_id for each in done if each.class_id is not None]


def label(studio: Studio, **places: list[int]) -> ActionResult:
    ids = {row.name: row.id for row in studio.labels.classes()}
    wishes: dict[int, int | None] = {
        place: ids[name] for name, own in places.items() for place in own
    }
    seen = {place: studio.labels.row(place).version for place in wishes}
    return studio.label(wishes, seen, author="")


def answers(studio: Studio) -> list[str]:
    names = {row.id: row.name for row in studio.labels.classes()} | {NONE: "-"}
    best = studio.answers.at(np.arange(len(studio.catalogue))).class_ids[:, 0]
    return [names[each] for each in best.tolist()]


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
    assert str(caught.value).endswith(
        "if there is no such column, the studio starts without labels."
    )


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
    assert told["missing"] == ["0003.png"]
    assert list(told["failures"]) == ["3"]
    assert told["failures"]["3"].startswith("cannot be read as an image")
    again.stop()


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


def test_the_accuracy_is_estimated_of_the_answers_with_a_pool_however_late_they_come(
    studio: Studio, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would depend on how busy the machine is."""
    monkeypatch.setattr("unitail.studio.answerer.QUIET_SECONDS", 0.01)
    monkeypatch.setattr("unitail.studio.fitted.MIN_POOL", 5)
    go_on, begun, estimated_of, fit = threading.Event(), threading.Event(), [], TailClassifier.fit

    def slow(self: TailClassifier, *given: Any, **named: Any) -> TailClassifier:  # noqa: ANN401
        if named.get("pool") is not None:
            begun.set()
            assert go_on.wait(180)
        return fit(self, *given, **named)

    def note(*_given: Any, **_named: Any) -> None:  # noqa: ANN401
        read = studio.answerer._read
        estimated_of.append(None if read is None else len(read[1][0]))

    monkeypatch.setattr(TailClassifier, "fit", slow)
    monkeypatch.setattr("unitail.studio.studio.estimate", note)
    add(studio, "red", "green", "blue")
    label(studio, red=[0, 3, 6], green=[1, 4, 7], blue=[2, 5, 8])
    studio.start()
    assert begun.wait(180)
    time.sleep(0.3)
    assert [each for each in estimated_of if each is not None and not each] == []
    go_on.set()
    wait_until(lambda: 21 in estimated_of)
    label(studio, red=[9])
    wait_until(lambda: 20 in estimated_of)
    time.sleep(0.1)
    assert estimated_of.count(20) == 1


def test_very_many_labels_are_read_once_nobody_changes_anything(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unitail.studio.answerer.MAX_IMMEDIATE", 6)
    add(studio, "red", "green", "blue")
    label(studio, red=[0, 3, 6], green=[1, 4, 7], blue=[2, 5, 8])

    def read() -> tuple[int, ...]:
        assert studio.answerer._read is not None
        return studio.answerer._read[0].places

    answered(studio)
    assert len(read()) == 6
    studio.answerer.refine()
    assert read() == tuple(range(9))
    told = studio.answers.at(np.arange(9, 30))
    rows = studio.vectors.at(np.arange(30))
    plain = TailClassifier(device="cpu", scale="none", random_state=0)
    plain.fit(rows[:9], np.array(studio.labels.labelled().class_ids), pool=rows[9:][_pool_order()])
    expected = plain.predict_proba(rows[9:]).max(axis=1)
    assert np.allclose(told.probabilities[:, 0], expected, atol=1e-4)
    studio.store.rename_class(1, "scarlet")
    studio.sync()
    studio.answerer.answer_all()
    assert read() == tuple(range(9))  # what concerns no label makes nothing anew
    label(studio, blue=[11])
    studio.answerer.answer_all()
    assert len(read()) == 6
    assert 11 in read()


def _pool_order() -> list[int]:
    nobody = Labelled(0, tuple(range(9)), (1,) * 9, frozenset(), ("chosen",) * 9, (1,) * 9)
    return [place - 9 for place in choose_pool(np.arange(30), nobody).tolist()]


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
    assert told["missing_sentence"] == "2 labelled rows are no longer in the table"
    assert sorted(told["missing_items"], key=str) == [
        {"kind": "row", "text": "x: 0, y: 0"},
        {"kind": "row", "text": "x: 1, y: 0"},
    ]
    again.label({1: 1}, {1: 0}, author="")
    names = [each.name for each in again.results().answers.unreadable]
    assert sorted(names) == ["x: 0, y: 0", "x: 1, y: 0"]
    again.stop()


def test_items_confirmed_at_once_do_not_make_others_novel(studio: Studio) -> None:
    add(studio, "red", "green")
    label(studio, red=[0, 3, 6], green=[1, 4, 7])
    answered(studio)
    confirmed = {place: 1 + place % 3 for place in range(8, 20) if place % 3 < 2}
    studio.label(confirmed, dict.fromkeys(confirmed, 0), author="", origin=Origin.CONFIRMED)
    studio.answerer.answer_all()
    places = [0, 3, 6, 1, 4, 7, *confirmed]
    rows = studio.vectors.at(np.arange(30))
    order = np.sort(places)
    support = Rows(rows[order], order % 3, 2)
    expected = Novelty.of(support, 0).calibrated_on(order < 8)
    told = studio.answers.at(np.arange(20, 30)).novelty
    assert np.allclose(told, expected(rows[20:]), atol=1e-6)
    assert not np.allclose(told, Novelty.of(support, 0)(rows[20:]), atol=1e-3)
    plain = studio.results().classifier.fitted_.novelty(rows[20:])  # exports agree
    assert np.allclose(told, plain, atol=1e-6)
