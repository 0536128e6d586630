"""Is the shipped classifier a valid learning algorithm? Learning curves over tasks of many kinds.

    python bench/valid_classifier.py --packages PACKAGES --out results/valid_classifier.md

Constructed shapes of two columns, Gaussian classes of 2 to 1,000 columns, real tables as arrays
(their columns of numbers alone; see bench/table_sets.py for PACKAGES). The test is that of
`unitail validity`: every pair of sizes, all tasks together, at level 0.05.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import table_sets
import torch
from measuring import Page

from unitail.estimator.classifier import TailClassifier
from unitail.framework.task import Task
from unitail.framework.validity import ValidityReport
from unitail.randomness import stream
from unitail.tasks.arrays import ArrayTask
from unitail.tasks.synthetic.gaussian import GaussianTask
from unitail.validity_study.study import study_validity, verdict

SHAPES = ("checkerboard", "circles", "moons", "spirals", "xor")
TABLES = ("breast cancer", "cells", "digits", "pima", "segment", "spam", "vowel")
WIDTHS = (2, 16, 128, 1000)


def tasks(packages: Path | None, chosen: Sequence[str] | None) -> Iterator[Task]:
    """Give the tasks of these names, or all; no other table is loaded."""
    for name in (*SHAPES, *TABLES):
        if chosen and name not in chosen:
            continue
        table = table_sets.load(name, packages)
        numbers = table.features.select_dtypes("number").to_numpy(dtype=np.float64)
        indices = np.unique(table.labels, return_inverse=True)[1]
        yield ArrayTask(features=numbers, class_indices=indices, name=name)
    for width in WIDTHS:
        name = f"Gaussian, {width} columns"
        if chosen and name not in chosen:
            continue
        means = torch.randn(3, width, generator=stream(0, width)) / width**0.25
        yield GaussianTask(means=means, scale=torch.ones(width), name=name)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--shots", type=int, nargs="+", default=(1, 5, 20, 100, 400))
    parser.add_argument("--tasks", nargs="+", help="some tasks, by name; else all")
    parser.add_argument("--draws", type=int, default=12)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    chosen = list(tasks(args.packages, args.tasks))
    study = study_validity(
        {"unitail": TailClassifier(device="cpu", random_state=0)},
        chosen,
        shots=tuple(args.shots),
        draws=args.draws,
        on_progress=lambda done, total: print(f"{done} of {total}", flush=True),
    )
    page = Page(
        args.out,
        "Validity of the shipped classifier",
        f"Error in % at so many labels a class, {args.draws} draws of each, 95 % intervals; the"
        " largest rise between any two sizes that the data leave possible, in points.",
        PACKAGES=args.packages or Path("PACKAGES"),
    )
    page.table(["task", *map(str, args.shots), "verdict", "largest rise"])
    for name, outcome in study.outcomes("unitail").items():
        assert isinstance(outcome, ValidityReport)
        risks = dict(zip(outcome.curve.shots, outcome.curve.risk(), strict=True))
        cells = [
            f"{100 * risks[each].mean:.1f} ± {100 * risks[each].half_width:.1f}"
            if each in risks
            else ""
            for each in args.shots
        ]
        page.row(name, *cells, verdict(outcome), f"{100 * outcome.largest_rise:.1f}")
    page.text(str(study.reports["unitail"]).splitlines()[0] + ".")


if __name__ == "__main__":
    main()
