"""Plot a learning curve on a user's own data."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unitail.plotting import as_png, make_panels

if TYPE_CHECKING:
    from unitail.workflows.learning_curve.report import Line

SIZE = (7.0, 4.4)
"""Width and height in inches."""
STYLES = ("o", "s", "D", "^")
CLOSE = 1.12
"""If two sizes have a smaller ratio than this, only the larger one gets a tick label."""
OFFSET = 1.03
"""Horizontal ratio between learners, so that no interval hides another."""


def plot_curve(numbers: "Sequence[Line]", title: str) -> bytes:
    """Plot accuracy against examples per class; forecasts are hollow and dotted. Returns a PNG."""
    figure, [axes] = make_panels(1, 1, SIZE)
    learners = list(dict.fromkeys(line.learner for line in numbers))
    for place, name in enumerate(learners):
        lines = [line for line in numbers if line.learner == name]
        _plot_learner(axes, lines, place, len(learners))
    _label(axes, numbers)
    axes.set_title(f"{title}: accuracy on examples left out, 95 % intervals", fontsize=10)
    return as_png(figure)


def _plot_learner(axes: Any, lines: "Sequence[Line]", place: int, learners: int) -> None:  # noqa: ANN401
    """Plot what was measured of one learner, then its forecast."""
    shift = OFFSET ** (place - (learners - 1) / 2)
    color, marker = f"C{place}", STYLES[place % len(STYLES)]
    measured = [line for line in lines if line.how != "forecast"]
    style = {"color": color, "marker": marker, "ms": 5, "capsize": 2.5, "lw": 1.6, "elinewidth": 1}
    axes.errorbar(**_points(measured, shift), **style, label=lines[0].learner)
    ahead = [line for line in lines if line.how == "forecast"]
    if ahead:
        bridge = [measured[-1], *ahead]
        points = _points(bridge, shift)
        axes.plot(points["x"], points["y"], color=color, lw=1.2, ls=":")
        axes.errorbar(**_points(ahead, shift), **{**style, "lw": 0}, mfc="white")


def _points(lines: "Sequence[Line]", shift: float) -> dict[str, Any]:
    accuracies = [line.accuracy for line in lines]
    return {
        "x": [line.examples * shift for line in lines],
        "y": [100 * each.mean for each in accuracies],
        "yerr": [
            [100 * (each.mean - each.low) for each in accuracies],
            [100 * (each.high - each.mean) for each in accuracies],
        ],
    }


def _label(axes: Any, numbers: "Sequence[Line]") -> None:  # noqa: ANN401
    sizes = sorted({round(line.examples, 1) for line in numbers})
    pairs = zip(sizes, [*sizes[1:], np.inf], strict=False)
    ticks = [size for size, after in pairs if after > CLOSE * size]
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8)
    axes.minorticks_off()
    axes.set_xlabel(
        "labelled examples per class (last but one: all but one of each; hollow: forecast)",
        fontsize=9,
    )
    axes.set_ylabel("accuracy in %", fontsize=9)
    axes.set_ylim(top=min(101, axes.get_ylim()[1]))
    axes.grid(alpha=0.3)
    if numbers:
        axes.legend(fontsize=9, loc="lower right")
