"""Supports beyond the limit: read whole where the model can, reduced where it cannot."""

import numpy as np
import pytest

from helpers.builders import small_model
from unitail.errors import TooManyClasses
from unitail.estimator import fitted as reading
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.fitted import MAX_WIDTH, ReadingRule, takes_large
from unitail.estimator.settings import Settings
from unitail.learners.large_hypothesis import LargeHypothesis
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational

RNG = np.random.default_rng(0)
Y = np.arange(90) % 3
X = RNG.normal(size=(90, 5)) + 2 * np.eye(5)[Y]
ASKED = RNG.normal(size=(6, 5)) + 2 * np.eye(5)[np.arange(6) % 3]


def large(**parameters: object) -> TailClassifier:
    return TailClassifier(max_support=30, random_state=0, **parameters)


def test_all_rows_count_and_answers_stand_alone() -> None:
    classifier = large(precision="double").fit(X, Y)
    assert isinstance(classifier.fitted_.hypothesis, LargeHypothesis)
    together = classifier.predict_proba(ASKED)
    alone = np.concatenate([classifier.predict_proba(row[None]) for row in ASKED])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-12)
    np.testing.assert_allclose(together.sum(axis=1), 1)
    less = large(precision="double").fit(X[:-1], Y[:-1]).predict_proba(ASKED)
    assert np.abs(less - together).max() > 1e-6  # the last row has a say, too


def test_draws_of_a_model_that_draws_nothing_change_nothing() -> None:
    one, many = (large(n_draws=draws).fit(X, Y).predict_proba(ASKED) for draws in (1, 3))
    assert np.array_equal(one, many)


def test_only_relations_of_bounded_width_are_read_whole() -> None:
    assert takes_large(Relational(PRESETS["tiny"]), MAX_WIDTH)
    assert not takes_large(Relational(PRESETS["tiny"]), MAX_WIDTH + 1)
    assert not takes_large(small_model(), 5)


def test_the_order_of_rows_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evidence is heard from few of them, and half of the rows have a copy of another class."""
    monkeypatch.setattr("unitail.relational.large.first_answer.MAX_EVIDENCE_ROWS", 20)
    rows, labels = np.concatenate([X, X[:60]]), np.concatenate([Y, Y[:60][::-1]])
    expected = large(precision="double").fit(rows, labels).predict_proba(ASKED)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(150)
        shuffled = large(precision="double").fit(rows[order], labels[order])
        np.testing.assert_allclose(shuffled.predict_proba(ASKED), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("parameters", "pooled"),
    [({}, False), ({"visibility": "joint"}, False), ({}, True), ({"parts": [2, 3]}, False)],
    ids=["isolated", "joint", "pool", "parts"],
)
def test_rare_classes_stay_rare(parameters: dict[str, object], pooled: bool) -> None:
    """The reduction to centres had made all classes equally frequent."""
    rng = np.random.default_rng(1)
    noise, pool, asked = (rng.normal(size=(rows, 5)) for rows in (600, 30, 100))
    labels = np.where(np.arange(600) % 20 == 0, "rare", "usual")
    said = TailClassifier(max_support=60, random_state=0, scale="none", **parameters)
    said.fit(noise, labels, pool=pool if pooled else None)
    shares = said.predict_proba(asked).mean(axis=0)
    assert 0.02 < shares[0] < 0.1


def test_chunks_of_queries_are_as_large_as_asked_for() -> None:
    hypothesis = large(chunk_size=7).fit(X, Y).fitted_.hypothesis
    assert isinstance(hypothesis, LargeHypothesis)
    assert hypothesis.chunk_size == 7


def test_sets_and_changes_work_as_ever() -> None:
    classifier = large().fit(X[:80], Y[:80]).add(X[80:], Y[80:])
    whole = large().fit(X, Y)
    np.testing.assert_allclose(classifier.predict_proba(ASKED), whole.predict_proba(ASKED))
    sets = whole.predict_set(ASKED, 0.8)
    assert sets.shape == (6, 3)
    assert sets.any(axis=1).all()
    fewer = whole.remove([0])
    np.testing.assert_allclose(
        fewer.predict_proba(ASKED), large().fit(X[1:], Y[1:]).predict_proba(ASKED)
    )


def test_within_max_support_the_faster_way_has_the_same_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Prediction sets included; what needs all pairs, as with a pool, has them."""
    pairs = TailClassifier(random_state=0, precision="double").fit(X, Y)
    monkeypatch.setattr(reading, "MAX_PAIRED", 40)
    faster = TailClassifier(random_state=0, precision="double").fit(X, Y)
    assert isinstance(faster.fitted_.hypothesis, LargeHypothesis)
    assert not isinstance(pairs.fitted_.hypothesis, LargeHypothesis)
    expected = pairs.predict_proba(ASKED)
    np.testing.assert_allclose(faster.predict_proba(ASKED), expected, rtol=0, atol=1e-4)
    scores = (np.sort(each.fitted_.held_out_scores) for each in (faster, pairs))
    np.testing.assert_allclose(*scores, rtol=0, atol=1e-3)
    assert (faster.predict_set(ASKED) == pairs.predict_set(ASKED)).all()
    whole = TailClassifier(max_support=None, random_state=0, precision="double").fit(X, Y)
    np.testing.assert_array_equal(whole.predict_proba(ASKED), expected)
    pooled = TailClassifier(random_state=0).fit(X, Y, pool=X[:5])
    assert len(pooled.fitted_.kept) == len(X)
    assert not isinstance(pooled.fitted_.hypothesis, LargeHypothesis)


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_the_faster_way_in_single_precision_answers_as_in_double(
    offset: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen from a far origin, too, where all cosines are nearly 1."""
    monkeypatch.setattr(reading, "MAX_PAIRED", 40)
    single, double = (
        TailClassifier(random_state=0, precision=precision, scale="none").fit(X + offset, Y)
        for precision in ("single", "double")
    )
    assert isinstance(single.fitted_.hypothesis, LargeHypothesis)
    answers = (each.predict_proba(ASKED + offset) for each in (single, double))
    np.testing.assert_allclose(*answers, rtol=0, atol=1e-4)


def test_pools_and_joint_answers_are_of_reduced_supports() -> None:
    for classifier in (large(visibility="joint").fit(X, Y), large().fit(X, Y, pool=X[:5])):
        assert not isinstance(classifier.fitted_.hypothesis, LargeHypothesis)
        assert len(classifier.fitted_.kept) == 30


def test_any_number_of_classes_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unitail.relational.large.shortlist.MAX_UNLISTED_WAYS", 10)
    monkeypatch.setattr(reading, "MAX_PAIRED_WAYS", 10)
    monkeypatch.setattr(reading, "MAX_STATES", 100)
    labels = np.arange(90) % 15
    many = TailClassifier(random_state=0).fit(X, labels)
    assert isinstance(many.fitted_.hypothesis, LargeHypothesis)
    assert many.predict_proba(ASKED).shape == (6, 15)
    with pytest.raises(TooManyClasses):
        TailClassifier(visibility="joint").fit(X, labels)


def test_few_rows_of_many_classes_are_read_by_the_whole_model() -> None:
    settings = Settings.of(TailClassifier(device="cpu"), 0)
    rules = {ways: ReadingRule.of(settings, ways, 64) for ways in (2, 100, 131, 150, 256, 257)}
    limits = {ways: rule.max_paired for ways, rule in rules.items()}
    assert limits == {2: 1000, 100: 1000, 131: 1000, 150: 873, 256: 512, 257: 0}
    assert [rules[150].is_large(rows) for rows in (873, 874)] == [False, True]
    fewer = Settings.of(TailClassifier(device="cpu", max_support=200), 0)
    assert ReadingRule.of(fewer, 150, 64).max_paired == 200


@pytest.mark.parametrize(
    ("parameters", "pooled"),
    [({"visibility": "joint"}, False), ({"parts": [4, 60]}, False), ({}, True)],
)
def test_what_cannot_be_read_whole_is_reduced(parameters: dict[str, object], pooled: bool) -> None:
    settings = Settings.of(TailClassifier(device="cpu", max_support=40, **parameters), 0)
    rule = ReadingRule.of(settings, 3, 64, pooled=pooled)
    assert (rule.max_paired, rule.reads_large) == (40, False)
    assert [rule.kept(rows, 3) for rows in (40, 41, 100)] == [40, 39, 39]
    boundless = Settings.of(TailClassifier(device="cpu", max_support=None), 0)
    assert ReadingRule.of(boundless, 3, 64).in_pairs(10**9)
