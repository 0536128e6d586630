from collections.abc import Callable

import pytest

from unitail.benchmark.means import DataSetMeans
from unitail.evaluation.result import Outcome
from unitail.reproduction.grid import CellVerdict, compared, paper_grid, plain_grids
from unitail.reproduction.paper import Number, paper_tables

Make = Callable[..., DataSetMeans]
TABLE = paper_tables()["in_domain"]


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [(50.51, CellVerdict.HIGHER), (49.49, CellVerdict.LOWER), (50.49, CellVerdict.ALIKE)],
)
def test_numbers_differ_by_more_than_both_intervals_together(
    ours: float, verdict: CellVerdict
) -> None:
    """Half widths of 0.3 and 0.4 join to 0.5."""
    assert compared(Number(ours, 0.3), Number(50.0, 0.4)).verdict is verdict


def test_cells_without_one_of_the_two_have_no_verdict() -> None:
    alone = compared(Number(50.0, 1.0), None, best=True)
    assert (alone.ours, alone.paper, alone.verdict, alone.best) == ("50.00 (1.00)", "", "", True)
    assert compared("cannot", Number(50.0, 1.0)).paper == "50.00 (1.00)"
    assert compared("", Number(50.0, 1.0)).verdict is CellVerdict.NONE


def test_a_table_is_laid_out_as_in_the_paper(row: Make) -> None:
    rows = [
        row("cifar_fs", "tail", 0.9455),
        row("cifar_fs", "linear_probe_paper", 0.93, half_width=0.001),
        row("pascal_voc", "unitail", 0.9, ways=4),
        row("cifar_fs", "tail", 0.5, shots=1, protocol="5-way 1-shot"),
        row("cifar_fs", "tail", 0.1, protocol="10-way 5-shot", ways=10),  # of another table
    ]
    grid = paper_grid(TABLE, rows)
    assert grid.columns == ("CIFAR-FS", "miniImageNet", "tieredImageNet", "Pascal VOC (4-way)")
    assert [(line.shots, line.learner) for line in grid.rows[:7]] == [
        ("5-shot", name)
        for name in ("Linear Probe", "ProtoHead", "SNAIL", "GPICL", "CAML", "TAIL", "unitail")
    ]
    assert len(grid.rows) == 14
    probe, tail, ours = (grid.rows[place].cells for place in (0, 5, 6))
    assert (tail[0].ours, tail[0].paper) == ("94.55 (0.30)", "94.55 (0.29)")
    assert (tail[0].verdict, tail[0].best) == (CellVerdict.ALIKE, True)
    assert (probe[0].verdict, probe[0].best) == (CellVerdict.HIGHER, False)
    assert (tail[1].ours, tail[1].paper) == ("", "99.63 (0.06)")
    assert (ours[3].ours, ours[3].paper, ours[3].best) == ("90.00 (0.30)", "", True)
    assert grid.rows[12].cells[0].verdict is CellVerdict.LOWER


def test_wide_tables_have_shots_in_columns_and_averages_of_groups(row: Make) -> None:
    rows = [
        row("cifar_fs", "tail", 0.8),
        row("mini_imagenet", "tail", 0.9),
        row("cxr", "tail", 0.3, group="cross-domain", outcome=Outcome.CANNOT),
    ]
    grid = paper_grid(paper_tables()["resnet18_average"], rows)
    assert grid.columns[:2] == ("In-domain, 5-shot", "In-domain, 1-shot")
    [tail] = [line for line in grid.rows if line.learner == "TAIL"]
    assert [cell.ours for cell in tail.cells] == ["85.00 (0.21)", "", "", ""]
    assert [cell.paper for cell in tail.cells][2:] == ["66.08 (0.16)", "53.32 (0.20)"]


def test_other_suites_have_a_table_for_each_group_and_number_of_ways(row: Make) -> None:
    rows = [
        row("a", "one", 0.5),
        row("a", "two", 0.6),
        row("a", "two", 0.4, protocol="10-way 5-shot", ways=8),
        row("b", "one", 0.5, group="text", outcome=Outcome.CANNOT),
    ]
    first, second, third = plain_grids("Mine", rows)
    assert [grid.title for grid in (first, second, third)] == [
        *("Mine: in-domain, 5-way", "Mine: in-domain, 10-way", "Mine: text, 5-way")
    ]
    assert second.columns == ("net/a, 8-way",)
    assert [line.cells[0].best for line in first.rows] == [False, True]
    assert third.rows[0].cells[0].ours == "cannot"


def test_averages_over_some_of_the_sets_are_not_compared(row: Make) -> None:
    rows = [row("cifar_fs", "tail", 0.8), row("mini_imagenet", "tail", 0.9)]
    table = paper_tables()["resnet18_average"]
    for whole, text, verdict in (
        (2, "85.00 (0.21)", CellVerdict.LOWER),
        (4, "85.00 (0.21), 2 of 4 sets", CellVerdict.NONE),
    ):
        tail = paper_grid(table, rows, {"in-domain": whole}).rows[2].cells[0]
        assert (tail.ours, tail.paper, tail.verdict) == (text, "88.91 (0.21)", verdict)
