from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unitail.benchmark import plots
from unitail.benchmark.means import (
    GroupMeans,
    data_set_means,
    group_means,
    pooled_calibration,
)
from unitail.benchmark.plots import plot_accuracy, plot_reliability
from unitail.benchmark.store import TableResult
from unitail.evaluation.result import Outcome

PARTIAL = "open: only some data sets"


@pytest.fixture
def one(bench_results: list[TableResult]) -> list[GroupMeans]:
    groups = group_means(data_set_means(bench_results))
    return [row for row in groups if row.protocol == "5-way 1-shot"]


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Keep the figures; reports show that they become pictures, which takes longer."""
    kept: list[Any] = []
    monkeypatch.setattr(plots, "as_png", kept.append)
    return kept


def _points(axes: Any) -> list[tuple[float, float]]:  # noqa: ANN401
    """Return the middles of the error bars of a panel, by height."""
    middles = [container[0].get_xydata()[0].tolist() for container in axes.containers]
    return sorted(((x, y) for x, y in middles), key=lambda point: point[1])


def test_every_accuracy_is_a_point_with_its_interval(
    one: list[GroupMeans], figures: list[Any]
) -> None:
    plot_accuracy(one, "5-way 1-shot")
    panels = figures[0].axes
    assert [axes.get_title() for axes in panels] == ["images", "words"]
    names = [label.get_text() for label in panels[0].get_yticklabels()]
    assert names == ["prototypes", "first", "three", "none"]
    for axes in panels:
        own = [row for row in one if row.group == axes.get_title()]
        answered = [row for row in own if row.outcome is Outcome.ANSWERED]
        expected = [(100 * row.accuracy, names.index(row.learner)) for row in answered]
        assert _points(axes) == [pytest.approx(point) for point in expected]
        widths = [np.ptp(each[2][0].get_segments()[0][:, 0]) / 2 for each in axes.containers]
        assert widths == pytest.approx([100 * row.half_width for row in answered])
        said = [text.get_text() for text in axes.texts]
        assert said == ["cannot"] * (len(own) - len(answered))


def test_reliability_is_accuracy_against_confidence(
    bench_results: list[TableResult], figures: list[Any]
) -> None:
    calibration = pooled_calibration(bench_results)
    plot_reliability(calibration)
    for axes, (learner, by_protocol) in zip(figures[0].axes, calibration.items(), strict=False):
        assert axes.get_title() == learner
        *curves, diagonal = axes.get_lines()
        assert diagonal.get_xydata().tolist() == [[0, 0], [1, 1]]
        for curve, (protocol, bins) in zip(curves, by_protocol.items(), strict=True):
            used = bins.counts > 0
            assert curve.get_xdata() == pytest.approx(bins.confidence[used] / bins.counts[used])
            assert curve.get_ydata() == pytest.approx(bins.correct[used] / bins.counts[used])
            assert curve.get_label() == f"{protocol} ({100 * bins.error:.1f} %)"


def test_open_markers_are_explained_only_if_there_are_any(
    one: list[GroupMeans], figures: list[Any]
) -> None:
    def plot(rows: Sequence[GroupMeans]) -> None:
        plot_accuracy(rows, "title")

    plot([replace(row, answered=row.data_sets) for row in one])
    plot([replace(row, answered=0, outcome=Outcome.CANNOT) for row in one])
    plot([replace(row, answered=1, data_sets=2, outcome=Outcome.ANSWERED) for row in one])
    titles = [figure.get_suptitle() for figure in figures]
    assert [PARTIAL in title for title in titles] == [False, False, True]


@pytest.mark.parametrize(
    ("learners", "rows", "columns"), [(1, 1, 1), (4, 1, 4), (5, 2, 3), (9, 3, 3)]
)
def test_reliability_panels_fill_their_rows(
    bench_results: list[TableResult], figures: list[Any], learners: int, rows: int, columns: int
) -> None:
    own = pooled_calibration(bench_results)["first"]
    plot_reliability({f"learner {number}": own for number in range(learners)})
    grid = figures[0].axes[0].get_subplotspec().get_gridspec()
    assert (grid.nrows, grid.ncols) == (rows, columns)
    assert sum(axes.get_visible() for axes in figures[0].axes) == learners
