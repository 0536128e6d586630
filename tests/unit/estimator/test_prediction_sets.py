import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unitail.errors import InvalidConfig, InvalidInput
from unitail.estimator import prediction_sets as held_out
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.fitted import MIN_CALIBRATED
from unitail.estimator.prediction_sets import (
    FEW_FOLDS,
    MAX_FOLDS,
    calibration_folds,
    folds,
    prediction_sets,
    some_of,
    threshold,
)
from unitail.estimator.rows import Rows


def rows(shots: list[int], width: int = 4, seed: int = 0, task: int = 0) -> Rows:
    means = np.random.default_rng(task).normal(size=(len(shots), width))
    generator = np.random.default_rng([seed, 1])
    indices = generator.permutation(np.repeat(np.arange(len(shots)), shots))
    return Rows(means[indices] + generator.normal(size=(len(indices), width)), indices, len(shots))


def fitted(shots: list[int], **options: object) -> TailClassifier:
    support = rows(shots)
    return TailClassifier(random_state=0, **options).fit(support.features, support.class_indices)


def test_the_threshold_has_the_finite_sample_rank() -> None:
    scores = np.arange(1, 11) / 10
    assert threshold(scores, 0.9) == 1.0  # ceil(11 * 0.9) = 10
    assert threshold(scores, 0.5) == 0.6  # ceil(11 * 0.5) = 6
    assert threshold(scores[:8], 0.9) == math.inf  # ceil(9 * 0.9) = 9 of 8
    assert threshold(scores[:9], 0.9) == 0.9


def test_sets_hold_the_classes_with_scores_up_to_the_threshold() -> None:
    probabilities = np.array([[0.7, 0.2, 0.1], [0.4, 0.35, 0.25], [0.2, 0.3, 0.5]])
    scores = np.array([0.1, 0.3, 0.7])
    sets = prediction_sets(probabilities, scores, 0.75)  # threshold 0.7
    assert sets.tolist() == [[True, False, False], [True, True, False], [False, True, True]]
    assert prediction_sets(probabilities, scores, 0.9).all()


def test_without_scores_probabilities_are_added_up() -> None:
    probabilities = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    sets = prediction_sets(probabilities, np.empty(0), 0.8)
    assert sets.tolist() == [[True, True, False], [False, True, True]]


def test_the_most_probable_class_is_always_in() -> None:
    sets = prediction_sets(np.array([[0.4, 0.6]]), np.array([0.1, 0.1, 0.1]), 0.5)
    assert sets.tolist() == [[False, True]]


def test_every_row_that_can_is_left_out_once_with_one_of_every_class() -> None:
    support = rows([1, 2, 5])
    every = folds(support)
    assert sorted(np.concatenate(every)) == sorted(np.flatnonzero(support.class_indices != 0))
    classes = [sorted(support.class_indices[fold]) for fold in every]
    assert classes == [[1, 2], [1, 2], [2], [2], [2]]


def test_of_many_rows_several_are_left_out_at_a_time() -> None:
    support = rows([1, 2, 3, 10 * MAX_FOLDS])
    every = folds(support)
    assert len(every) == MAX_FOLDS
    assert len(np.unique(np.concatenate(every))) == 10 * MAX_FOLDS + 5
    for fold in every:
        left = np.delete(support.class_indices, fold)
        assert set(left) == {0, 1, 2, 3}


def test_many_rows_are_calibrated_in_fewer_folds() -> None:
    few, many = rows([3, 497]), rows([1, 3, 497])
    assert list(map(len, calibration_folds(few))) == list(map(len, folds(few)))
    assert list(map(len, calibration_folds(many))) == [101, 101, 100, 99, 99]
    assert len(folds(many)) == MAX_FOLDS
    copies = Rows(few.features, few.class_indices, 2, counts=np.full(500, 2))
    assert len(calibration_folds(copies)) == FEW_FOLDS


def test_scores_of_many_rows_are_those_of_five_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "MANY_ROWS", 20)
    classifier = fitted([10, 11])
    support = classifier.fitted_.rows
    left = [np.isin(np.arange(21), fold) for fold in calibration_folds(support)]
    expected = []
    for out in left:
        without = TailClassifier().fit(support.features[~out], support.class_indices[~out])
        probabilities = without.predict_proba(support.features[out])
        expected.extend(1 - probabilities[np.arange(out.sum()), support.class_indices[out]])
    assert len(left) == FEW_FOLDS
    scores = np.sort(classifier.fitted_.held_out_scores)
    np.testing.assert_allclose(scores, np.sort(expected), atol=1e-9)


def test_scores_are_those_of_fits_without_the_rows() -> None:
    classifier = fitted([1, 3, 4])
    support = classifier.fitted_.rows
    expected: list[float] = []
    for fold in sorted(folds(support), key=len):
        rest = support.take(np.delete(np.arange(len(support)), fold))
        without = TailClassifier().fit(rest.features, rest.class_indices)
        probabilities = without.predict_proba(support.features[fold])
        right = probabilities[np.arange(len(fold)), support.class_indices[fold]]
        expected.extend(1 - right)
    np.testing.assert_allclose(classifier.fitted_.held_out_scores, expected, atol=1e-9)


def test_scores_of_a_reduced_support_come_from_rows_that_were_not_read() -> None:
    classifier = fitted([100, 100], max_support=20)
    scores = classifier.fitted_.held_out_scores
    assert len(scores) == 200 // MAX_FOLDS
    assert ((scores >= 0) & (scores <= 1)).all()


def test_a_row_has_one_score_however_much_it_counts() -> None:
    """Its copies are left out together; of equal rows, the others would speak for it."""
    few = rows([4, 4], seed=3)
    heavy = TailClassifier(scale="none").fit(few.features, few.class_indices, np.full(8, 2))
    twice = np.repeat(np.arange(8), 2)
    copies = TailClassifier(scale="none").fit(few.features[twice], few.class_indices[twice])
    asked = rows([5, 5], seed=4).features
    np.testing.assert_allclose(heavy.predict_proba(asked), copies.predict_proba(asked), atol=1e-9)
    scores = heavy.fitted_.held_out_scores
    assert (len(scores), len(copies.fitted_.held_out_scores)) == (8, 16)
    [first, *_] = folds(heavy.fitted_.rows)
    others = np.delete(np.arange(8), first)
    alone = TailClassifier(scale="none").fit(
        few.features[others], few.class_indices[others], np.full(len(others), 2)
    )
    chances = alone.predict_proba(few.features[first])
    truths = few.class_indices[first]
    np.testing.assert_allclose(
        scores[: len(first)], 1 - chances[np.arange(len(first)), truths], atol=1e-9
    )


def test_prediction_sets_can_be_calibrated_on_some_rows() -> None:
    few = rows([30, 30], seed=5)
    classifier = TailClassifier().fit(few.features, few.class_indices)
    every = classifier.fitted_.held_out_scores
    mask = np.arange(60) % 2 == 0
    some_scores = classifier.calibrate_on(mask).fitted_.held_out_scores
    assert len(some_scores) == 30
    assert set(some_scores.tolist()) < set(every.tolist())


def test_no_class_with_two_rows_gives_no_scores() -> None:
    classifier = fitted([1, 1, 1])
    assert len(classifier.fitted_.held_out_scores) == 0
    sets = classifier.predict_set(rows([5, 5, 5]).features)
    assert sets.any(axis=1).all()


def test_the_coverage_is_kept() -> None:
    hits: dict[float, list[float]] = {0.8: [], 0.9: []}
    for task in range(30):
        support, asked = rows([8] * 4, seed=0, task=task), rows([50] * 4, seed=1, task=task)
        classifier = TailClassifier().fit(support.features, support.class_indices)
        log_proba = classifier.predict_log_proba(asked.features)
        for coverage, shares in hits.items():
            sets = classifier.predict_set(asked.features, coverage, log_proba=log_proba)
            shares.append(sets[np.arange(200), asked.class_indices].mean())
    for coverage, shares in hits.items():
        assert coverage - 0.02 < np.mean(shares) < coverage + 0.07


@pytest.mark.parametrize("coverage", [0, 1, 90, math.nan, "x", None, np.array([0.5, 0.9])])
def test_a_coverage_out_of_range_is_refused_before_rows_are_left_out(coverage: Any) -> None:  # noqa: ANN401
    classifier = fitted([3, 3])
    with pytest.raises(InvalidConfig, match=r"coverage is out of range: .* above 0 and below 1"):
        classifier.predict_set(np.zeros((1, 4)), coverage)
    assert "held_out_scores" not in vars(classifier.fitted_)


def test_a_coverage_may_be_a_number_of_numpy() -> None:
    sets = fitted([3, 3]).predict_set(np.zeros((1, 4)), np.float32(0.9))  # type: ignore[arg-type]
    assert sets.tolist() == [[True, True]]


def test_calibration_takes_some_of_every_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "MAX_CALIBRATED", 10)
    assert some_of(np.arange(25)).tolist() == list(range(0, 25, 3))
    assert some_of(np.arange(10)).tolist() == list(range(10))


def test_some_rows_may_be_all_that_calibrate() -> None:
    """As where the labels of the others were given because the model was sure of them."""
    support = fitted([20, 20]).fitted_
    held_out = support.held_out(calibration_folds(support.rows))
    some = np.arange(40) % 2 == 0
    kept = some[held_out.places]
    expected = (1 - held_out.true_class_probabilities(support.rows))[kept]
    np.testing.assert_array_equal(support.calibrated_on(some).held_out_scores, expected)
    assert 0 < kept.sum() < len(kept)
    assert support.calibrated_on(np.ones(40, dtype=bool)) is support


@pytest.mark.parametrize("count", [MIN_CALIBRATED - 1, 40])
def test_later_rows_that_calibrate_replace_earlier_ones(count: int) -> None:
    """Where too few rows remain, or all, all rows calibrate."""
    support = fitted([20, 20]).fitted_
    again = support.calibrated_on(np.arange(40) % 2 == 0).calibrated_on(np.arange(40) < count)
    np.testing.assert_array_equal(again.held_out_scores, support.held_out_scores)


def test_saved_classifiers_remember_what_calibrates_them(tmp_path: Path) -> None:
    classifier = fitted([20, 20])
    queries = rows([9, 9], seed=3).features
    all_rows = classifier.novelty(queries)
    classifier.calibrate_on(np.arange(40) % 2 == 0)
    novelty, scores = classifier.novelty(queries), classifier.fitted_.held_out_scores
    assert len(scores) < 40
    assert np.abs(novelty - all_rows).max() > 1e-3
    loaded = TailClassifier.load(classifier.save(tmp_path / "saved"))
    for other in (loaded, pickle.loads(pickle.dumps(classifier))):
        np.testing.assert_array_equal(other.fitted_.held_out_scores, scores)
        np.testing.assert_array_equal(other.novelty(queries), novelty)


@pytest.mark.parametrize(
    "mask", [np.ones(41, dtype=bool), [True, False], [0, 3, 5], np.ones(40), np.ones((40, 1)) > 0]
)
def test_what_calibrates_is_a_mask_of_the_rows(mask: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidInput, match=r"not a mask of the labelled rows: .* 40 booleans"):
        fitted([20, 20]).calibrate_on(mask)
