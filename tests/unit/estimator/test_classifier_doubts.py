import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from unitail.errors import InvalidInput
from unitail.estimator.classifier import TailClassifier

GENERATOR = np.random.default_rng(0)
Y = np.arange(30) % 3
X = GENERATOR.normal(size=(30, 4)) + 3 * np.eye(4)[Y]


def test_sets_follow_from_rows_or_from_their_log_probabilities() -> None:
    classifier = TailClassifier(random_state=0).fit(X, Y)
    sets = classifier.predict_set(X, 0.8)
    from_probabilities = classifier.predict_set(
        X, coverage=0.8, log_proba=classifier.predict_log_proba(X)
    )
    np.testing.assert_array_equal(sets, from_probabilities)
    labels = classifier.set_labels(sets)
    assert [list(each) for each in labels] == [list(np.flatnonzero(row)) for row in sets]


def test_sets_of_joint_predictions_are_isolated_ones_and_the_predicted_class() -> None:
    classifier = TailClassifier(visibility="joint", random_state=0).fit(X, Y)
    isolated = classifier.predict_set(X, 0.5)
    joint = np.log(np.full((30, 3), [0.1, 0.2, 0.7]))
    sets = classifier.predict_set(X, 0.5, log_proba=joint)
    assert not isolated[:, 2].all()
    assert sets[:, 2].all()
    np.testing.assert_array_equal(sets[:, :2], isolated[:, :2])


def test_what_is_far_away_is_novel() -> None:
    novelty = TailClassifier().fit(X, Y).novelty(np.stack([X[0], X[0] + 100]))
    assert novelty[0] < 0.9 < novelty[1]


def test_sets_and_novelty_need_a_fit() -> None:
    for ask in (TailClassifier().predict_set, TailClassifier().novelty):
        with pytest.raises(NotFittedError):
            ask(X)


def test_log_probabilities_of_other_classes_are_refused() -> None:
    classifier = TailClassifier(random_state=0).fit(X, Y)
    log_proba = classifier.predict_log_proba(X[:2])
    impossible = np.array([[0.0, -np.inf, -np.inf]])
    assert classifier.predict_set(X[:1], log_proba=impossible).tolist() == [[True, False, False]]
    wrong = {"(2, 2)": log_proba[:, :2], "(3,)": log_proba[0], "(1, 3)": log_proba[:1]}
    given = {**{f"shape {shape}": each for shape, each in wrong.items()}, "NaN": log_proba * np.nan}
    for got, each in given.items():
        with pytest.raises(InvalidInput) as caught:
            classifier.predict_set(X[:2], log_proba=each)
        assert f"got {got}; allowed: shape (2, 3)" in str(caught.value)
    probabilities = classifier.predict_proba(X[:2])  # not their logarithms
    with pytest.raises(InvalidInput, match=r"got rows whose exponentials sum to \d"):
        classifier.predict_set(X[:2], log_proba=probabilities)
