import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from helpers.blobs import blobs
from helpers.builders import small_model
from unitail.errors import InvalidConfig, InvalidEpisode, UserError
from unitail.estimator import fitted as reading
from unitail.estimator.classifier import TailClassifier
from unitail.nn.episode_model import AnyModel
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational

X, Y, Q, TRUTH = blobs()


def test_it_learns() -> None:
    classifier = TailClassifier().fit(X, Y)
    assert classifier.score(Q, TRUTH) > 0.8
    probabilities = classifier.predict_proba(Q)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(np.exp(classifier.predict_log_proba(Q)), probabilities)
    assert classifier.n_features_in_ == 6


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["b", "a", "c"]),
        np.array(["one", "three", "two"], dtype=object),
        np.array([10, -3, 7]),
        np.array([0.5, 1.5, 2.5]).astype(str),
        np.array([2.0, 0.0, 1.0]),
    ],
)
def test_labels_may_be_of_any_type(labels: NDArray[Any]) -> None:
    classifier = TailClassifier().fit(X, labels[Y])
    assert classifier.classes_.dtype == labels.dtype
    assert list(classifier.classes_) == sorted(labels)
    assert (classifier.predict(Q) == labels[TRUTH]).mean() > 0.8


def test_booleans_are_labels() -> None:
    classifier = TailClassifier().fit(X, Y > 0)
    assert classifier.predict(Q).dtype == bool


# Isolated answers


@pytest.mark.parametrize(("precision", "atol"), [("double", 1e-6), ("single", 1e-5)])
@pytest.mark.parametrize("model", ["default", "random"])
def test_answers_depend_on_nothing_but_support_and_row(
    model: str, precision: str, atol: float
) -> None:
    chosen: Any = small_model() if model == "random" else "default"
    classifier = TailClassifier(chosen, n_draws=2, random_state=3, precision=precision).fit(X, Y)
    whole = classifier.predict_proba(Q)
    order = np.random.default_rng(1).permutation(len(Q))
    shuffled = np.random.default_rng(2).permutation(len(X))
    one_by_one = np.concatenate([classifier.predict_proba(row[None]) for row in Q])
    chunked = clone(classifier).set_params(chunk_size=4).fit(X, Y).predict_proba(Q)
    resupported = clone(classifier).fit(X[shuffled], Y[shuffled]).predict_proba(Q)
    unpickled = pickle.loads(pickle.dumps(classifier)).predict_proba(Q)  # nothing cached
    for other in (one_by_one, chunked, resupported, unpickled, classifier.predict_proba(Q)):
        np.testing.assert_allclose(other, whole, atol=atol)
    np.testing.assert_allclose(classifier.predict_proba(Q[order]), whole[order], atol=atol)


def test_precisions_agree() -> None:
    """So that nothing jumps where "auto" passes from one to the other."""
    double, single = (
        TailClassifier(precision=precision).fit(X, Y).predict_proba(Q)
        for precision in ("double", "single")
    )
    np.testing.assert_allclose(single, double, atol=1e-5)


def dtype_of(classifier: TailClassifier) -> torch.dtype:
    return next(classifier.fitted_.learner.model.parameters()).dtype


def test_small_supports_are_worked_on_in_double_precision() -> None:
    support, y, *_ = blobs(ways=2, shots=128)
    assert dtype_of(TailClassifier().fit(support, y)) == torch.float64
    more = np.concatenate([support, support[:1]])
    assert dtype_of(TailClassifier().fit(more, [*y, y[0]])) == torch.float32


@pytest.mark.parametrize("angles_from_origin", [False, True])
def test_single_precision_sees_features_behind_an_offset(*, angles_from_origin: bool) -> None:
    model = Relational(replace(PRESETS["tiny"], angles_from_origin=angles_from_origin))
    classifier = TailClassifier(model, precision="single")
    plain = classifier.fit(X, Y).predict_proba(Q)
    scaled = classifier.fit(X * 1e200, Y).predict_proba(Q * 1e200)
    np.testing.assert_allclose(scaled, plain, atol=1e-5)
    moved = classifier.fit(X + 1e9, Y).predict_proba(Q + 1e9)
    exact = TailClassifier(model, precision="double").fit(X + 1e9, Y).predict_proba(Q + 1e9)
    np.testing.assert_allclose(moved, exact, atol=1e-3)
    assert np.allclose(moved, plain, atol=1e-3) != angles_from_origin


@pytest.mark.parametrize(
    "model", [small_model(normalisation="none").float(), Relational(PRESETS["tiny"])]
)
def test_models_that_take_features_as_they_are_get_them_so(model: AnyModel) -> None:
    """The second one compares angles seen from the origin."""
    single, double = (
        TailClassifier(model, random_state=0, precision=precision).fit(X, Y).predict_proba(Q)
        for precision in ("single", "double")
    )
    np.testing.assert_allclose(single, double, atol=1e-5)


def test_draws_are_made_in_fit() -> None:
    model = small_model()
    first = TailClassifier(model, random_state=1).fit(X, Y)
    assert (first.predict_proba(Q) == first.predict_proba(Q)).all()
    same = TailClassifier(model, random_state=1).fit(X, Y).predict_proba(Q)
    other = TailClassifier(model, random_state=2).fit(X, Y).predict_proba(Q)
    np.testing.assert_array_equal(first.predict_proba(Q), same)
    assert not np.allclose(first.predict_proba(Q), other)


# Joint answers


def test_joint_answers_depend_on_the_other_rows_of_the_call() -> None:
    classifier = TailClassifier(visibility="joint").fit(X, Y)
    whole = classifier.predict_proba(Q)
    assert not np.allclose(classifier.predict_proba(Q[:3]), whole[:3])
    order = np.random.default_rng(1).permutation(len(Q))
    np.testing.assert_allclose(classifier.predict_proba(Q[order]), whole[order], atol=1e-6)


def test_rows_that_see_each_other_are_not_answered_in_chunks() -> None:
    with pytest.raises(InvalidConfig, match="chunk_size=3 with visibility='joint'"):
        TailClassifier(visibility="joint", chunk_size=3).fit(X, Y)


def test_a_joint_call_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """But not by a small support: a search over `max_support` would have no scores."""
    classifier = TailClassifier(visibility="joint", max_support=12).fit(X, Y)
    assert len(classifier.predict(Q)) == 15
    monkeypatch.setattr(reading, "MAX_SUPPORT", 12)
    with pytest.raises(UserError, match=r"got 15 rows in one call; allowed: at most 12"):
        classifier.predict(Q)


# Odd supports


def test_constant_columns_and_equal_rows_are_fine() -> None:
    expected = TailClassifier().fit(X, Y).predict_proba(Q)
    for value, alike in ((0.0, True), (7.0, False)):  # the latter moves the origin away
        constant, asked = (np.column_stack([rows, np.full(len(rows), value)]) for rows in (X, Q))
        probabilities = TailClassifier().fit(constant, Y).predict_proba(asked)
        assert np.allclose(probabilities, expected, atol=1e-9) == alike
        assert (probabilities.argmax(axis=1) == expected.argmax(axis=1)).mean() > 0.8
    same = TailClassifier().fit(np.ones((4, 3)), [0, 0, 1, 1])
    assert np.isfinite(same.predict_proba(np.ones((2, 3)))).all()
    np.testing.assert_allclose(same.predict_proba(np.ones((1, 3))), 0.5, atol=1e-6)


def test_one_example_for_each_class_and_one_column_are_enough() -> None:
    classifier = TailClassifier().fit([[-5.0], [5.0]], ["a", "b"])
    assert list(classifier.predict([[-4.9], [5.2]])) == ["a", "b"]


def test_one_class_is_refused() -> None:
    with pytest.raises(InvalidEpisode, match=r"at least two classes: got 1 class \('a'\)"):
        TailClassifier().fit(X, ["a"] * len(X))


def test_the_callers_arrays_are_not_kept() -> None:
    features = X.copy()
    classifier = TailClassifier().fit(features, Y)
    before = classifier.novelty(Q)
    features[:] = 0
    np.testing.assert_array_equal(clone(classifier).fit(X, Y).novelty(Q), before)
    np.testing.assert_array_equal(classifier.fitted_.rows.features, X)


# Sets


def test_sets_are_of_labels() -> None:
    classifier = TailClassifier().fit(X, np.array(["a", "b", "c"])[Y])
    sets = classifier.predict_set(Q, coverage=0.9)
    assert sets.shape == (len(Q), 3)
    assert sets.dtype == bool
    assert sets[np.arange(len(Q)), TRUTH].mean() > 0.8
    labels = classifier.set_labels(sets)
    assert len(labels) == len(Q)
    assert set(labels[0]) <= {"a", "b", "c"}


def test_joint_classifiers_give_the_sets_of_isolated_ones() -> None:
    isolated, joint = (
        TailClassifier(visibility=visibility).fit(X, Y).predict_set(Q)
        for visibility in ("isolated", "joint")
    )
    np.testing.assert_array_equal(isolated, joint)


@pytest.mark.parametrize("method", ["predict_set", "novelty", "save", "set_labels"])
def test_sets_and_novelty_need_a_fit(method: str, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        getattr(TailClassifier(), method)(tmp_path / "x" if method == "save" else Q)


# The shipped weights


@pytest.mark.usefixtures("real_weights")
def test_the_shipped_model_learns_as_well_as_logistic_regression() -> None:
    ours, theirs = [], []
    for seed in range(20):
        support, y, query, truth = blobs(ways=5, shots=3, queries=10, width=20, seed=seed)
        ours.append(TailClassifier().fit(support, y).score(query, truth))
        theirs.append(LogisticRegression().fit(support, y).score(query, truth))
    assert np.mean(ours) > np.mean(theirs) - 0.02


@pytest.mark.usefixtures("real_weights")
@pytest.mark.parametrize("precision", ["double", "single"])
def test_the_shipped_model_answers_rows_alone_as_together(precision: str) -> None:
    support, y, query, _ = blobs(ways=5, shots=5, queries=20, width=64)
    classifier = TailClassifier(precision=precision).fit(support, y)
    together = classifier.predict_proba(query)
    alone = np.concatenate([classifier.predict_proba(row[None]) for row in query])
    np.testing.assert_allclose(alone, together, atol=1e-6)


@pytest.mark.usefixtures("real_weights")
def test_the_shipped_model_knows_no_limit_of_classes() -> None:
    support, y, query, truth = blobs(ways=300, shots=1, queries=1, width=64)
    assert TailClassifier().fit(support, y).score(query, truth) > 0.9
