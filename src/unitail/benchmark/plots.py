"""Plots of the results of a benchmark."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unitail.benchmark.means import GroupMeans, grouped
from unitail.evaluation.metrics import Calibration
from unitail.evaluation.result import Outcome
from unitail.plotting import as_png, make_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL = 2.6
"""Width and height of a panel in inches."""
MAX_COLUMNS = 4
"""Largest number of panels in a row."""
MIN_SHARE = 0.0005
"""Bins with a smaller share of the predictions are left out as noise."""


def plot_accuracy(groups: Sequence[GroupMeans], title: str) -> bytes:
    """Plot accuracy with intervals, a panel for each group and a line for each learner."""
    learners = list(dict.fromkeys(row.learner for row in groups))
    by_group = grouped(groups, lambda row: row.group)
    size = (1.6 + PANEL * len(by_group), 1.2 + 0.3 * len(learners))
    figure, panels = make_panels(1, len(by_group), size, sharey=True)
    for axes, (name, rows) in zip(panels, by_group.items(), strict=True):
        for row in rows:
            _plot_mean(axes, row, learners.index(row.learner))
        axes.set_title(name.replace(", ", ",\n"), fontsize=9)
        axes.set_xlabel("accuracy in %", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.grid(axis="x", alpha=0.3)
        axes.margins(x=0.12)
    panels[0].set_yticks(range(len(learners)), learners, fontsize=9)
    panels[0].set_ylim(len(learners) - 0.5, -0.5)
    partial = any(0 < row.answered < row.data_sets for row in groups)
    note = "; open: only some data sets" if partial else ""
    figure.suptitle(f"{title}, 95 % intervals{note}", fontsize=11)
    return as_png(figure)


def plot_reliability(calibration: Mapping[str, Mapping[str, Calibration]]) -> bytes:
    """Plot accuracy against confidence, a panel for each learner and a line for each protocol."""
    rows = math.ceil(len(calibration) / MAX_COLUMNS)
    columns = math.ceil(len(calibration) / rows)
    size = (1.6 + PANEL * columns, PANEL * rows + 0.6)
    figure, panels = make_panels(rows, columns, size, sharey=True)
    for axes, (learner, by_protocol) in zip(panels, calibration.items(), strict=False):
        for protocol, bins in by_protocol.items():
            _plot_bins(axes, bins, protocol)
        axes.plot([0, 1], [0, 1], color="grey", lw=0.8, ls="--")
        axes.set_title(learner, fontsize=9)
        axes.legend(fontsize=7, loc="lower right")
        axes.grid(alpha=0.3)
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.tick_params(labelsize=8)
    for axes in panels[len(calibration) :]:
        axes.set_visible(False)
    figure.supxlabel("confidence of an answer", fontsize=9)
    figure.supylabel("share of right answers", fontsize=9)
    figure.suptitle(
        "Reliability, pooled over the data sets answered (calibration error)", fontsize=11
    )
    return as_png(figure)


def _plot_mean(axes: "Axes", row: GroupMeans, place: int) -> None:
    if row.outcome is not Outcome.ANSWERED:
        middle = axes.get_yaxis_transform()
        axes.text(
            0.5, place, row.outcome, fontsize=8, color="grey", ha="center", va="center",
            transform=middle,
        )  # fmt: skip
        return
    axes.errorbar(
        100 * row.accuracy,
        place,
        xerr=100 * row.half_width,
        fmt="o",
        ms=4.5,
        capsize=2.5,
        color=f"C{place % 10}",
        mfc=None if row.answered == row.data_sets else "white",
    )


def _plot_bins(axes: "Axes", bins: Calibration, label: str) -> None:
    used = bins.counts > MIN_SHARE * bins.counts.sum()
    counts: np.ndarray = bins.counts[used]
    axes.plot(
        bins.confidence[used] / counts,
        bins.correct[used] / counts,
        marker="o",
        ms=3,
        lw=1.2,
        label=f"{label} ({100 * bins.error:.1f} %)",
    )
