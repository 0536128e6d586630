import numpy as np
import pytest

from unitail.estimator.classifier import TailClassifier
from unitail.studio.answerer import Span
from unitail.studio.latest_answers import NONE, Answered, LatestAnswers


@pytest.fixture
def rows() -> np.ndarray:
    return (3 + np.random.default_rng(0).normal(size=(40, 60))).astype(np.float32)


def test_in_a_span_lengths_and_products_with_the_labelled_stay(rows: np.ndarray) -> None:
    span = Span.of(rows[:8])
    short = span(rows)
    assert short.shape == (40, 9)
    known = span(rows[:8], labelled=True)
    assert np.allclose(short @ known.T, rows @ rows[:8].T, rtol=1e-5)
    assert np.allclose((short**2).sum(axis=1), (rows**2).sum(axis=1), rtol=1e-5)
    repeated = Span.of(np.concatenate([rows[:3], rows[:3]]))
    known = repeated(rows[:3], labelled=True)
    assert np.allclose(repeated(rows) @ known.T, rows @ rows[:3].T, rtol=1e-5)


def test_answers_and_novelty_are_the_same_in_a_span(rows: np.ndarray) -> None:
    labels = np.arange(8) % 3
    span = Span.of(rows[:8])
    own, other = (TailClassifier(device="cpu", scale="none") for _ in range(2))
    own.fit(rows[:8], labels)
    other.fit(span(rows[:8], labelled=True), labels)
    assert np.allclose(own.predict_proba(rows), other.predict_proba(span(rows)), atol=1e-4)
    assert np.allclose(own.novelty(rows), other.novelty(span(rows)), atol=1e-4)


def test_many_labels_need_no_span(rows: np.ndarray) -> None:
    narrow = rows[:, :10]
    assert Span.of(narrow[:9])(narrow) is narrow


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
