from functools import partial

import pytest

from unitail.relational.config import PRESETS
from unitail.relational.large.cost import large_cost

cost = partial(large_cost, PRESETS["default"], at_once=4096, itemsize=4)


@pytest.mark.parametrize("size", ["rows", "width", "ways", "queries"])
def test_more_of_anything_costs_more(size: str) -> None:
    """But that committee and guides fade between some thousand rows and many."""
    sizes = {"rows": 200_000, "width": 64, "ways": 10, "queries": 100}
    less, more = cost(**sizes), cost(**{**sizes, size: 4 * sizes[size]})
    assert more.operations > less.operations
    assert more.memory_bytes >= less.memory_bytes


def test_products_and_steps_are_counted() -> None:
    few, many = (cost(rows, 256, 10, 1) for rows in (1_000_000, 2_000_000))
    grown = many.operations - few.operations
    rows = 1_000_000
    least = 2 * rows * 256**2 * 7 + 20 * 3 * 4 * rows * 256 * 10
    assert least < grown < 2 * least
