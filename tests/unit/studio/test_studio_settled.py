"""What settled answers are made of, and what is estimated of them."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.studios import add, answered, label, open_studio, wait_until, write_pictures
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.novelty import Novelty
from unitail.estimator.rows import Rows
from unitail.studio.fitted import choose_pool
from unitail.studio.state import Labelled
from unitail.studio.stored_rows import Origin
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
