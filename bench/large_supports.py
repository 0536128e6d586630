"""Supports too large to be read: what their reduction costs in accuracy, and what they take.

    python bench/large_supports.py --banks BANKS --out results/large_supports.md

Accuracy: as many rows of each class as there are but for the queries; all related to each other
(beyond 4,096 rows: by exact kernels and all rows in the blocks, which are the same answers), or
read without pairs of rows, as supports beyond `max_support` are; beside cluster centres and rows
drawn at random, a quarter or less of them, and logistic regression on all. Memory and time: random
Gaussian classes, in a process for each size.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from measuring import Page
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from unitail.banks.bank import FeatureBank
from unitail.banks.splits import split_classes
from unitail.banks.table import FeatureTable
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.limits import reduced
from unitail.estimator.rows import Rows
from unitail.framework.statistics import MeanInterval
from unitail.relational.large.gaussians import MAX_EXACT
from unitail.training.config import DEFAULT_SEED
from unitail.training.recipe import HELD_OUT

SETS = {
    "efflite0/tiny_imagenet": 10,
    "efflite0/cub200": 50,
    "minilm/banking77": 77,
    "glove100/banking77": 77,
    "minilm/debian_sections": 49,
    "glove50/debian_sections": 49,
}
"""The banks, none of whose classes here blocks were trained on, and how many classes a task has."""
EXACT = {
    "gaussians.MAX_EXACT": 10**6,
    "committee.MAX_MEMBERS": 10**6,
    "committee.MAX_PAIRS": 10**12,
}
"""Limits of which nothing is left out: the answers of pairs in less memory."""
QUERIES = 10
PARTS = (4, 16)
SIZES = ("4000x10", "50000x10", "50000x1000", "1000000x10", "100x10+50000")
"""Rows, classes and unlabelled rows whose memory and time are measured."""
WIDTH, ASKED = 256, 100
PAIRS, WITHOUT = "unitail, pairs of all rows", "unitail, all rows without pairs"
Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to learn from and rows to ask."""

    features: Array
    labels: Array
    queries: Array
    truth: Array

    @classmethod
    def of(cls, bank: FeatureBank, ways: int, rng: np.random.Generator) -> "Split":
        """Draw classes, and of each some queries; all other rows are to learn from."""
        table: FeatureTable = bank
        if bank.name == "tiny_imagenet":
            table = split_classes(bank, HELD_OUT, DEFAULT_SEED)[1]
        indices = np.asarray(table.class_indices)
        present = np.unique(indices[indices >= 0])
        asked, known = [], []
        for number in rng.choice(present, ways, replace=False):
            rows = rng.permutation(np.flatnonzero(indices == number))
            asked.append(rows[:QUERIES])
            known.append(rows[QUERIES:])
        learn, ask = np.concatenate(known), np.concatenate(asked)
        features = np.asarray(table.features)
        return cls(
            features=features[learn].astype(np.float32),
            labels=indices[learn],
            queries=features[ask].astype(np.float32),
            truth=indices[ask],
        )

    def accuracy(self, classifier: Any, kept: Array | None = None) -> float:  # noqa: ANN401
        """Fit on all rows, or on some, and score, in %."""
        rows = slice(None) if kept is None else kept
        classifier.fit(self.features[rows], self.labels[rows])
        return float(100 * np.mean(classifier.predict(self.queries) == self.truth))

    def centres(self, limit: int, seed: int) -> "Split":
        """Put cluster centres in place of the rows, as joint answers have them."""
        labels, indices = np.unique(self.labels, return_inverse=True)
        kept = reduced(Rows(self.features, indices, len(labels)), limit, seed)
        return replace(self, features=kept.features, labels=labels[kept.class_indices])

    def some(self, count: int, rng: np.random.Generator) -> Array:
        """Draw about so many rows, the same number of each class."""
        labels = np.unique(self.labels)
        each = max(1, count // len(labels))
        places = [rng.permutation(np.flatnonzero(self.labels == label))[:each] for label in labels]
        return np.concatenate(places)


def measure(split: Split, seed: int, parts: Sequence[int]) -> dict[str, float]:
    """Return the accuracy of each way to learn."""
    rng = np.random.default_rng(seed)
    linear = make_pipeline(
        StandardScaler(with_std=False), Normalizer(), LogisticRegression(C=10, max_iter=1000)
    )
    most, values = (None, {}) if len(split.labels) <= MAX_EXACT else (1, EXACT)
    with ExitStack() as stack:
        for name, value in values.items():
            stack.enter_context(mock.patch(f"unitail.relational.large.{name}", value))
        pairs = split.accuracy(TailClassifier(max_support=most, random_state=seed))
    scores = {
        "LogisticRegression, all rows": split.accuracy(linear),
        PAIRS: pairs,
        WITHOUT: split.accuracy(TailClassifier(max_support=1, random_state=seed)),
    }
    for part in parts:
        limit = len(split.labels) // part
        scores[f"centres, 1/{part}"] = split.centres(limit, seed).accuracy(
            TailClassifier(max_support=None, random_state=seed)
        )
        scores[f"random 1/{part}"] = split.accuracy(
            TailClassifier(max_support=None, random_state=seed), split.some(limit, rng)
        )
    return scores


def take(rows: int, ways: int, pool: int) -> dict[str, Any]:
    """Fit and predict on Gaussian classes; return plan, time and peak memory of this process."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(ways, WIDTH)).astype(np.float32)
    labels = np.arange(rows) % ways
    features = means[labels] + 2 * rng.normal(size=(rows, WIDTH)).astype(np.float32)
    queries = means[np.arange(ASKED) % ways] + 2 * rng.normal(size=(ASKED, WIDTH))
    unlabelled = means[np.arange(pool) % ways]
    unlabelled += 2 * rng.normal(size=(pool, WIDTH)).astype(np.float32)
    beside = {"pool": unlabelled} if pool else {}
    classifier = TailClassifier(device="cpu", random_state=0)
    plan = str(classifier.plan(rows, ways, ASKED, WIDTH, n_pool=pool))
    classifier.fit(features[:20], labels[:20]).predict(features[:2])  # loads all that is lazy
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    answers = classifier.fit(features, labels, **beside).predict(queries)
    seconds = time.perf_counter() - start
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / 1e9
    right = 100 * np.mean(answers == np.arange(ASKED) % ways)
    return {"plan": plan, "seconds": seconds, "gigabytes": peak, "accuracy": right}


def accuracies(
    bank: FeatureBank, ways: int, splits: int, parts: Sequence[int]
) -> tuple[int, dict[str, str]]:
    """Return the rows of a split, and the mean accuracy of each way to learn over splits."""
    drawn = [Split.of(bank, ways, np.random.default_rng(seed)) for seed in range(splits)]
    scores = [measure(split, seed, parts) for seed, split in enumerate(drawn)]
    cells = {way: f"{MeanInterval.of([each[way] for each in scores]):.1f}" for way in scores[0]}
    lost = [each[WITHOUT] - each[PAIRS] for each in scores]
    cells["without pairs, minus with pairs"] = f"{MeanInterval.of(lost):.2f}"
    return len(drawn[0].labels), cells


def accuracy_table(page: Page, args: argparse.Namespace) -> None:
    """Measure every set and lay the numbers out, a column for each."""
    columns: dict[str, dict[str, str]] = {}
    for name in args.sets:
        bank = FeatureBank.open(args.banks / name)
        rows, cells = accuracies(bank, SETS[name], args.splits, args.parts)
        columns[f"{name}, {SETS[name]} classes, {rows} rows"] = cells
    ways = next(iter(columns.values()))
    page.table(
        ["accuracy, %", *columns],
        [[way, *(cells[way] for cells in columns.values())] for way in ways],
    )


def size_table(page: Page, sizes: Sequence[str]) -> None:
    """Measure every size in a process of its own."""
    header = ["rows", "classes", "pool", "seconds", "GB more than before", "accuracy, %"]
    page.table([*header, "the plan said"])
    for rows, ways, pool in map(numbers, sizes):
        command = [sys.executable, __file__, "--take", str(rows), str(ways), str(pool)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        taken = json.loads(done.stdout)
        cells = [f"{taken['seconds']:.1f}", f"{taken['gigabytes']:.2f}", f"{taken['accuracy']:.0f}"]
        page.row(f"{rows:,}", f"{ways:,}", f"{pool:,}", *cells, taken["plan"])


def numbers(size: str) -> tuple[int, int, int]:
    """Read ROWSxCLASSES, or ROWSxCLASSES+POOL."""
    task, _, pool = size.partition("+")
    rows, ways = map(int, task.split("x"))
    return rows, ways, int(pool or 0)


def main() -> None:
    """Measure and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--banks", type=Path)
    parser.add_argument("--sets", nargs="*", default=list(SETS), help="; ".join(SETS))
    parser.add_argument("--sizes", nargs="*", default=SIZES, help="ROWSxCLASSES[+POOL]")
    parser.add_argument("--parts", type=int, nargs="*", default=PARTS, help="1 / rows that stay")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--take", type=int, nargs=3, help="measure this size, and print it")
    args = parser.parse_args()
    if args.take:
        print(json.dumps(take(*args.take)))
        return
    page = Page(
        args.out,
        "Large supports",
        f"Accuracy in % on {QUERIES} queries of each class, mean over {args.splits} random splits"
        " with its 95 % interval; or from centres of k-means, or from rows drawn at random.",
        BANKS=args.banks or Path("BANKS"),
    )
    if args.sets:
        accuracy_table(page, args)
    if not args.sizes:
        return
    page.text(f"A fit and {ASKED} predictions on {WIDTH} columns; beyond 1,000 rows without pairs:")
    size_table(page, args.sizes)


if __name__ == "__main__":
    main()
