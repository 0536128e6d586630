"""Tables are seen with steps and weights, and narrow arrays are tables."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import make_circles, make_moons

from helpers.blobs import blobs
from unitail.encoders.table_view import TableView
from unitail.encoders.tables import TableEncoder
from unitail.errors import TableSizeWarning
from unitail.estimator.as_learner import ClassifierLearner
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.rows import Rows
from unitail.estimator.scaling import Scale, Scaling
from unitail.framework.episode import Support

X, Y, Q, _ = blobs(shots=6)
UNITS = np.array([1e-3, 1, 50, 1e4, 1, 1])


def test_narrow_arrays_with_rows_enough_are_tables() -> None:
    generator = np.random.default_rng(0)
    for width, rows, expected in ((8, 40, True), (9, 40, False), (8, 39, False), (1, 60, True)):
        features = generator.normal(size=(rows, width))
        scaling = Scaling.of(Rows(features, np.arange(rows) % 2, 2), Scale.AUTO)
        assert (scaling.choice is Scale.TABLE) == expected


@pytest.mark.parametrize("scale", ["auto", "table"])
def test_tables_are_seen_through_the_view(scale: str) -> None:
    fitted = TailClassifier(scale=scale).fit(X * UNITS, Y).fitted_
    standard = Scaling.of(fitted.rows, Scale.STANDARD)(X * UNITS)
    known, stepped = torch.from_numpy(standard)[None], torch.arange(X.shape[1])
    view = TableView.of(known, torch.from_numpy(Y)[None], 3, stepped)
    np.testing.assert_allclose(fitted.scaled.features, view(known)[0].numpy())
    plain = TailClassifier(scale="standard").fit(X * UNITS, Y).fitted_
    np.testing.assert_array_equal(plain.scaled.features, standard)


def test_what_an_encoder_made_stays_but_for_tables() -> None:
    assert Scale.AUTO.after(None) is Scale.AUTO
    assert Scale.AUTO.after("some encoder") is Scale.NONE
    assert Scale.AUTO.after(TableEncoder()) is Scale.TABLE.after(TableEncoder()) is Scale.COLUMNS
    assert Scale.NONE.after(TableEncoder()) is Scale.NONE


@pytest.mark.parametrize("limit", [4000, 12])
def test_the_label_of_a_row_that_is_left_out_has_no_say(limit: int) -> None:
    """Else prediction sets would be calibrated on rows that the weights know already."""
    fold = np.array([0, 1, 2])
    other = Y.copy()
    other[fold] = (Y[fold] + 1) % 3
    answers = [
        TailClassifier(scale="table", max_support=limit, random_state=0)
        .fit(X * UNITS, labels)
        .fitted_.held_out([fold])
        .probabilities
        for labels in (Y, other)
    ]
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-9)


def test_tables_in_a_batch_are_seen_one_by_one() -> None:
    """With another number of columns that have steps in each."""
    tables = torch.from_numpy(np.stack([X * UNITS, (X > 0) * UNITS, X]))
    queries = torch.from_numpy(np.stack([Q * UNITS, (Q > 0) * UNITS, Q]))
    support = Support(features=tables, class_indices=torch.from_numpy(Y).expand(3, -1), ways=3)
    together = ClassifierLearner.of(TailClassifier()).infer(support, queries)
    for features, asked, answers in zip(tables, queries, together, strict=True):
        alone = TailClassifier().fit(features.numpy(), Y).predict_log_proba(asked.numpy())
        np.testing.assert_allclose(answers.numpy(), alone, atol=1e-6)


@pytest.mark.usefixtures("real_weights")
@pytest.mark.parametrize("make", [make_circles, make_moons])
def test_more_labels_do_not_undo_what_fewer_have_taught(make: Callable[..., Any]) -> None:
    """As arrays, circles fell from 90 to 55 % before narrow ones were tables."""
    features, labels = make(1200, noise=0.1, random_state=0)
    asked, truth = features[900:], labels[900:]
    scores = []
    for rows in (60, 300, 900):
        classifier = TailClassifier().fit(features[:rows], labels[:rows])
        scores.append(classifier.score(asked, truth))
    assert scores[2] > 0.8
    assert scores[2] > max(scores) - 0.02


def test_large_tables_get_a_warning_that_names_better_methods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("unitail.estimator.fitted.MANY_ROWS", len(X))
    with pytest.warns(TableSizeWarning, match="A table of 18 labelled rows: from about 18 on"):
        TailClassifier().fit(X * UNITS, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TailClassifier().fit(X, Y)  # vectors
        TailClassifier().fit(X[1:] * UNITS, Y[1:])
