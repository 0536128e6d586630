import math

import pytest

from unitail.benchmark.store import TableResult
from unitail.benchmark.versus import Versus, chosen_anchor, versus_cell, versus_sections
from unitail.errors import UserError


def _row(difference: float, sets: float) -> Versus:
    return Versus(
        learner="it",
        group="g",
        protocol="p",
        difference=difference,
        episode_half_width=0.01,
        set_half_width=sets,
        wins=3,
        ties=2,
        losses=1,
    )


def test_a_cell_has_both_intervals_and_is_bold_beyond_doubt() -> None:
    assert versus_cell(_row(0.0234, 0.05)) == "**+2.3 ± 1.0 / 5.0**, 3-2-1"
    assert versus_cell(_row(-0.004, math.nan)) == "-0.4 ± 1.0 / -, 3-2-1"


def test_the_strongest_simple_method_is_the_anchor() -> None:
    assert chosen_anchor(["linear_probe_tuned", "linear_probe_shrunk"], "") == "linear_probe_shrunk"
    assert chosen_anchor(["a", "b"], "b") == "b"
    assert chosen_anchor(["a"], "") == ""
    with pytest.raises(UserError, match="no such learner to compare with: got c; allowed: a, b"):
        chosen_anchor(["a", "b"], "c")


def test_the_section_has_a_table_for_each_protocol(bench_results: list[TableResult]) -> None:
    assert versus_sections(bench_results) == []  # none of the usual anchors is there
    heading, text, *tables = versus_sections(bench_results, "first")
    assert heading == "## Against first"
    assert "minus `first`" in text
    assert tables[0] == "### 5-way 1-shot"
    assert tables[1].splitlines()[0] == "| learner | images | words | all groups |"
    assert len(tables) == 4
