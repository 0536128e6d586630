import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError

from helpers.blobs import blobs
from helpers.builders import small_model
from unitail.errors import InvalidEpisode
from unitail.estimator.classifier import TailClassifier
from unitail.learners.checkpoint import save_model

X, Y, Q, _ = blobs()


def test_adding_equals_fitting_on_everything() -> None:
    for model in ("default", small_model()):
        known, late = Y < 2, Y == 2  # a new class, and more examples of the old ones
        first = known & (np.arange(len(Y)) % 2 == 0)
        classifier = TailClassifier(model, random_state=5).fit(X[first], Y[first])
        classifier.add(X[late], Y[late]).add(X[known & ~first], Y[known & ~first])
        order = [*np.flatnonzero(first), *np.flatnonzero(late), *np.flatnonzero(known & ~first)]
        whole = TailClassifier(model, random_state=5).fit(X[order], Y[order])
        np.testing.assert_array_equal(classifier.classes_, whole.classes_)
        np.testing.assert_array_equal(classifier.predict_proba(Q), whole.predict_proba(Q))


def test_new_classes_take_their_place_in_the_order_of_labels() -> None:
    classifier = TailClassifier().fit([[0.0], [1.0]], ["bee", "wasp"])
    classifier.add([[5.0], [0.1]], ["butterfly", "bee"])
    assert list(classifier.classes_) == ["bee", "butterfly", "wasp"]
    assert list(classifier.predict([[5.1]])) == ["butterfly"]


def test_labels_of_another_kind_are_not_added() -> None:
    classifier = TailClassifier().fit(X, Y)
    with pytest.raises(
        InvalidEpisode, match=r"not of the same kind .*: got strings; allowed: numbers"
    ):
        classifier.add(X[:1], ["a"])
    with pytest.raises(ValueError, match="expecting 6 features"):
        classifier.add(X[:1, :2], [0])
    assert len(classifier.classes_) == 3


def test_adding_needs_a_fit() -> None:
    with pytest.raises(NotFittedError):
        TailClassifier().add(X, Y)


# Models


def test_models_come_by_name_folder_or_object(tmp_path: Path) -> None:
    folder = save_model(small_model().float(), tmp_path / "model")
    by_object, by_text, by_path = (
        TailClassifier(model, random_state=0).fit(X, Y).predict_proba(Q)
        for model in (small_model().float(), str(folder), folder)
    )
    np.testing.assert_array_equal(by_object, by_text)
    np.testing.assert_array_equal(by_object, by_path)


def test_the_callers_model_is_not_changed() -> None:
    model = small_model().float()
    TailClassifier(model, random_state=0).fit(X, Y).predict(Q)
    assert model.training
    assert next(model.parameters()).dtype == torch.float32
    assert next(model.parameters()).requires_grad


def test_a_pickled_classifier_carries_its_own_model(tmp_path: Path) -> None:
    folder = save_model(small_model().float(), tmp_path / "model")
    classifier = TailClassifier(folder, random_state=0).fit(X, Y)
    pickled = pickle.dumps(classifier)
    (tmp_path / "model").rename(tmp_path / "elsewhere")
    expected = classifier.predict_proba(Q)
    np.testing.assert_array_equal(pickle.loads(pickled).predict_proba(Q), expected)


def test_the_shipped_model_is_not_pickled() -> None:
    assert len(pickle.dumps(TailClassifier().fit(X, Y))) < 5000


def test_a_fit_that_fails_leaves_the_last_one_as_it_was() -> None:
    classifier = TailClassifier(random_state=0).partial_fit(X, Y, classes=[0, 1, 2, 3])
    expected = classifier.predict_proba(Q)
    wider = np.hstack([X, X])
    with pytest.raises(InvalidEpisode, match="at least two classes"):
        classifier.fit(wider, np.zeros(len(Y)))
    assert np.array_equal(classifier.predict_proba(Q), expected)
    with pytest.raises(InvalidEpisode, match="labels that the first call did not name"):
        classifier.partial_fit(X[:1], [7])
    unfitted = TailClassifier()
    with pytest.raises(InvalidEpisode, match="at least two classes"):
        unfitted.fit(X, np.zeros(len(Y)))
    with pytest.raises(NotFittedError):
        unfitted.predict(Q)


def test_kept_examples_cannot_be_changed_behind_the_classifier() -> None:
    kept = TailClassifier().fit(X, Y, pool=Q).kept_examples()
    assert kept.pool is not None
    for array in (kept.vectors, kept.pool):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
