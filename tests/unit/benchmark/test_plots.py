from typing import Any

import pandas as pd
import pytest

from unitail.benchmark import plots
from unitail.benchmark.plots import draw_accuracy, draw_reliability
from unitail.benchmark.run import Part
from unitail.benchmark.tables import Frame, calibration_frame, group_frame, summary_frame

PNG = b"\x89PNG"
PARTIAL = "open: only some data sets"


@pytest.fixture
def one(bench_parts: list[Part]) -> Frame:
    groups = group_frame(summary_frame(bench_parts))
    return groups[groups["protocol"] == "5-way 1-shot"]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    figures: list[Any] = []
    monkeypatch.setattr(plots, "_png", figures.append)
    return figures


def test_pictures_are_drawn_with_learners_that_cannot(one: Frame, bench_parts: list[Part]) -> None:
    assert draw_accuracy(one, "5-way 1-shot").startswith(PNG)
    assert draw_reliability(calibration_frame(bench_parts)).startswith(PNG)


def test_open_markers_are_explained_only_if_there_are_any(one: Frame, drawn: list[Any]) -> None:
    draw_accuracy(one.assign(answered=one["data_sets"]), "all")
    draw_accuracy(one.assign(answered=0, outcome="cannot"), "none")
    draw_accuracy(one.assign(answered=1, data_sets=2, outcome="answered"), "some")
    titles = [figure.get_suptitle() for figure in drawn]
    assert [PARTIAL in title for title in titles] == [False, False, True]


@pytest.mark.parametrize(
    ("learners", "rows", "columns"), [(1, 1, 1), (4, 1, 4), (5, 2, 3), (9, 3, 3)]
)
def test_reliability_panels_fill_their_rows(
    bench_parts: list[Part], drawn: list[Any], learners: int, rows: int, columns: int
) -> None:
    own = calibration_frame(bench_parts)
    own = own[own["learner"] == own["learner"].iloc[0]]
    several = pd.concat([own.assign(learner=f"learner {number}") for number in range(learners)])
    draw_reliability(several)
    grid = drawn[0].axes[0].get_subplotspec().get_gridspec()
    assert (grid.nrows, grid.ncols) == (rows, columns)
    assert sum(axes.get_visible() for axes in drawn[0].axes) == learners
