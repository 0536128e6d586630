from collections.abc import Callable

from helpers.pictures import coloured
from unitail.benchmark.means import DataSetMeans
from unitail.reproduction.figures import ways_curves


def test_a_curve_for_each_data_set_that_has_several_numbers_of_ways(
    row: Callable[..., DataSetMeans],
) -> None:
    rows = [row("a", name, 0.9 - ways / 100, ways=ways) for name in "xy" for ways in (20, 5, 10)]
    curves = ways_curves([*rows, row("b", "x", 0.5)])
    [(caption, picture)] = curves.items()
    assert caption == "net/a, 5-shot: accuracy against the number of classes"
    places = coloured(picture, "C1")  # the second line covers the first, which is the same
    left, right = places[places[:, 1].argmin()], places[places[:, 1].argmax()]
    assert left[0] < right[0]  # accuracy falls with K, whatever the order of the rows
