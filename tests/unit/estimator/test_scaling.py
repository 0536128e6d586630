from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import (
    load_wine,
)

from helpers.blobs import blobs
from unitail.errors import InvalidConfig
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.rows import Rows
from unitail.estimator.scaling import Scale, Scaling

X, Y, Q, _ = blobs(shots=6)
UNITS = np.array([1e-3, 1, 50, 1e4, 1, 1])
Floats = NDArray[np.float64]


def test_the_unit_of_a_column_changes_nothing() -> None:
    classifier = TailClassifier().fit(X * UNITS, Y)
    assert classifier.scaled_
    shift = np.array([0, 300, 0, -1e4, 5, 0])
    other = TailClassifier(scale="table").fit(X + shift, Y)
    np.testing.assert_allclose(
        other.predict_proba(Q + shift), classifier.predict_proba(Q * UNITS), atol=1e-8
    )
    np.testing.assert_allclose(other.novelty(Q + shift), classifier.novelty(Q * UNITS), atol=1e-8)
    assert np.array_equal(other.predict_set(Q + shift), classifier.predict_set(Q * UNITS))


def test_medians_are_computed_where_a_value_is_missing_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = TailClassifier(scale="standard").fit(X, Y).predict_proba(Q)
    monkeypatch.setattr(np, "nanmedian", None)
    classifier = TailClassifier(scale="standard").fit(X, Y)
    np.testing.assert_array_equal(classifier.predict_proba(Q), expected)
    with pytest.raises(TypeError):
        classifier.predict(np.where(Q[0, 0] == Q, np.nan, Q))


def test_what_uses_no_labels_is_learned_once() -> None:
    scaling = Scaling.of(Rows(X, Y, 3), Scale.TABLE)
    fewer = scaling.learned_by(Rows(X, Y, 3).take(np.arange(9)))
    assert fewer.label_free is scaling.label_free
    assert not np.array_equal(fewer(Q), scaling(Q))
    np.testing.assert_array_equal(fewer.label_free(Q), scaling.label_free(Q))


def test_arrays_are_answered_as_data_frames_are() -> None:
    pandas = pytest.importorskip("pandas")
    holes = np.random.default_rng(0).random(X.shape) < 0.1
    for features in (X * UNITS, np.where(holes, np.nan, X * UNITS)):
        table = TailClassifier(encoder="auto").fit(pandas.DataFrame(features), Y)
        asked = np.where(holes[: len(Q)], np.nan, Q * UNITS)
        np.testing.assert_allclose(
            TailClassifier().fit(features, Y).predict_proba(asked),
            table.predict_proba(pandas.DataFrame(asked)),
            atol=2e-6,  # the frame's vectors are in single precision, and missing is told elsewhere
        )


def test_what_is_left_is_untouched() -> None:
    classifier = TailClassifier().fit(X, Y)
    assert not classifier.scaled_
    assert classifier.fitted_.scaled is classifier.fitted_.rows
    plain = TailClassifier(scale="none").fit(X, Y)
    np.testing.assert_array_equal(classifier.predict_proba(Q), plain.predict_proba(Q))
    asked = Q.astype(np.float32)
    assert classifier.fitted_.scaling(asked) is asked


def test_a_column_that_is_constant_in_the_support_says_nothing() -> None:
    constant = np.column_stack([X * UNITS, np.full(len(X), 0.3)])
    varying = np.column_stack([Q * UNITS, 1e6 * np.arange(len(Q))])
    expected = TailClassifier().fit(X * UNITS, Y).predict_proba(Q * UNITS)
    probabilities = TailClassifier().fit(constant, Y).predict_proba(varying)
    np.testing.assert_allclose(probabilities, expected, atol=1e-9)


def test_outliers_end_at_ten_deviations() -> None:
    scaling = Scaling.of(Rows(X, Y, 3), Scale.STANDARD)
    assert np.abs(scaling(np.full((1, 6), 1e9))).max() == 10


def test_queries_and_encoders_have_no_say() -> None:
    classifier = TailClassifier().fit(X * UNITS, Y)
    every = classifier.predict_proba(Q * UNITS)
    np.testing.assert_allclose(classifier.predict_proba(Q[3:4] * UNITS), every[3:4], atol=1e-9)


# Missing values


def test_missing_values_are_filled_in_and_reported() -> None:
    support = np.array([[1.0, 5.0], [np.nan, 5.0], [3.0, 8.0], [8.0, 6.0]])
    rows = Rows(support, np.array([0, 1, 0, 1]), 2)
    scaled = Scaling.of(rows, Scale.AUTO)
    assert scaled.choice is Scale.TABLE
    made = scaled.label_free(support)
    present = np.array([1.0, 3.0, 8.0])
    expected = (np.array([1.0, 3.0, 3.0, 8.0]) - present.mean()) / present.std()
    np.testing.assert_allclose(made[[0, 1, 2, 3], 0], expected[[0, 1, 2, 3]])
    assert made.shape == (4, 3)
    assert (made[:, 2] > 0).tolist() == [False, True, False, False]
    filled = Scaling.of(rows, Scale.NONE)(support)
    np.testing.assert_array_equal(filled[1], [3, 5])


def test_queries_may_miss_what_the_support_has() -> None:
    for scale in ("none", "standard"):
        classifier = TailClassifier(scale=scale).fit(X, Y)
        asked = Q.copy()
        asked[:, 0] = np.nan
        median = Q.copy()
        median[:, 0] = np.median(X[:, 0])
        np.testing.assert_allclose(
            classifier.predict_proba(asked), classifier.predict_proba(median), atol=1e-12
        )


def test_a_column_without_any_value_says_nothing() -> None:
    empty = np.column_stack([X, np.full(len(X), np.nan)])
    asked = np.column_stack([Q, np.ones(len(Q))])
    probabilities = TailClassifier().fit(empty, Y).predict_proba(asked)
    expected = TailClassifier(scale="table").fit(X, Y).predict_proba(Q)
    np.testing.assert_allclose(probabilities, expected, atol=2e-2)
    assert (probabilities.argmax(axis=1) == expected.argmax(axis=1)).all()


def test_infinite_values_are_refused() -> None:
    holed = X.copy()
    holed[0, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        TailClassifier().fit(holed, Y)
    with pytest.raises(ValueError, match="infinity"):
        TailClassifier().fit(X, Y).predict(np.full((1, 6), -np.inf))


# What is remembered


def test_the_choice_is_saved_and_kept_by_add(tmp_path: Path) -> None:
    classifier = TailClassifier().fit(X * UNITS, Y)
    loaded = TailClassifier.load(classifier.save(tmp_path / "saved"))
    assert loaded.scaled_
    np.testing.assert_array_equal(
        loaded.predict_proba(Q * UNITS), classifier.predict_proba(Q * UNITS)
    )
    assert loaded.fitted_.saved_scores is not None  # the calibration knows the choice
    more = classifier.add(Q * UNITS, np.arange(len(Q)) % 3)
    everyone, labels = np.concatenate([X, Q]), np.concatenate([Y, np.arange(len(Q)) % 3])
    fresh = TailClassifier().fit(everyone * UNITS, labels)
    np.testing.assert_allclose(more.predict_proba(Q * UNITS), fresh.predict_proba(Q * UNITS))
    left = TailClassifier().fit(X, Y).add(Q * UNITS, np.arange(len(Q)) % 3)
    assert not left.scaled_


def test_folders_from_before_answer_as_they_did(tmp_path: Path) -> None:
    classifier = TailClassifier(scale="none").fit(X * UNITS, Y)
    folder = classifier.save(tmp_path / "saved")
    table = folder / "classifier.json"
    lines = [line for line in table.read_text().splitlines() if '"scale' not in line]
    table.write_text("\n".join(lines))
    loaded = TailClassifier.load(folder)
    np.testing.assert_array_equal(
        loaded.predict_proba(Q * UNITS), classifier.predict_proba(Q * UNITS)
    )


def test_an_unknown_scale_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="scale is unknown: got robust; allowed: auto, none"):
        TailClassifier(scale="robust").fit(X, Y)


@pytest.mark.usefixtures("real_weights")
def test_wine_is_told_apart_by_all_of_its_columns() -> None:
    features, labels = load_wine(return_X_y=True)
    generator = np.random.default_rng(0)
    each = [generator.choice(np.flatnonzero(labels == k), 10, replace=False) for k in range(3)]
    shown = np.concatenate(each)
    rest = np.setdiff1d(np.arange(len(labels)), shown)
    right = {
        scale: TailClassifier(scale=scale)
        .fit(features[shown], labels[shown])
        .score(features[rest], labels[rest])
        for scale in ("auto", "none")
    }
    assert right["auto"] > 0.92
    assert right["none"] < 0.8


@pytest.mark.parametrize("size", [1e-150, 1e150, 1e200, 1e300])
def test_the_size_of_all_numbers_is_without_effect(size: float) -> None:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(12, 4)) * [1, 5, 200, 3000]
    labels, large = np.arange(12) % 2, size * rows / 1e4
    scaled = Scaling.of(Rows(rows, labels, 2), Scale.STANDARD)(rows)
    rescaled = Scaling.of(Rows(large, labels, 2), Scale.STANDARD)(large)
    np.testing.assert_allclose(rescaled, scaled, rtol=1e-9)
