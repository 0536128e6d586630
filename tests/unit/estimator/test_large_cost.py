import pytest

from unitail.estimator.classifier import TailClassifier
from unitail.estimator.large_cost import large_cost


def test_memory_is_bounded_by_the_rows_and_the_width() -> None:
    million = TailClassifier(device="cpu").plan(1_000_000, 10, 100, n_features=256)
    assert (million.support_read, million.reduced) == (1_000_000, False)
    data = 1_000_000 * 256 * 8
    assert data < million.memory_bytes < 3 * data
    assert "1000000 rows read, 4096 queries at a time, in float32" in str(million)
    many = TailClassifier(device="cpu").plan(1_000_000, 10_000, 100, n_features=256)
    assert many.memory_bytes < 3.5 * data
    assert many.seconds > million.seconds / 100


@pytest.mark.parametrize("size", ["rows", "width", "ways", "queries"])
def test_more_of_anything_costs_more(size: str) -> None:
    """But that committee and guides fade between some thousand rows and many."""
    sizes = {"rows": 200_000, "width": 64, "ways": 10, "queries": 100, "itemsize": 4}
    less, more = large_cost(**sizes), large_cost(**{**sizes, size: 4 * sizes[size]})
    assert more.operations > less.operations
    assert more.memory_bytes >= less.memory_bytes


def test_products_and_steps_are_counted() -> None:
    few, many = (large_cost(rows, 256, 10, 1, 4) for rows in (1_000_000, 2_000_000))
    grown = many.operations - few.operations
    rows = 1_000_000
    least = 2 * rows * 256**2 * 7 + 20 * 3 * 4 * rows * 256 * 10
    assert least < grown < 2 * least
