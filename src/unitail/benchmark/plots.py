"""The results of a benchmark as pictures."""

import io
import math
from typing import Any

import numpy as np

from unitail.benchmark.markdown import is_complete
from unitail.benchmark.report_extra import optional
from unitail.benchmark.tables import Frame
from unitail.evaluation.result import Outcome

PANEL = 2.6
"""The width and height of a panel in inches."""
MOST_COLUMNS = 4
"""The most panels beside each other."""
LEAST_SHARE = 0.0005
"""Bins with a smaller share of the answers are not drawn: they would be noise."""


def draw_accuracy(groups: Frame, title: str) -> bytes:
    """Draw accuracy with intervals, a panel for each group and a line for each learner."""
    names = list(dict.fromkeys(groups["group"]))
    learners = list(dict.fromkeys(groups["learner"]))
    figure, panels = _panels(1, len(names), height=1.2 + 0.3 * len(learners), sharey=True)
    for axes, name in zip(panels, names, strict=True):
        for row in groups[groups["group"] == name].itertuples():
            place = learners.index(row.learner)
            _draw_accuracy(axes, row, place)
        axes.set_title(name.replace(", ", ",\n"), fontsize=9)
        axes.set_xlabel("accuracy in %", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.grid(axis="x", alpha=0.3)
        axes.margins(x=0.12)
    panels[0].set_yticks(range(len(learners)), learners, fontsize=9)
    panels[0].set_ylim(len(learners) - 0.5, -0.5)
    partial = any(row.answered and not is_complete(row) for row in groups.itertuples())
    note = "; open: only some data sets" if partial else ""
    figure.suptitle(f"{title}, 95 % intervals{note}", fontsize=11)
    return _png(figure)


def draw_reliability(calibration: Frame) -> bytes:
    """Draw accuracy against confidence, a panel for each learner and a line for each protocol."""
    learners = list(dict.fromkeys(calibration["learner"]))
    rows = math.ceil(len(learners) / MOST_COLUMNS)
    columns = math.ceil(len(learners) / rows)
    figure, panels = _panels(rows, columns, height=PANEL * rows + 0.6, sharey=True)
    for axes, learner in zip(panels, learners, strict=False):
        own = calibration[calibration["learner"] == learner]
        for protocol, part in own.groupby("protocol", sort=False):
            _draw_curve(
                axes, part.groupby("bin")[["counts", "confidence", "correct"]].sum(), protocol
            )
        axes.plot([0, 1], [0, 1], color="grey", lw=0.8, ls="--")
        axes.set_title(learner, fontsize=9)
        axes.legend(fontsize=7, loc="lower right")
        axes.grid(alpha=0.3)
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.tick_params(labelsize=8)
    for axes in panels[len(learners) :]:
        axes.set_visible(False)
    figure.supxlabel("confidence of an answer", fontsize=9)
    figure.supylabel("share of right answers", fontsize=9)
    figure.suptitle(
        "Reliability, pooled over the data sets answered (calibration error)", fontsize=11
    )
    return _png(figure)


def _draw_accuracy(axes: Any, row: Any, place: int) -> None:  # noqa: ANN401
    if row.outcome != Outcome.ANSWERED.value:
        middle = {"ha": "center", "va": "center", "transform": axes.get_yaxis_transform()}
        axes.text(0.5, place, row.outcome, fontsize=8, color="grey", **middle)
        return
    axes.errorbar(
        *(100 * row.accuracy, place),
        xerr=100 * row.half_width,
        fmt="o",
        ms=4.5,
        capsize=2.5,
        color=f"C{place % 10}",
        mfc=None if is_complete(row) else "white",
    )


def _draw_curve(axes: Any, bins: Frame, label: str) -> None:  # noqa: ANN401
    used = bins[bins["counts"] > LEAST_SHARE * bins["counts"].sum()]
    error = np.abs(bins["correct"] - bins["confidence"]).sum() / bins["counts"].sum()
    axes.plot(
        used["confidence"] / used["counts"],
        used["correct"] / used["counts"],
        marker="o",
        ms=3,
        lw=1.2,
        label=f"{label} ({100 * error:.1f} %)",
    )


def _panels(rows: int, columns: int, *, height: float, **options: bool) -> tuple[Any, Any]:
    """Make a figure and the flat list of its panels, without a window."""
    figures, canvas = optional("matplotlib.figure"), optional("matplotlib.backends.backend_agg")
    figure = figures.Figure(figsize=(1.6 + PANEL * columns, height), layout="constrained")
    canvas.FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options).ravel()


def _png(figure: Any) -> bytes:  # noqa: ANN401
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    return buffer.getvalue()
