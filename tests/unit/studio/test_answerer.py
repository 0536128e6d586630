import shutil
import threading
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.colours import MeanColour
from helpers.pixels import Pixels
from helpers.studios import answered, open_studio, wait_until, write_pictures
from unitail.encoders.encoder import Encoder
from unitail.estimator.classifier import TailClassifier
from unitail.studio.fitted import FittedLabels, choose_pool
from unitail.studio.state import NONE, Answered, LatestAnswers
from unitail.studio.studio import Studio


def test_it_is_known_which_answers_are_out_of_date() -> None:
    answers, places, versions = LatestAnswers(4), np.arange(4), np.array([1, 1, 2, 1])
    told = Answered(
        7, places[:3], versions[:3], np.ones((3, 2), np.int64), np.ones((3, 2)), np.ones(3)
    )
    answers.put(told)
    assert answers.stale(places, versions, 7).tolist() == [3]
    assert answers.stale(places, versions, 8).tolist() == [0, 1, 2, 3]
    assert answers.stale(places, np.array([1, 2, 2, 1]), 7).tolist() == [1, 3]
    assert answers.at(places).class_ids[:, 0].tolist() == [1, 1, 1, NONE]


def test_novelty_is_that_of_the_latest_answer() -> None:
    answers, places = LatestAnswers(3), np.arange(2)
    ids, halves = np.ones((2, 2), dtype=np.int64), np.full((2, 2), 0.5)
    answers.put(Answered(0, places, places, ids, halves))
    assert answers.without_novelty(places).tolist() == [0, 1]
    answers.put_novelty(places[:1], np.array([0.25]))
    assert answers.without_novelty(places).tolist() == [1]
    answers.put(Answered(1, places, places, ids, halves))
    assert answers.without_novelty(places).tolist() == [0, 1]
    answers.put(Answered(2, places, places, ids, halves, np.array([0.5, 0.75])))
    assert answers.without_novelty(places).tolist() == []
    answers.grow(4)
    assert answers.at(np.arange(4)).novelty.tolist() == [0.5, 0.75, 0, 0]  # type: ignore[union-attr]
    assert answers.without_novelty(np.arange(4)).tolist() == [2, 3]


def require_answers_of(studio: Studio, given: dict[int, int | None], pool: list[int]) -> None:
    """Hold answers and novelty to those of the plain classifier."""
    rows = studio.vectors.at(np.arange(24))
    plain = TailClassifier(device="cpu", scale="none", random_state=0)
    plain.fit(rows[list(given)], list(given.values()), pool=rows[pool] if pool else None)
    told, expected = studio.answers.at(np.arange(24)), plain.predict_proba(rows)
    order = np.argsort(-expected, axis=1)
    assert np.allclose(told.probabilities, np.take_along_axis(expected, order, 1), atol=1e-4)
    sure = np.abs(expected[:, 0] - expected[:, 1]) > 1e-3
    assert (told.class_ids[sure] == plain.classes_[order][sure]).all()
    assert np.allclose(told.novelty, plain.novelty(rows), atol=1e-6)


def pool_of(studio: Studio) -> tuple[int, ...]:
    assert studio.answerer._read is not None
    return studio.answerer._read[1][0]


@pytest.mark.parametrize("encoder", [MeanColour(), Pixels()])
def test_answers_stay_those_of_the_classifier_while_labels_change(
    tmp_path: Path, encoder: Encoder[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pictures(tmp_path, 24)
    studio = answered(open_studio(tmp_path, encoder=encoder))
    for name in ("red", "green"):
        studio.apply(lambda store, name=name: store.add_class(name))  # type: ignore[misc]
    ids = [row.id for row in studio.labels.classes()]
    given: dict[int, int | None] = {}
    begun, corrected, added = {0: 0, 1: 1, 3: 0, 4: 1}, {3: 1}, {5: 0, 6: 0}
    for step in (begun, corrected, added):
        wishes: dict[int, int | None] = {place: ids[each] for place, each in step.items()}
        given |= wishes
        seen = {place: studio.labels.row(place).version for place in wishes}
        studio.label(wishes, seen, author="")
        studio.answerer.answer_all()
        require_answers_of(studio, given, pool=[])
        fitted = studio.answerer._fitted
        assert fitted is not None
        assert fitted.cache is not None
        assert (fitted.cache.projection is None) == (encoder.width == 3)
    monkeypatch.setattr("unitail.studio.fitted.MIN_POOL", 5)
    studio.answerer.refine()
    pool = choose_pool(np.arange(24), studio.labels.labelled()).tolist()
    assert sorted(pool) == sorted(set(range(24)) - set(given))
    require_answers_of(studio, given, pool=pool)
    shutil.copy(tmp_path / "0000.png", tmp_path / f"{pool[0]:04}.png")
    studio.vectors.encode_again(pool[:1])
    studio.answerer.answer_all()
    studio.answerer.refine()
    require_answers_of(studio, given, pool=pool)  # with what is in the file now
    studio.stop()


def test_two_threads_answer_and_both_begin_anew_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unitail.studio.answerer.CHUNK", 4)
    write_pictures(tmp_path, 24)
    studio = answered(open_studio(tmp_path, encoder=Pixels()))
    studio.store.label_by_name({"0000.png": "red", "0001.png": "green"})
    red, green = (row.id for row in studio.store.since().classes)
    both = threading.Barrier(2, timeout=180)
    told: list[int] = []

    def note(answered: Answered) -> None:
        told.append(answered.generation)
        if len(told) <= 2:
            if both.wait() == 0:  # each of the two is in the middle of its work
                studio.label({2: green, 3: red}, {2: 0, 3: 0}, author="")
            both.wait()

    studio.answerer._on_answers = note
    studio.sync()
    studio.answerer.answer_all()
    # 20 items in chunks of four, one more so that each thread has as many, and what has a label.
    assert told == [told[0]] * 2 + [told[0] + 1] * 7
    require_answers_of(studio, {0: red, 1: green, 2: green, 3: red}, pool=[])
    studio.stop()


def test_a_label_does_not_wait_for_a_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unitail.studio.fitted.MIN_POOL", 5)
    write_pictures(tmp_path, 24)
    studio = answered(open_studio(tmp_path))
    studio.store.label_by_name({"0000.png": "red", "0001.png": "green"})
    studio.sync()
    studio.answerer.answer_all()
    begun, go_on, fit = threading.Event(), threading.Event(), TailClassifier.fit

    def slow(self: TailClassifier, *given: Any, **named: Any) -> TailClassifier:  # noqa: ANN401
        begun.set()
        assert go_on.wait(180)
        return fit(self, *given, **named)

    monkeypatch.setattr(TailClassifier, "fit", slow)
    refining = threading.Thread(target=studio.answerer.refine)
    refining.start()
    assert begun.wait(180)
    [red, _] = (row.id for row in studio.labels.classes())
    studio.label({2: red}, {2: 0}, author="")
    refining.join(180)
    assert not refining.is_alive()  # though the pool is still being read
    assert pool_of(studio) == ()
    go_on.set()
    studio.answerer.refine()  # the label came before anybody looked: its answers come first
    assert pool_of(studio) == ()
    studio.answerer.answer_all()
    studio.answerer.refine()
    assert len(pool_of(studio)) == 21
    studio.stop()


def test_what_has_a_label_is_answered_after_all_others(tmp_path: Path) -> None:
    write_pictures(tmp_path, 24)
    studio = answered(open_studio(tmp_path))
    told: list[list[int]] = []
    studio.answerer._on_answers = lambda answered: told.append(answered.places.tolist())
    studio.store.label_by_name({"0000.png": "red", "0001.png": "green"})
    studio.answerer.look_at([0, 1, 2, 3])
    studio.sync()
    studio.answerer.answer_all()
    assert sorted(told[:-1]) == [[2, 3], list(range(4, 24))]  # at the same time
    assert told[-1] == [0, 1]
    studio.stop()


@pytest.mark.parametrize("by", ["_answer_queue", "_answer_in_background"])
def test_what_is_looked_at_is_begun_first(
    tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unitail.studio.answerer.CHUNK", 8)
    monkeypatch.setattr("unitail.studio.answerer.REFINED_CHUNK", 8)
    monkeypatch.setattr("unitail.studio.fitted.MIN_POOL", 5)
    write_pictures(tmp_path, 24)
    studio = answered(open_studio(tmp_path))
    begun: list[list[int]] = []
    answer = getattr(studio.answerer, by)

    def note(waiting: deque[NDArray[np.int64]]) -> None:
        begun.extend(each.tolist() for each in waiting)
        answer(waiting)

    monkeypatch.setattr(studio.answerer, by, note)
    studio.store.label_by_name({"0000.png": "red", "0001.png": "green"})
    studio.answerer.look_at([20, 2, 0])
    studio.sync()
    studio.answerer.answer_all()
    studio.answerer.refine()
    assert begun[:2] == [[2, 20], [3, 4, 5, 6, 7]]
    studio.stop()


def test_a_label_does_not_wait_for_answers_with_a_pool_and_none_of_them_comes_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unitail.studio.fitted.MIN_POOL", 5)
    monkeypatch.setattr("unitail.studio.answerer.REFINED_CHUNK", 4)
    write_pictures(tmp_path, 24)
    studio = answered(open_studio(tmp_path))
    studio.store.label_by_name({"0000.png": "red", "0001.png": "green"})
    studio.sync()
    studio.answerer.answer_all()
    begun, go_on, asked = threading.Semaphore(0), threading.Event(), FittedLabels.probabilities
    turns: list[int] = []
    studio.answerer._on_answers = lambda answered: turns.append(answered.generation)

    def slow(self: FittedLabels, *given: Any) -> NDArray[np.float64]:  # noqa: ANN401
        if self.classifier.fitted_.pool_read is not None:
            begun.release()
            assert go_on.wait(180)
        return asked(self, *given)

    monkeypatch.setattr(FittedLabels, "probabilities", slow)
    refining = threading.Thread(target=studio.answerer.refine)
    refining.start()
    for _ in range(2):  # threads
        assert begun.acquire(timeout=180)
    [red, green] = (row.id for row in studio.labels.classes())
    studio.label({2: red}, {2: 0}, author="")
    refining.join(180)  # `refine` ends in answers without a pool, for the new label
    assert not refining.is_alive()
    assert sorted(turns) == [studio.answerer._generation] * len(turns)
    go_on.set()
    studio.answerer._background.shutdown()  # what was under way is done by now
    require_answers_of(studio, {0: red, 1: green, 2: red}, pool=[])
    studio.stop()


def test_an_error_beside_the_fit_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pictures(tmp_path, 24)
    studio = answered(open_studio(tmp_path, encoder=Pixels()))
    studio.store.label_by_name({"0000.png": "red", "0001.png": "green"})
    studio.sync()
    begun, fit = threading.Event(), TailClassifier.fit

    def broken(*_given: Any) -> NDArray[np.float32]:  # noqa: ANN401
        begun.set()
        raise MemoryError("of a span")

    def slow(self: TailClassifier, *given: Any, **named: Any) -> TailClassifier:  # noqa: ANN401
        assert begun.wait(180)
        return fit(self, *given, **named)

    monkeypatch.setattr("unitail.studio.projection.ProjectionCache.at", broken)
    monkeypatch.setattr(TailClassifier, "fit", slow)
    with pytest.raises(MemoryError, match="of a span"):
        studio.answerer._read_labels()  # before anything is answered
    studio.stop()


def test_a_pool_is_read_once_nobody_changes_anything_and_then_not_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unitail.studio.fitted.MIN_POOL", 5)
    monkeypatch.setattr("unitail.studio.answerer.QUIET_SECONDS", 0.1)
    write_pictures(tmp_path, 24)
    studio = open_studio(tmp_path)
    told: list[int] = []
    studio.answerer._on_answers = lambda answered: told.extend(answered.places.tolist())
    studio.store.label_by_name({"0000.png": "red", "0001.png": "green"})
    studio.sync()
    studio.vectors.encode_all()
    thread = threading.Thread(target=studio.answerer.run)
    thread.start()
    wait_until(lambda: len(told) >= 48)  # all, and all again
    studio.answerer.stop()
    thread.join(180)
    assert not thread.is_alive()
    studio.answerer.answer_all()  # for nothing
    studio.answerer.refine()
    assert sorted(told) == sorted([*range(24), *range(24)])
    studio.stop()


def test_it_is_woken_once_labels_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pictures(tmp_path, 2)
    studio, woken = open_studio(tmp_path), []
    monkeypatch.setattr(studio.answerer, "wake", lambda: woken.append(studio.labels.revision))
    done = studio.apply(lambda store: store.add_class("red"), [1])
    assert woken == [done.revision]
    assert studio.answerer._looked_at == (1,)
    studio.stop()
