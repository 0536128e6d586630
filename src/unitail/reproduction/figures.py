"""Plots of accuracy against the number of classes."""

from collections.abc import Sequence

from unitail.benchmark.means import DataSetMeans, grouped
from unitail.evaluation.result import Outcome
from unitail.plotting import as_png, make_panels
from unitail.reproduction.paper import LABELS

SIZE = (6.4, 3.8)
"""Size of a figure in inches."""


def ways_curves(rows: Sequence[DataSetMeans]) -> dict[str, bytes]:
    """Plot every data set and number of shots measured at several ways, as PNG by caption.

    Shaded areas are the intervals of the means over episodes.
    """
    answered = [row for row in rows if row.outcome is Outcome.ANSWERED]
    curves = {}
    for (name, shots), own in grouped(answered, lambda row: (row.name, row.shots)).items():
        if len({row.ways for row in own}) > 1:
            curves[f"{name}, {shots}-shot: accuracy against the number of classes"] = _plot(own)
    return curves


def _plot(rows: Sequence[DataSetMeans]) -> bytes:
    figure, [axes] = make_panels(1, 1, SIZE)
    for learner, own in grouped(rows, lambda row: row.learner).items():
        ordered = sorted({row.ways: row for row in own}.values(), key=lambda row: row.ways)
        ways = [row.ways for row in ordered]
        means = [100 * row.accuracy for row in ordered]
        low = [100 * (row.accuracy - row.half_width) for row in ordered]
        high = [100 * (row.accuracy + row.half_width) for row in ordered]
        [line] = axes.plot(ways, means, marker="o", ms=3, label=LABELS.get(learner, learner))
        axes.fill_between(ways, low, high, alpha=0.2, color=line.get_color(), lw=0)
    axes.set(xlabel="classes of an episode, K", ylabel="accuracy in %")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return as_png(figure)
