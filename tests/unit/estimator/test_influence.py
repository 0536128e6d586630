from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from unitail.estimator.influence import Influence, column_influence, column_spans

Y = np.arange(24) % 3
X = np.random.default_rng(0).normal(size=(24, 5)) + 3 * np.eye(5)[Y]
SPANS: Mapping[str, slice] = {"a": slice(0, 1), "b": slice(1, 3), "c": slice(3, 4)}
KNOWN = np.random.default_rng(1).normal(size=(6, 4))
ASKED = np.random.default_rng(2).normal(size=(3, 4))
PLACES = np.zeros(3, np.int64)


def linear(rows: NDArray[np.float64], _: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(rows @ np.array([1.0, 2.0, -1.0, 0.0]) + 5)


def crossed(rows: NDArray[np.float64], _: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(rows[:, 0] * rows[:, 1] * (1 + rows[:, 3]))


def test_walks_of_an_additive_score_are_exact() -> None:
    values = column_influence(linear, ASKED, PLACES, KNOWN, SPANS, num_walks=12, seed=0)
    differences = ASKED - KNOWN.mean(axis=0)  # six starts, each forwards and backwards
    expected = [differences[:, 0], 2 * differences[:, 1] - differences[:, 2], 0 * differences[:, 3]]
    np.testing.assert_allclose(values, np.stack(expected, axis=1), atol=1e-12)


@pytest.mark.parametrize("walks", [1, 3, 12])
def test_walks_sum_to_the_difference_from_their_starts(walks: int) -> None:
    asked = np.concatenate([ASKED, KNOWN[:1]])
    places = np.zeros(4, np.int64)
    values = column_influence(crossed, asked, places, KNOWN, SPANS, num_walks=walks, seed=0)
    started = crossed(asked, places) - values.sum(axis=1)
    np.testing.assert_allclose(started, started[0])  # all from the same rows
    if walks == 12:
        np.testing.assert_allclose(started[0], crossed(KNOWN, places).mean())


def test_two_walks_are_exact_for_products_of_two_columns() -> None:
    """The second goes backwards: the mean of both orders is the Shapley value of every pair."""

    def paired(rows: NDArray[np.float64], _: NDArray[np.int64]) -> NDArray[np.float64]:
        first, second, third = rows[:, 0], rows[:, 1], rows[:, 3]
        return np.asarray(first * second + 2 * second * third - first * third)

    spans = {"a": slice(0, 1), "b": slice(1, 2), "c": slice(3, 4)}
    options = {"places": PLACES, "labelled": KNOWN[:1], "spans": spans}
    exact = column_influence(paired, ASKED, **options, num_walks=600, seed=0)
    for seed in range(6):  # whatever the order
        values = column_influence(paired, ASKED, **options, num_walks=2, seed=seed)
        np.testing.assert_allclose(values, exact, atol=1e-12)


def test_many_queries_are_walked_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = column_influence(crossed, ASKED, PLACES, KNOWN, SPANS, num_walks=4, seed=0)
    monkeypatch.setattr("unitail.estimator.influence.MAX_WALKED", 1)
    chunks = column_influence(crossed, ASKED, PLACES, KNOWN, SPANS, num_walks=4, seed=0)
    np.testing.assert_allclose(chunks, whole)


def test_wide_queries_are_walked_in_chunks_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = column_influence(crossed, ASKED, PLACES, KNOWN, SPANS, num_walks=4, seed=0)
    sizes: list[int] = []

    def score(rows: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.float64]:
        sizes.append(rows.size)
        return crossed(rows, places)

    monkeypatch.setattr("unitail.estimator.influence.MAX_VALUES", 5 * ASKED.shape[1])
    chunks = column_influence(score, ASKED, PLACES, KNOWN, SPANS, num_walks=4, seed=0)
    np.testing.assert_array_equal(chunks, whole)
    assert len(sizes) > 2
    assert max(sizes) == 5 * ASKED.shape[1]


def test_vectors_have_a_column_for_each_number() -> None:
    assert column_spans(None, None, 2) == {"0": slice(0, 1), "1": slice(1, 2)}
    assert list(column_spans(None, np.array(["x", "y"]), 2)) == ["x", "y"]


def test_shares_are_of_what_speaks_for_the_label() -> None:
    influence = Influence(
        labels=np.array(["a", "b"]),
        score=np.array([3.0, -2.0]),
        values=np.array([[3.0, -1.0, 1.0], [-1.0, -2.0, -3.0]]),
    )
    np.testing.assert_allclose(influence.shares, [[0.75, 0, 0.25], [0, 0, 0]])
    assert influence.top(2).tolist() == [[0, 2], [0, 1]]
    np.testing.assert_allclose(influence.base, [0, 4])
