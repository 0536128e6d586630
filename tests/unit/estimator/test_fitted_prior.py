from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.blobs import blobs
from unitail.errors import InvalidConfig
from unitail.estimator.classifier import TailClassifier

X, Y, Q, _ = blobs(shots=6)
KEPT = np.concatenate([np.flatnonzero(k == Y)[:count] for k, count in enumerate((6, 3, 2))])
SUPPORT, LABELS = X[KEPT], Y[KEPT]
PRIOR = [0.2, 0.3, 0.5]
Floats = NDArray[np.float64]


def test_answers_move_from_the_supports_shares_to_the_prior() -> None:
    plain = TailClassifier().fit(SUPPORT, LABELS).predict_proba(Q)
    for prior, values in ((PRIOR, PRIOR), ("balanced", [1 / 3] * 3)):
        moved = plain * np.array(values) / (np.array([6, 3, 2]) / 11)
        moved /= moved.sum(axis=1, keepdims=True)
        classifier = TailClassifier(class_prior=prior).fit(SUPPORT, LABELS)
        np.testing.assert_allclose(classifier.predict_proba(Q), moved, atol=1e-9)
        np.testing.assert_allclose(classifier.predict_proba(Q[:1]), moved[:1], atol=1e-9)
    as_seen = TailClassifier(class_prior=np.array([6, 3, 2]) / 11).fit(SUPPORT, LABELS)
    np.testing.assert_allclose(as_seen.predict_proba(Q), plain, atol=1e-9)


def test_sets_are_calibrated_with_the_same_probabilities() -> None:
    classifier = TailClassifier(class_prior="balanced").fit(SUPPORT, LABELS)
    scores = classifier.fitted_.held_out_scores
    # The first fold leaves out the first row of each class.
    fold = np.array([0, 6, 9])
    rest = np.setdiff1d(np.arange(11), fold)
    alone = TailClassifier(class_prior="balanced").fit(SUPPORT[rest], LABELS[rest])
    expected = 1 - alone.predict_proba(SUPPORT[fold])[np.arange(3), LABELS[fold]]
    assert all(np.isclose(scores, score, atol=1e-9).any() for score in expected)
    assert not np.allclose(scores, TailClassifier().fit(SUPPORT, LABELS).fitted_.held_out_scores)


def test_shares_are_those_of_all_rows_whatever_the_model_read() -> None:
    """Of 60 and 20 rows it reads as many: answers are brought back by Bayes' rule, or to a prior.

    So they equal those for a prior of the given shares; weights count beside it; and what was said
    by the model itself is the balanced answer, since it read equally many.
    """
    many, labels, queries, _ = blobs(ways=2, shots=60)
    unequal = np.concatenate([np.flatnonzero(labels == 0), np.flatnonzero(labels == 1)[:20]])

    def said(**parameters: object) -> Floats:
        common = {"max_support": 30, "random_state": 0, "visibility": "joint"}
        classifier = TailClassifier(**common, **parameters).fit(many[unequal], labels[unequal])
        assert list(classifier.fitted_.kept.shots) == [15, 15]
        return np.asarray(classifier.predict_log_proba(queries))

    plain, balanced = said(), said(class_prior="balanced")
    np.testing.assert_allclose(said(class_prior=[0.75, 0.25]), plain, atol=1e-9)
    odds = np.diff(balanced) - np.log(3)
    np.testing.assert_allclose(np.diff(plain), odds, atol=1e-9)
    np.testing.assert_allclose(np.diff(said(class_weight={1: 2})), odds + np.log(2), atol=1e-9)


def test_it_is_saved(tmp_path: Path) -> None:
    classifier = TailClassifier(class_prior=np.array(PRIOR)).fit(SUPPORT, LABELS)
    loaded = TailClassifier.load(classifier.save(tmp_path / "saved"))
    np.testing.assert_array_equal(loaded.predict_proba(Q), classifier.predict_proba(Q))
    assert loaded.fitted_.saved_scores is not None


def test_what_is_wrong_is_reported() -> None:
    with pytest.raises(
        InvalidConfig, match=r"class_prior.*allowed: None, 'balanced', or 3 numbers"
    ):
        TailClassifier(class_prior=[0.5, 0.5]).fit(X, Y)
    with pytest.raises(InvalidConfig, match="state how often"):
        TailClassifier(visibility="joint", class_prior="balanced", class_shares="balanced").fit(
            X, Y
        )


def gaussians(shots: tuple[int, int], seed: int) -> tuple[Floats, NDArray[np.int64]]:
    generator = np.random.default_rng(seed)
    labels = np.repeat([0, 1], shots)
    return generator.normal(size=(len(labels), 4)) + 1.2 * labels[:, None], labels


@pytest.mark.usefixtures("real_weights")
def test_balanced_answers_are_nearer_to_bayes_on_gaussian_classes() -> None:
    """N(0, 1) against N(1.2, 1) in four columns: for equal priors log odds are Σ (1.2 x - 0.72)."""
    errors, recalls = [], []
    for seed in range(4):
        support, labels = gaussians((200, 50), seed)
        queries, truth = gaussians((100, 100), seed + 100)
        bayes = 1 / (1 + np.exp(-(1.2 * queries - 0.72).sum(axis=1)))
        rare = [
            TailClassifier(class_prior=prior).fit(support, labels).predict_proba(queries)[:, 1]
            for prior in (None, "balanced")
        ]
        errors.append([np.abs(each - bayes).mean() for each in rare])
        recalls.append([(each[truth == 1] > 0.5).mean() for each in rare])
    (plain, with_prior), (without, balanced) = np.mean(errors, axis=0), np.mean(recalls, axis=0)
    assert with_prior < 0.8 * plain
    assert balanced > without + 0.1
