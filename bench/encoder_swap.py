r"""Trained on one encoder's features, asked on another's, set by set (paper, table 4 and B.2).

The same nine image data sets appear in two benchmarks' results with features of an encoder used in
training and of one that was not. A learner's loss of accuracy is compared with that of prototypes,
which were trained on neither: the part due to the encoder itself is not the learner's fault.

    python bench/encoder_swap.py --results results/bench_banks results/tail_banks \
        results/default_banks --out results/encoder_swap
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from measuring.page import Page

from unitail.benchmark.means import DataSetMeans, read_summary
from unitail.evaluation.result import Outcome
from unitail.framework.statistics import MeanInterval

SEEN, SWAPPED = "efflite0", "resnet50"
LABELS = {
    "results/bench_banks": ("tail_joint", "gpicl", "linear_probe_tuned", "proto_head_paper"),
    "results/tail_banks": ("tail", "tail_50w"),
    "results/default_banks": ("unitail", "unitail_joint"),
}
"""Learners to show, by folder of results."""
Table = Mapping[tuple[str, str, str, int], DataSetMeans]


def read(folders: list[Path]) -> dict[tuple[str, str, str, int], DataSetMeans]:
    """Read results by learner, encoder, data set and shots."""
    return {
        (row.learner, row.encoder, row.data_set, row.shots): row
        for folder in folders
        for row in read_summary(folder / "summary.csv")
        if row.encoder in (SEEN, SWAPPED)
    }


def change(rows: Table, learner: str, data_set: str, shots: int) -> float | None:
    """Return the change of accuracy with the encoder, in points; None if there is no answer."""
    seen, swapped = (rows[learner, encoder, data_set, shots] for encoder in (SEEN, SWAPPED))
    if {seen.outcome, swapped.outcome} != {Outcome.ANSWERED}:
        return None
    return 100 * (swapped.accuracy - seen.accuracy)


def cell(row: DataSetMeans) -> str:
    """Format an accuracy with its interval."""
    if row.outcome is not Outcome.ANSWERED:
        return str(row.outcome)
    return f"{100 * row.accuracy:.1f} ± {100 * row.half_width:.1f}"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, nargs="+", required=True)
    parser.add_argument("--learners", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    rows = read(args.results)
    learners = args.learners or [name for names in LABELS.values() for name in names]
    sets = list(dict.fromkeys(key[2] for key in rows if key[1] == SWAPPED))
    page = Page(
        args.out / "README.md",
        "Another encoder at test time",
        f"Up to 5-way, 600 episodes of each set, 95 % intervals over episodes; `{SEEN}` was trained"
        f" on, `{SWAPPED}` never. The last line is the change of accuracy in points, mean over the"
        " sets with Student's 95 % interval over sets.",
    )
    for shots in (1, 5):
        page.text(f"## {shots}-shot, accuracy in %")
        header = [f"{name}, {encoder}" for name in learners for encoder in (SEEN, SWAPPED)]
        page.table(["set", *header])
        for data_set in sets:
            texts = [
                cell(rows[name, encoder, data_set, shots])
                for name in learners
                for encoder in (SEEN, SWAPPED)
            ]
            page.row(data_set, *texts)
        changes = []
        for name in learners:
            own = [change(rows, name, data_set, shots) for data_set in sets]
            values = [value for value in own if value is not None]
            changes += ["", f"{MeanInterval.of(values):.1f}" if len(values) > 1 else "cannot"]
        page.row("change", *changes)
    _plot(rows, learners, sets, args.out / "swap.png")
    page.text("![change](swap.png)")


def _plot(rows: Table, learners: list[str], sets: list[str], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axis, shots in zip(panels, (1, 5), strict=True):
        width = 0.8 / len(learners)
        for number, name in enumerate(learners):
            changes = [change(rows, name, data_set, shots) for data_set in sets]
            values = [np.nan if value is None else value for value in changes]
            places = np.arange(len(sets)) + (number - (len(learners) - 1) / 2) * width
            axis.bar(places, values, width, label=name)
        axis.set_xticks(range(len(sets)), sets, rotation=60, ha="right", fontsize=8)
        axis.set_title(f"{shots}-shot", fontsize=10)
        axis.axhline(0, color="black", lw=0.8)
        axis.grid(axis="y", alpha=0.3)
    panels[0].set_ylabel(f"{SWAPPED} minus {SEEN}, points")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
