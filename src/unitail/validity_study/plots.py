"""Plots of a study of validity: the learning curves and the verdicts."""

import math
from typing import TYPE_CHECKING

from unitail.errors import optional
from unitail.framework.task import Task
from unitail.framework.validity import ValidityReport
from unitail.plotting import as_png, make_panels
from unitail.validity_study.study import ValidityStudy, Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    Verdict.CANNOT: "#9e9e9e",
    Verdict.RISES: "#d1495b",
    Verdict.GUESSES: "#edae49",
    Verdict.NO_RISE: "#a8d5ba",
    Verdict.VALID: "#2a9d5c",
}
SIGNS = {
    Verdict.CANNOT: "x",
    Verdict.RISES: "↑",
    Verdict.GUESSES: "?",
    Verdict.NO_RISE: "·",
    Verdict.VALID: "✓",
}
COLUMNS = 5
"""Largest number of panels in a row."""
DPI = 110


def plot_verdicts(study: ValidityStudy) -> bytes:
    """Plot a grid of learners and tasks, coloured by verdict."""
    learners = list(study.reports)
    longest = max(map(len, learners))
    height = 1.2 + 0.075 * longest + 0.27 * len(study.tasks)
    figure, axes = make_panels(1, 1, (4.5 + 0.55 * len(learners), height))
    patches = optional("matplotlib.patches", extra="report")
    for column, learner in enumerate(learners):
        for row, verdict in enumerate(study.verdicts(learner).values()):
            field = patches.Rectangle((column, row), 0.94, 0.92, color=COLOURS[verdict])
            axes[0].add_patch(field)
            axes[0].text(
                column + 0.47, row + 0.48, SIGNS[verdict], ha="center", va="center", fontsize=8
            )
    axes[0].set(xlim=(0, len(learners)), ylim=(len(study.tasks), 0))
    axes[0].set_xticks([c + 0.47 for c in range(len(learners))], learners, rotation=90, fontsize=8)
    names = [f"{each.group}: {each.task.name}" for each in study.tasks]
    axes[0].set_yticks([row + 0.46 for row in range(len(names))], names, fontsize=8)
    axes[0].tick_params(length=0)
    axes[0].xaxis.tick_top()
    axes[0].spines[:].set_visible(False)
    handles = [
        patches.Patch(color=COLOURS[each], label=f"{SIGNS[each]}  {each}") for each in Verdict
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8)
    return as_png(figure, DPI)


def plot_curves(study: ValidityStudy) -> bytes:
    """Plot risk against support size with intervals, in one panel per task."""
    count = len(study.tasks)
    rows = math.ceil(count / COLUMNS)
    columns = min(COLUMNS, count)
    figure, panels = make_panels(rows, columns, (2.9 * columns + 1.8, 2.5 * rows + 0.4))
    for number, (axes, each) in enumerate(zip(panels, study.tasks, strict=False)):
        _plot_task(axes, study, number, each.task)
    for axes in panels[count:]:
        axes.set_visible(False)
    lines = [
        axes.plot([], [], marker="o", ms=3, color=f"C{place % 10}", ls=_dash(place), label=name)[0]
        for place, name in enumerate(study.reports)
    ]
    lines.append(axes.plot([], [], color="black", lw=0.8, ls="--", label="Bayes risk")[0])
    figure.legend(handles=lines, loc="outside right upper", fontsize=8)
    figure.supxlabel("labelled examples n", fontsize=9)
    figure.supylabel("risk, 95 % interval", fontsize=9)
    return as_png(figure, DPI)


def _plot_task(axes: "Axes", study: ValidityStudy, number: int, task: Task) -> None:
    sizes: tuple[int, ...] = ()
    for place, report in enumerate(study.reports.values()):
        outcome = report.outcomes[number]
        if not isinstance(outcome, ValidityReport):
            continue
        sizes, risks = outcome.curve.sizes, outcome.curve.risk()
        axes.errorbar(
            sizes,
            [risk.mean for risk in risks],
            yerr=[risk.half_width for risk in risks],
            marker="o",
            ms=2.5,
            lw=1,
            ls=_dash(place),
            color=f"C{place % 10}",
        )
    if task.bayes_risk is not None:
        axes.axhline(task.bayes_risk, color="black", lw=0.8, ls="--")
    axes.axhline(1 - 1 / task.ways, color="grey", lw=0.6, ls=":")
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_title(task.name.replace(", ", ",\n", 1), fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.25)


def _dash(place: int) -> str:
    return "-" if place < 10 else "--"
