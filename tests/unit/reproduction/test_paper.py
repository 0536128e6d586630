"""The paper's numbers: sums as its source has them, averages as its own tables say."""

import math

import pytest

from helpers.scripts import ROOT
from unitail.benchmark.suite_file import read_suite
from unitail.reproduction.paper import SHOTS, Number, PaperTable, paper_tables

TABLES = paper_tables()
SUMS = {
    "in_domain": (48, 4254.83),
    "cross_domain": (108, 7130.59),
    "cross_modal": (16, 920.51),
    "resnet18_average": (12, 783.95),
    "resnet18_in_domain": (24, 1839.43),
    "resnet18_cross_domain": (54, 2916.80),
    "ablation_projection": (18, 1547.15),
    "ablation_causal": (12, 980.19),
    "ablation_mixed": (12, 1052.3),
}
"""The cells of each table and the sum of their means."""


def _cells(table: PaperTable, shots: int, learner: str) -> list[Number]:
    return [Number.parse(cell) for cell in table.numbers[shots, learner]]


@pytest.mark.parametrize("key", list(TABLES))
def test_the_sum_of_a_table(key: str) -> None:
    numbers = [Number.parse(cell) for cells in TABLES[key].numbers.values() for cell in cells]
    assert (len(numbers), round(sum(number.mean for number in numbers), 2)) == SUMS[key]


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("shots", SHOTS)
def test_the_average_table_is_that_of_the_tables_by_data_set(shots: int, place: int) -> None:
    single = TABLES[("resnet18_in_domain", "resnet18_cross_domain")[place]]
    average = TABLES["resnet18_average"]
    for learner in average.learners:
        cells = _cells(single, shots, learner)
        said = average.number(shots, learner, place)
        assert said is not None
        assert said.mean == pytest.approx(sum(each.mean for each in cells) / len(cells), abs=0.0151)
        spread = math.hypot(*(each.half_width for each in cells)) / len(cells)
        assert said.half_width == pytest.approx(spread, abs=0.0151)


def test_tail_is_the_best_where_the_paper_prints_it_bold() -> None:
    """In all of tables 1 and 4, in seven of nine columns of table 2 at 5 shots and 1."""
    for key, wins in (("in_domain", 4), ("resnet18_average", 2), ("cross_domain", 7)):
        table = TABLES[key]
        for shots in SHOTS:
            best = [
                max(table.learners, key=lambda each: _cells(table, shots, each)[place].mean)
                for place in range(len(table.names))
            ]
            assert best.count("tail") == wins


def test_the_ablations_have_one_line_of_tail_which_is_not_the_average_of_the_tables() -> None:
    lines = {
        tuple(TABLES[key].numbers[shots, "base"] for shots in SHOTS)
        for key in ("ablation_projection", "ablation_causal", "ablation_mixed")
    }
    assert len(lines) == 1
    in_domain = sum(each.mean for each in _cells(TABLES["in_domain"], 5, "tail")) / 4
    assert in_domain == pytest.approx(95.66, abs=0.005)
    assert _cells(TABLES["ablation_causal"], 5, "base")[0].mean == 99.21


def _columns(suite: str, groups: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the sets that a table may have: those of one group, or all; none beside averages."""
    each = [tuple(group.sets) for group in read_suite(suite).groups]
    return [()] if groups else [*each, tuple(name for sets in each for name in sets)]


def test_the_sets_of_a_domain_are_the_same_with_each_encoder() -> None:
    own = [read_suite(f"paper_{name}").groups[0] for name in ("in_domain", "cross_domain")]
    other = read_suite("paper_resnet18").groups
    facts = [[(group.name, group.sets, group.overlap) for group in each] for each in (own, other)]
    assert facts[0] == facts[1]


def test_the_ablations_are_recipes_and_asked_about_the_sets_of_the_tables() -> None:
    suite = read_suite("paper_ablations")
    recipes = {path.stem for path in (ROOT / "recipes" / "ablations").glob("*.toml")}
    tables = [table for table in TABLES.values() if table.suite == suite.name]
    assert len(tables) == 3
    rows = {name for table in tables for name in (*table.learners, *(table.also or ()))}
    assert rows == set(suite.learners) <= recipes
    others = [read_suite(f"paper_{name}") for name in ("in_domain", "cross_domain", "cross_modal")]
    sets = [name.rpartition("/")[2] for group in suite.groups for name in group.sets]
    assert sets == [name for other in others for group in other.groups for name in group.sets]


def test_every_column_is_a_set_or_group_of_its_suite() -> None:
    for table in TABLES.values():
        groups = read_suite(table.suite).groups
        assert table.sets in _columns(table.suite, table.groups)
        assert table.groups in ((), tuple(group.name for group in groups))
        assert len(table.names) == len(table.sets or table.groups)
        starred = {name for name in table.names if name.endswith("*")}
        marked = {name for group in groups for name in group.overlap}
        own = zip(table.names, table.sets, strict=False)
        assert {name for name, data_set in own if data_set in marked} == starred
        assert {len(cells) for cells in table.numbers.values()} == {len(table.names)}
