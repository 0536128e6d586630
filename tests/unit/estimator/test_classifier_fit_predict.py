"""Weights of rows and classes, and a pool of unlabelled rows, from `fit` to a saved folder."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from helpers.blobs import blobs
from helpers.builders import small_model
from unitail.errors import (
    CannotSolve,
    InvalidCheckpoint,
    InvalidConfig,
    InvalidEpisode,
    WeightWarning,
)
from unitail.estimator import rows as rows_module
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.prediction_sets import SavedScores
from unitail.estimator.rows import drawn_pool, repeats
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational

X, Y, Q, _ = blobs()
POOL = np.concatenate([blobs(seed=3)[0], blobs(seed=4)[0]])
WEIGHTS = np.array([2, 1, 0, 1, 3, 1, 1, 1, 2, 1, 1, 1])
Floats = NDArray[np.float64]


def answers(classifier: TailClassifier, queries: Floats = Q) -> Floats:
    return np.asarray(classifier.predict_proba(queries))


@pytest.fixture(scope="module")
def model() -> Relational:
    """Return a model that a pool affects: an untrained one predicts as ridge regression."""
    model = Relational(PRESETS["tiny"], seed=1).requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for weight in model.parameters():
        weight.normal_(std=0.3, generator=generator)
    return model


# Weights of rows


@pytest.mark.parametrize("max_support", [4000, 10])
def test_whole_weights_are_repeated_rows_and_zero_is_none(max_support: int) -> None:
    parameters: dict[str, Any] = {"max_support": max_support, "random_state": 0}
    places = np.repeat(np.arange(len(X)), WEIGHTS)
    weighted = TailClassifier(**parameters).fit(X, Y, sample_weight=WEIGHTS)
    repeated = TailClassifier(**parameters).fit(X[places], Y[places])
    np.testing.assert_allclose(answers(weighted), answers(repeated), atol=1e-12)
    assert not np.allclose(answers(weighted), answers(TailClassifier().fit(X, Y)), atol=1e-3)


def test_weights_decide_the_scale_as_repeated_rows_do() -> None:
    units = X * [1, 1e3, 1, 1, 1, 1]
    places = np.repeat(np.arange(len(X)), WEIGHTS)
    weighted = TailClassifier(scale="standard").fit(units, Y, WEIGHTS)
    repeated = TailClassifier(scale="standard").fit(units[places], Y[places])
    np.testing.assert_allclose(answers(weighted), answers(repeated), atol=1e-9)


def test_a_class_without_weight_is_no_class() -> None:
    assert TailClassifier().fit(X, Y, sample_weight=Y != 1).classes_.tolist() == [0, 2]


def test_fractions_keep_their_ratios_to_a_twentieth() -> None:
    for given, copies in (
        ([0.5, 1.0, 1.5], [1, 2, 3]),
        ([0.1, 0.1], [1, 1]),
        ([1.0, 1.5], [2, 3]),
        ([1.0, 1.6], [3, 5]),  # 4.8 is the first within 5 % of a whole number
        ([2.0, 4.0], [2, 4]),
        ([0.7, 1e4 / 3], [1, 4762]),
    ):
        assert repeats(np.array(given)).tolist() == copies
    drawn = np.random.default_rng(0).uniform(0.5, 5, size=(200, 6))
    for weights in drawn:
        ratios = repeats(weights) / weights
        assert ratios.max() / ratios.min() < 1.05 / 0.95


def test_weights_of_one_ratio_are_the_same_rows() -> None:
    halves = np.where(Y == 1, 1.5, 1.0)
    places = np.repeat(np.arange(len(X)), np.where(Y == 1, 3, 2))
    expected = answers(TailClassifier().fit(X[places], Y[places]))
    for weights in (halves, 2 * halves, halves / 7):
        fitted = TailClassifier().fit(X, Y, weights)
        np.testing.assert_allclose(answers(fitted), expected, atol=1e-12)


def test_too_many_copies_are_reduced_with_a_warning() -> None:
    uneven = np.where(np.arange(len(X)) == 0, 1e6, 1.0)
    with pytest.warns(
        WeightWarning, match=r"amounts to 1,000,011 copies of rows: at most 1,000 are made"
    ):
        counts = repeats(uneven)
    assert counts.tolist() == [988, *[1] * 11]
    with pytest.warns(WeightWarning, match="12,000,000 copies"):
        assert repeats(np.full(12, 1e6)).tolist() == [82] * 12
    with pytest.warns(WeightWarning, match=r"amounts to 9\.0e\+15 copies"):
        assert repeats(np.array([1e-300, 0.5, 1e300])).tolist() == [1, 1, 997]
    many = np.ones(6000)
    many[:6] = 2.5
    with pytest.warns(WeightWarning, match="12,018 copies of rows: at most 12,000"):
        assert repeats(many * 1.001).sum() <= 12000


def test_a_row_that_counts_twice_does_not_answer_for_itself() -> None:
    """Copies are left out with it: otherwise sets would promise too much."""
    doubled = TailClassifier().fit(X, Y, sample_weight=np.full(len(X), 2))
    held_out = doubled.fitted_.held_out_scores
    assert len(held_out) == len(X)
    fold = np.array([np.flatnonzero(k == Y)[0] for k in range(3)])
    rest = np.setdiff1d(np.arange(len(X)), fold)
    alone = TailClassifier().fit(X[rest], Y[rest], np.full(len(rest), 2))
    expected = 1 - answers(alone, X[fold])[np.arange(3), Y[fold]]
    assert all(np.isclose(held_out, score, atol=1e-9).any() for score in expected)


@pytest.mark.parametrize(
    "weights", [WEIGHTS, np.where(np.arange(12) < 3, 0.4, np.arange(12) % 2 + 1)]
)
def test_rows_with_weights_are_added_and_removed(weights: Floats, tmp_path: Path) -> None:
    """What was given is kept, not what it was rounded to: also by a saved folder."""
    whole = TailClassifier(random_state=0, scale="none").fit(X, Y, weights)
    added = TailClassifier(random_state=0, scale="none").fit(X[:8], Y[:8], weights[:8])
    loaded = TailClassifier.load(added.save(tmp_path / "saved", calibrate=False))
    for first in (added, loaded):
        first.add(X[8:], Y[8:], weights[8:])
        np.testing.assert_array_equal(answers(first), answers(whole))
    few = TailClassifier(random_state=0, scale="none").fit(X[3:], Y[3:], weights[3:])
    removed = added.remove(np.arange(int((weights[:3] > 0).sum())))
    np.testing.assert_array_equal(answers(removed), answers(few))


def test_weights_that_cannot_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="zero"):  # scikit-learn says so from 1.8 on
        TailClassifier().fit(X, Y, np.zeros(12))
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        TailClassifier().fit(X, Y, -WEIGHTS)
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        TailClassifier().fit(X, Y).add(X, Y, -WEIGHTS)
    monkeypatch.setattr(rows_module, "_check_sample_weight", lambda weight, *_, **__: weight)
    message = "all weights are zero: got 12 rows of weight 0; allowed: weights of which some are"
    with pytest.raises(InvalidEpisode, match=message):  # before 1.8 we do
        TailClassifier().fit(X, Y, np.zeros(12))


# Weights of classes


def test_probabilities_are_multiplied_by_the_weights_of_classes() -> None:
    names = np.array(["a", "b", "c"])[Y]
    plain = answers(TailClassifier().fit(X, names))
    weighted = TailClassifier(class_weight={"c": 5.0, "a": 0.5}).fit(X, names)
    expected = plain * [0.5, 1, 5]
    np.testing.assert_allclose(
        answers(weighted), expected / expected.sum(1, keepdims=True), atol=1e-9
    )


def test_balanced_weights_are_the_balanced_prior() -> None:
    kept = np.flatnonzero((Y != 2) | (np.cumsum(Y == 2) <= 1))
    weight, prior, plain = (
        TailClassifier(**parameter).fit(X[kept], Y[kept])
        for parameter in ({"class_weight": "balanced"}, {"class_prior": "balanced"}, {})
    )
    np.testing.assert_array_equal(answers(weight), answers(prior))
    counts = np.bincount(Y[kept])
    expected = answers(plain) * len(kept) / (3 * counts)  # as scikit-learn has it
    np.testing.assert_allclose(
        answers(weight), expected / expected.sum(1, keepdims=True), atol=1e-9
    )
    assert answers(weight)[:, 2].mean() > answers(plain)[:, 2].mean() + 0.01


def test_weights_of_classes_without_rows_are_reported_and_wait_for_them() -> None:
    first = Y < 2
    with pytest.warns(WeightWarning, match="class_weight names 2, which no row has"):
        streamed = TailClassifier(class_weight={2: 9.0}).partial_fit(X[first], Y[first])
    np.testing.assert_array_equal(
        answers(streamed), answers(TailClassifier().fit(X[first], Y[first]))
    )
    whole = answers(streamed.partial_fit(X[~first], Y[~first]))
    order = np.argsort(~first, kind="stable")
    fitted = TailClassifier(class_weight={2: 9.0}).fit(X[order], Y[order])
    np.testing.assert_array_equal(whole, answers(fitted))
    with pytest.warns(WeightWarning, match="class_weight names 2"):
        fitted.remove(np.flatnonzero(Y[order] == 2))
    assert fitted.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("given", [{0: 0.0}, {0: "much"}, {9: -1.0}, "uneven", [1, 2, 3]])
def test_weights_of_classes_that_cannot_be_are_refused(given: Any) -> None:  # noqa: ANN401
    with pytest.raises(InvalidConfig, match=r"class_weight is out of range: got .*; allowed: None"):
        TailClassifier(class_weight=given).fit(X, Y)


def test_prior_and_weights_are_one_thing() -> None:
    with pytest.raises(InvalidConfig, match="got class_weight and class_prior; allowed: one of"):
        TailClassifier(class_weight="balanced", class_prior="balanced").fit(X, Y)


# The pool


def test_an_answer_knows_the_pool_and_no_other_query(model: Relational) -> None:
    with_pool = TailClassifier(model).fit(X, Y, pool=POOL)
    together = answers(with_pool)
    assert not np.allclose(together, answers(TailClassifier(model).fit(X, Y)), atol=1e-3)
    order = np.random.default_rng(0).permutation(len(Q))
    np.testing.assert_allclose(answers(with_pool, Q[order]), together[order], atol=1e-12)
    alone = [answers(with_pool, row[None])[0] for row in Q]
    np.testing.assert_allclose(alone, together, atol=1e-12)


def test_the_order_of_the_pool_and_how_it_came_are_without_effect(model: Relational) -> None:
    whole = TailClassifier(model, random_state=0).fit(X, Y, pool=POOL)
    grown = TailClassifier(model, random_state=0).fit(X, Y, pool=POOL[:5])
    grown.add_pool(POOL[5:][::-1])
    np.testing.assert_array_equal(answers(grown), answers(whole))
    later = TailClassifier(model, random_state=0).fit(X, Y).add_pool(POOL.astype(np.float32))
    np.testing.assert_allclose(answers(later), answers(whole), atol=1e-5)
    more = TailClassifier(model, random_state=0).fit(X[:9], Y[:9], pool=POOL).add(X[9:], Y[9:])
    np.testing.assert_allclose(answers(more), answers(whole), atol=1e-12)


def test_of_large_pools_some_rows_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MAX_POOL", 10)
    rows = np.random.default_rng(0).normal(size=(50, 3))
    drawn = drawn_pool(rows, 0)
    assert len(drawn) == 10
    assert {row.tobytes() for row in drawn} < {row.tobytes() for row in rows}
    np.testing.assert_array_equal(drawn_pool(rows[::-1], 0), drawn)
    in_steps = np.concatenate([drawn_pool(rows[:30], 0), rows[30:]])
    np.testing.assert_array_equal(drawn_pool(in_steps, 0), drawn)
    assert not np.array_equal(drawn_pool(rows, 1), drawn)
    means = [drawn_pool(rows, seed).mean(axis=0) for seed in range(200)]
    np.testing.assert_allclose(np.mean(means, axis=0), rows.mean(axis=0), atol=0.1)


def test_all_of_it_is_saved_and_pickled(model: Relational, tmp_path: Path) -> None:
    parameters: dict[str, Any] = {"class_weight": {2: 3.0}, "random_state": 0}
    fitted = TailClassifier(model, **parameters).fit(X, Y, WEIGHTS, pool=POOL)
    loaded = TailClassifier.load(fitted.save(tmp_path / "saved"))
    for other in (loaded, pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(answers(other), answers(fitted))
        np.testing.assert_array_equal(other.predict_set(Q), fitted.predict_set(Q))
    assert loaded.fitted_.saved_scores is not None
    assert loaded.class_weight == {2: 3.0}
    assert "Beside 24 rows without labels" in (tmp_path / "saved" / "README.md").read_text()
    without = TailClassifier(model, **parameters).fit(X, Y, WEIGHTS)
    assert not np.array_equal(without.fitted_.held_out_scores, fitted.fitted_.held_out_scores)


def test_scores_are_for_their_pool_and_weights_alone() -> None:
    fitted = TailClassifier(random_state=0).fit(X, Y, WEIGHTS, pool=POOL).fitted_
    rows, settings, pool = fitted.rows, fitted.settings, fitted.pool
    assert pool is not None
    saved = SavedScores.of(np.zeros(3), rows, settings, pool)
    assert saved.scores_for(rows, settings, pool) is not None
    assert saved.scores_for(rows, settings, pool[1:]) is None
    assert saved.scores_for(rows, settings) is None
    assert saved.scores_for(replace(rows, counts=None), settings, pool) is None


def test_a_pool_that_cannot_be_read_is_refused(model: Relational) -> None:
    with pytest.raises(InvalidConfig, match="with a pool, each query is answered independently"):
        TailClassifier(visibility="joint").fit(X, Y, pool=POOL)
    with pytest.raises(CannotSolve, match="the model takes no pool of unlabelled rows"):
        TailClassifier(small_model()).fit(X, Y, pool=POOL)
    with pytest.raises(ValueError, match="X has 5 features, but TailClassifier is expecting 6"):
        TailClassifier(model).fit(X, Y, pool=POOL[:, :5])


# Parameters that were learned with


def test_what_is_saved_is_what_was_learned_with(tmp_path: Path) -> None:
    fitted = TailClassifier(class_weight={2: 9.0}).fit(X, Y)
    expected = answers(fitted)
    fitted.set_params(class_weight=None)
    loaded = TailClassifier.load(fitted.save(tmp_path / "saved"))
    np.testing.assert_array_equal(answers(loaded), expected)


def test_a_parameter_of_another_version_is_named(tmp_path: Path) -> None:
    folder = TailClassifier().fit(X, Y).save(tmp_path / "saved")
    path = folder / "classifier.json"
    path.write_text(path.read_text().replace('"n_draws"', '"n_dreams"'))
    with pytest.raises(InvalidCheckpoint, match=r"unknown parameters: got n_dreams; .*n_draws"):
        TailClassifier.load(folder)
