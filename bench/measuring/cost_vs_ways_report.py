"""Tables and a plot of the measurements of `cost_vs_ways.py`."""

import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

OUT_OF_MEMORY = "out of memory"


def crossing(rows: list[dict[str, Any]], ours: str, other: str) -> str:
    """Describe the number of classes from which the other learner is slower than ours."""
    times = {
        name: {
            row["ways"]: row.get("milliseconds", math.inf)
            for row in rows
            if (row["learner"], row["what"]) == (name, "test")
        }
        for name in (ours, other)
    }
    ways = sorted(set(times[ours]) & set(times[other]))
    gaps = [math.log(times[other][way]) - math.log(times[ours][way]) for way in ways]
    slower = [gap > 0 for gap in gaps]
    if all(slower) or not slower[-1]:
        return "always" if all(slower) else "never up to the most measured"
    last = max(place for place, each in enumerate(slower) if not each)
    (low, high), (before, after) = ways[last : last + 2], gaps[last : last + 2]
    if math.isinf(after):
        return f"between {low} and {high}"
    share = -before / (after - before)
    return f"{math.exp(math.log(low) + share * math.log(high / low)):.0f}"


def cells(rows: list[dict[str, Any]], what: str, unit: str, ways: list[int]) -> list[list[str]]:
    """Return table rows of the numbers: learners by classes."""
    lines = []
    for name in dict.fromkeys(row["learner"] for row in rows if row["what"] == what):
        line = [name]
        for way in ways:
            values = (r for r in rows if (r["learner"], r["ways"], r["what"]) == (name, way, what))
            row: dict[str, Any] = next(values, {})  # nothing where it was not measured
            value = row.get(unit)
            line.append(row.get("failed") or ("-" if value is None else f"{value:,.1f}"))
        lines.append(line)
    return lines


def plot(rows: list[dict[str, Any]], path: Path, trained: Collection[str]) -> None:
    """Plot time and memory against the number of classes; crosses mark out-of-memory."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.2), layout="constrained")
    panels = [
        ("test", "milliseconds", "answering one episode, ms"),
        ("train", "milliseconds", "one training step, ms"),
        ("train", "gibibytes", "peak memory of training, GiB"),
    ]
    axes = figure.subplots(1, len(panels))
    names = list(dict.fromkeys(row["learner"] for row in rows))
    ways = sorted({row["ways"] for row in rows})
    for axis, (what, unit, title) in zip(axes, panels, strict=True):
        height = 0.97  # of the crosses; learners that fail together stay apart
        for number, name in enumerate(names):
            own = [row for row in rows if (row["learner"], row["what"]) == (name, what)]
            points = [(row["ways"], row[unit]) for row in own if row.get(unit) is not None]
            if points:
                line = "o-" if name in trained else "s--"
                axis.loglog(*zip(*points, strict=True), line, ms=4, color=f"C{number}", label=name)
            lost = [row["ways"] for row in own if "failed" in row]
            top = axis.get_xaxis_transform()
            axis.plot(lost, [height] * len(lost), "x", color=f"C{number}", transform=top)
            height -= 0.04 if lost else 0
        axis.set(title=title, xlabel="classes K", xticks=ways, xticklabels=ways)
        axis.minorticks_off()
        axis.margins(y=0.15)
        axis.grid(alpha=0.3)
    handles = axes[0].get_legend_handles_labels()[0]
    if any("failed" in row for row in rows):
        handles += axes[0].plot([], [], "kx", label=OUT_OF_MEMORY)
    figure.legend(handles=handles, loc="outside right upper", fontsize=8)
    figure.savefig(path, dpi=130)
