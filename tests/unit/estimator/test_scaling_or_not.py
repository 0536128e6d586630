import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
)

from helpers.blobs import blobs
from unitail.estimator.rows import Rows
from unitail.estimator.scaling import carriers, disparity, is_table, looks_like_table

X, Y, Q, _ = blobs(shots=6)
UNITS = np.array([1e-3, 1, 50, 1e4, 1, 1])
Floats = NDArray[np.float64]


def rows_of(features: Floats, count: int, seed: int) -> Floats:
    chosen = np.random.default_rng(seed).choice(len(features), count, replace=False)
    return np.asarray(features[chosen])


def test_tables_with_units_are_recognised_and_others_left() -> None:
    units = [load_wine().data, load_breast_cancer().data, load_diabetes(scaled=False).data]
    alike = [load_iris().data, load_digits().data, load_diabetes(scaled=True).data]
    for count in (8, 15, 60):
        for seed in range(10):
            assert all(looks_like_table(rows_of(features, count, seed)) for features in units)
            assert not any(looks_like_table(rows_of(features, count, seed)) for features in alike)


@pytest.mark.parametrize("rows", [2, 3, 5, 20, 100])
@pytest.mark.parametrize("width", [50, 384, 2048])
def test_vectors_of_encoders_are_left(rows: int, width: int) -> None:
    """Spreads differ by orders of magnitude there, too, and rectified features are often zero."""
    for seed in range(5):
        generator = np.random.default_rng(seed)
        spread = np.exp(0.4 * generator.normal(size=width))
        vectors = spread * generator.normal(size=(rows, width)) + generator.normal(size=width)
        assert not looks_like_table(vectors)
        if width > 50:
            assert not looks_like_table(np.maximum(vectors - spread, 0))


def test_few_rows_of_one_unit_seldom_look_like_a_table() -> None:
    generator = np.random.default_rng(0)
    for rows in (3, 4, 6, 10):
        for width in (2, 4, 10):
            seen = [looks_like_table(generator.normal(size=(rows, width))) for _ in range(500)]
            assert np.mean(seen) <= 0.01, (rows, width)


def test_two_rows_say_nothing_about_spreads() -> None:
    assert not any(looks_like_table(rows_of(load_wine().data, 2, seed)) for seed in range(10))
    assert looks_like_table(rows_of(load_wine().data, 3, 0))


@pytest.mark.parametrize("rows", [3, 5, 20])
def test_chance_among_few_rows_is_taken_off(rows: int) -> None:
    width, spread = 2000, np.repeat([1.0, 3.0], 1000)
    variances = (spread * np.random.default_rng(0).normal(size=(rows, width))).var(axis=0, ddof=1)
    truth = np.square(spread)
    count = truth.sum() ** 2 / np.square(truth).sum()
    assert carriers(variances, rows - 1) == pytest.approx(count, rel=0.1)
    differ = np.log(truth.mean()) - np.log(truth).mean()
    assert disparity(variances, rows - 1) == pytest.approx(differ, abs=0.15)


def test_a_common_unit_shift_or_order_and_constant_columns_have_no_say() -> None:
    for table, features in ((True, X * UNITS), (False, X)):
        assert looks_like_table(features) is table
        assert looks_like_table(1e6 * features) is table
        assert looks_like_table(features + 100) is table
        assert looks_like_table(features[::-1]) is table
        for constant in (0.0, 7.0, 1e9, 0.1):
            beside = np.column_stack([features, np.full(len(X), constant)])
            assert looks_like_table(beside) is table
    assert not looks_like_table(np.full((9, 3), 0.1))
    assert not looks_like_table(1e300 * X)


@pytest.mark.parametrize("size", [1e-150, 1e150, 1e200, 1e300])
def test_the_size_of_all_numbers_has_no_say(size: float) -> None:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(12, 4)) * [1, 5, 200, 3000]
    assert looks_like_table(rows)
    assert looks_like_table(size * rows / 1e4)
    assert not looks_like_table(size * generator.normal(size=(12, 40)))


def test_missing_values_make_a_table() -> None:
    gaps = X.copy()
    gaps[3, 1] = np.nan
    assert (looks_like_table(X), looks_like_table(gaps)) == (False, True)


@pytest.mark.parametrize(
    ("columns", "rows_per_class", "table"), [(8, 20, True), (9, 20, False), (8, 19, False)]
)
def test_narrow_arrays_of_many_rows_are_tables(
    columns: int, rows_per_class: int, table: bool
) -> None:
    features = np.random.default_rng(0).normal(size=(3 * rows_per_class, columns))
    labels = np.repeat(np.arange(3), rows_per_class)
    assert not looks_like_table(features)
    assert is_table(Rows(features, labels, 3)) is table
