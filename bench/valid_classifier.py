"""Test whether the shipped classifier is a valid learning algorithm, on many kinds of tasks.

    python bench/valid_classifier.py --packages PACKAGES --banks BANKS --kept CURVES \
        --out results/valid_classifier.md

Constructed shapes of two columns, Gaussian classes of 2 to 1,000 columns, real tables as arrays
(numeric columns only; see bench/table_sets.py for PACKAGES), and vectors of images, texts and
sounds from banks. The test is that of `unitail validity`: every pair of sizes, over all tasks
together, at level 0.05. Sizes beyond `--shots` take longer and vary less: `--beyond` tests them
with fewer draws, starting at the last of `--shots`. Curves stored in CURVES are not measured again;
--tasks selects tasks, to measure some at a time.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import table_sets
import torch
from measuring.page import Page

from unitail.banks.bank import FeatureBank
from unitail.estimator.classifier import TailClassifier
from unitail.framework.curves import LearningCurve
from unitail.framework.task import Task
from unitail.framework.validity import ValidityReport
from unitail.learners.fingerprints import default_stamp
from unitail.randomness import stream
from unitail.tasks.arrays import ArrayTask
from unitail.tasks.synthetic.gaussian import GaussianTask
from unitail.validity_study.kept import KeptCurves
from unitail.validity_study.study import study_validity, verdict

SHAPES = ("checkerboard", "circles", "moons", "spirals", "xor")
TABLES = ("breast cancer", "cells", "digits", "pima", "segment", "spam", "vowel")
BANKS = ("efflite0/rsscn7", "glove100/imdb", "minilm/agnews", "minilm/sst2", "yamnet/gtzan")
WIDTHS = (2, 16, 128, 1000)
NAME = "unitail"


def table(name: str, packages: Path | None) -> ArrayTask:
    """Return the numeric columns of a table as a task."""
    loaded = table_sets.load(name, packages)
    numbers = loaded.features.select_dtypes("number").to_numpy(dtype=np.float64)
    indices = np.unique(loaded.labels, return_inverse=True)[1]
    return ArrayTask(features=numbers, class_indices=indices, name=name)


def bank(name: str, folder: Path) -> ArrayTask:
    """Return the vectors of a bank as a task."""
    opened = FeatureBank.open(folder / name)
    features = np.asarray(opened.features, dtype=np.float32)
    return ArrayTask(features=features, class_indices=np.array(opened.class_indices), name=name)


def gaussian(name: str, width: int) -> GaussianTask:
    """Draw three normal classes whose separation does not depend on the width."""
    means = torch.randn(3, width, generator=stream(0, width)) / width**0.25
    return GaussianTask(means=means, scale=torch.ones(width), name=name)


def tasks(args: argparse.Namespace) -> Iterator[Task]:
    """Yield the named tasks, or all for which there are data; no other is loaded."""
    makers: dict[str, Callable[[], Task]] = {
        name: partial(table, name, args.packages) for name in (*SHAPES, *TABLES)
    }
    if args.banks:
        makers |= {name: partial(bank, name, args.banks) for name in BANKS}
    names = {width: f"Gaussian, {width} columns" for width in WIDTHS}
    makers |= {name: partial(gaussian, name, width) for width, name in names.items()}
    for name, make in makers.items():
        if not args.tasks or name in args.tasks:
            yield make()


def asked_beyond(task: Task, args: argparse.Namespace) -> bool:
    """Return whether a task has enough rows to be measured beyond `--shots`."""
    if args.beyond_tasks and task.name not in args.beyond_tasks:
        return False
    wanted = args.beyond[0] + args.queries
    return not isinstance(task, ArrayTask) or int(task.class_sizes.min()) >= wanted


def measured_rise(curve: LearningCurve) -> float:
    """Return the largest increase of mean risk from a smaller to a larger size, or zero."""
    means = [risk.mean for risk in curve.risk()]
    return max(0.0, *(after - before for before, after in combinations(means, 2)))


def add_table(
    page: Page, chosen: Sequence[Task], shots: Sequence[int], draws: int, args: argparse.Namespace
) -> None:
    """Measure curves, test them together, and write a row for each."""
    study = study_validity(
        {NAME: TailClassifier(device="cpu", random_state=0)},
        chosen,
        shots=tuple(shots),
        draws=draws,
        queries=args.queries,
        kept=KeptCurves(args.kept) if args.kept else None,
        stamps={NAME: default_stamp()},
        on_progress=lambda done, total: print(f"{done} of {total}", flush=True),
    )
    page.table(["task", *map(str, shots), "verdict", "rise measured", "rise possible"])
    for name, outcome in study.outcomes(NAME).items():
        assert isinstance(outcome, ValidityReport)
        risks = dict(zip(outcome.curve.shots, outcome.curve.risk(), strict=True))
        cells = [
            f"{100 * risks[each].mean:.1f} ± {100 * risks[each].half_width:.1f}"
            if each in risks
            else ""
            for each in shots
        ]
        rises = [measured_rise(outcome.curve), outcome.largest_rise]
        page.row(name, *cells, verdict(outcome), *(f"{100 * rise:.1f}" for rise in rises))
    page.text(str(study.reports[NAME]).splitlines()[0] + ".")


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--banks", type=Path)
    parser.add_argument("--shots", type=int, nargs="+", default=(1, 5, 20, 100, 400))
    parser.add_argument("--draws", type=int, default=24)
    parser.add_argument("--beyond", type=int, nargs="*", default=(1000, 2000), metavar="SHOTS")
    parser.add_argument("--beyond-draws", type=int, default=5)
    parser.add_argument("--beyond-tasks", nargs="+", help="some of them; else all with the rows")
    parser.add_argument("--queries", type=int, default=100, help="of a class")
    parser.add_argument("--tasks", nargs="+", help="some tasks, by name; else all")
    parser.add_argument("--kept", type=Path, help="the folder of measured curves")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    chosen = list(tasks(args))
    page = Page(
        args.out,
        "Validity of the shipped classifier",
        f"Error in % against the number of labels a class, {args.draws} draws of each,"
        f" {args.beyond_draws} where there are more than {args.shots[-1]}, up to {args.queries}"
        " queries of a class in a draw, 95 % intervals. *Rise measured*: the most by which the mean"
        " error of any larger size exceeds that of a smaller one, in points; *rise possible*: the"
        " most that the data leave possible, at 95 % for all tasks of a table together. *Valid*:"
        " within 10 points of the lowest error that is possible, where that is known.",
        PACKAGES=args.packages or Path("PACKAGES"),
        BANKS=args.banks or Path("BANKS"),
        CURVES=args.kept or Path("CURVES"),
    )
    add_table(page, chosen, args.shots, args.draws, args)
    large = [each for each in chosen if args.beyond and asked_beyond(each, args)]
    if large:
        add_table(page, large, (args.shots[-1], *args.beyond), args.beyond_draws, args)


if __name__ == "__main__":
    main()
