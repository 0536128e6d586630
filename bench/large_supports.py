"""Accuracy, memory and time of large supports, compared with relating all pairs of rows.

    python bench/large_supports.py --banks BANKS --out results/large_supports

Accuracy: all rows of each class except the queries, either with relations between all pairs (beyond
4,096 rows: by exact kernels and all rows in the blocks, which give the same predictions), or
without pairs, as for supports beyond `max_support`; compared with cluster centres, a random quarter
of the rows, and logistic regression on all. Memory and time: random Gaussian classes, with one
process per size. Results are stored in a file of rows, so the command can be interrupted and
resumed; rows of another default model are ignored.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from measuring.page import Page
from measuring.row_files import add_rows, read_rows
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from unitail.banks.bank import FeatureBank
from unitail.banks.splits import split_classes
from unitail.banks.table import FeatureTable
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.rows import Rows, reduced
from unitail.framework.statistics import MeanInterval
from unitail.learners.fingerprints import default_stamp
from unitail.relational.large.gaussians import MAX_SOLVED
from unitail.training.config import DEFAULT_SEED
from unitail.training.recipe import HELD_OUT

SETS = {
    "efflite0/tiny_imagenet": 40,
    "minilm/debian_sections": 49,
    "glove50/debian_sections": 49,
    "efflite0/cub200": 50,
    "minilm/banking77": 77,
    "glove100/banking77": 77,
}
"""Banks, and how many classes a task has: of the first those that nothing was trained on; nothing
was on the last three."""
EXACT = {
    "gaussians.MAX_SOLVED": 10**6,
    "committee.MAX_MEMBERS": 10**6,
    "committee.MAX_PAIRS": 10**12,
}
"""Limits under which nothing is approximated: the result of pairs with less memory."""
QUERIES = 20
"""Number of queries per class, at most half of its rows."""
PARTS = (4,)
SIZES = ("4000x10", "50000x10", "200000x10", "10000x10000", "1000000x10", "100x10+50000")
"""Rows, classes and unlabelled rows for which memory and time are measured."""
WIDTH, ASKED = 256, 100
LINEAR, PAIRS, WITHOUT = "logistic regression", "unitail, pairs", "unitail, without pairs"
"""Methods that use all rows."""
Array = NDArray[Any]
Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Split:
    """Labelled rows and queries."""

    features: Array
    labels: Array
    queries: Array
    truth: Array

    @classmethod
    def of(cls, bank: FeatureBank, ways: int, rng: np.random.Generator) -> "Split":
        """Draw classes, and queries of each; all other rows are labelled."""
        table: FeatureTable = bank
        if bank.name == "tiny_imagenet":
            table = split_classes(bank, HELD_OUT, DEFAULT_SEED)[1]
        indices = np.asarray(table.class_indices)
        present = np.unique(indices[indices >= 0])
        asked, labelled = [], []
        for number in rng.choice(present, ways, replace=False):
            rows = rng.permutation(np.flatnonzero(indices == number))
            count = min(QUERIES, len(rows) // 2)
            asked.append(rows[:count])
            labelled.append(rows[count:])
        learn, ask = np.concatenate(labelled), np.concatenate(asked)
        features = np.asarray(table.features)
        return cls(
            features=features[learn].astype(np.float32),
            labels=indices[learn],
            queries=features[ask].astype(np.float32),
            truth=indices[ask],
        )

    def right(self, classifier: Any, subset: Array | None = None) -> str:  # noqa: ANN401
        """Fit on all or some rows; return for each query 1 if its prediction is correct, else 0."""
        rows = slice(None) if subset is None else subset
        classifier.fit(self.features[rows], self.labels[rows])
        correct = classifier.predict(self.queries) == self.truth
        return "".join(map(str, correct.astype(int)))

    def centres(self, limit: int, seed: int) -> "Split":
        """Replace the rows by cluster centres, as joint predictions do."""
        labels, indices = np.unique(self.labels, return_inverse=True)
        reduced_rows = reduced(Rows(self.features, indices, len(labels)), limit, seed)
        return replace(
            self, features=reduced_rows.features, labels=labels[reduced_rows.class_indices]
        )

    def some(self, count: int, rng: np.random.Generator) -> Array:
        """Draw about `count` rows, the same number from each class."""
        labels = np.unique(self.labels)
        each = max(1, count // len(labels))
        places = [rng.permutation(np.flatnonzero(self.labels == label))[:each] for label in labels]
        return np.concatenate(places)


def ways_to_learn(split: Split, seed: int, parts: Sequence[int]) -> dict[str, Callable[[], str]]:
    """Yield each method's name and whether it predicted each query correctly."""
    linear = make_pipeline(
        StandardScaler(with_std=False), Normalizer(), LogisticRegression(C=10, max_iter=1000)
    )
    pairs = TailClassifier(max_support=None, random_state=seed)
    without = TailClassifier(max_support=1, random_state=seed)
    ways: dict[str, Callable[[], str]] = {
        LINEAR: lambda: split.right(linear),
        WITHOUT: lambda: split.right(without),
        PAIRS: lambda: split.right(pairs),
    }
    if len(split.labels) > MAX_SOLVED:
        ways[PAIRS] = lambda: exactly(lambda: split.right(without))
    for part in parts:
        limit, rng = len(split.labels) // part, np.random.default_rng(seed)
        ways[f"centres, 1/{part}"] = partial(_centres, split, limit, seed, pairs)
        ways[f"random 1/{part}"] = partial(split.right, pairs, split.some(limit, rng))
    return ways


def _centres(split: Split, limit: int, seed: int, classifier: TailClassifier) -> str:
    return split.centres(limit, seed).right(classifier)


def exactly(work: Callable[[], str]) -> str:
    """Run without approximations."""
    with ExitStack() as stack:
        for name, value in EXACT.items():
            stack.enter_context(mock.patch(f"unitail.relational.large.{name}", value))
        return work()


def take(rows: int, ways: int, pool: int) -> dict[str, Any]:
    """Fit and predict on Gaussian classes; return plan, time and peak memory of this process."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(ways, WIDTH)).astype(np.float32)
    labels = np.arange(rows) % ways
    features = means[labels] + 2 * rng.normal(size=(rows, WIDTH)).astype(np.float32)
    queries = means[np.arange(ASKED) % ways] + 2 * rng.normal(size=(ASKED, WIDTH))
    unlabelled = means[np.arange(pool) % ways]
    unlabelled += 2 * rng.normal(size=(pool, WIDTH)).astype(np.float32)
    options = {"pool": unlabelled} if pool else {}
    classifier = TailClassifier(device="cpu", random_state=0)
    plan = str(classifier.plan(rows, ways, ASKED, WIDTH, n_pool=pool))
    classifier.fit(features[:20], labels[:20]).predict(features[:2])  # loads all that is lazy
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, cpu = time.perf_counter(), time.process_time()
    answers = classifier.fit(features, labels, **options).predict(queries)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / 1e9
    correct = 100 * np.mean(answers == np.arange(ASKED) % ways)
    return {"plan": plan, "seconds": seconds, "cpu": cpu, "gigabytes": peak, "accuracy": correct}


def accuracy_rows(args: argparse.Namespace, stored: set[str]) -> Iterator[Row]:
    """Measure the accuracies that are not stored yet."""
    for seed in range(args.splits):
        for name in args.sets:
            bank = FeatureBank.open(args.banks / name)
            split = Split.of(bank, SETS[name], np.random.default_rng(seed))
            for way, work in ways_to_learn(split, seed, args.parts).items():
                key = f"accuracy|{name}|{seed}|{way}"
                if key not in stored:
                    yield {"key": key, "rows": len(split.labels), "right": work()}


def size_rows(args: argparse.Namespace, stored: set[str]) -> Iterator[Row]:
    """Measure the sizes that are not stored yet, each in its own process."""
    for size in args.sizes:
        if f"size|{size}" not in stored:
            command = [sys.executable, __file__, "--take", *map(str, numbers(size))]
            result = subprocess.run(command, capture_output=True, text=True, check=True)
            yield {"key": f"size|{size}", **json.loads(result.stdout)}


def accuracy_table(page: Page, rows: list[Row], sets: Sequence[str]) -> None:
    """Write accuracies and losses, one column per set, with intervals over queries."""
    columns: dict[str, dict[str, str]] = {}
    for name in sets:
        correct: dict[str, list[int]] = {}
        own = [row for row in rows if row["key"].startswith(f"accuracy|{name}|")]
        for row in own:
            way = row["key"].split("|")[3]
            correct.setdefault(way, []).extend(map(int, row["right"]))
        cells = {way: f"{MeanInterval.of(100 * np.array(e)):.1f}" for way, e in correct.items()}
        whole = np.array(correct.pop(PAIRS, []))
        for way, each in correct.items():
            if len(each) == len(whole):
                apart = MeanInterval.of(100 * (np.array(each) - whole))
                cells[f"{way}, minus pairs"] = f"{apart:.2f}"
        splits = len({row["key"].split("|")[2] for row in own})
        columns[f"{name}, {SETS[name]} classes, {own[0]['rows']} rows, {splits} splits"] = cells
    ways = dict.fromkeys(way for cells in columns.values() for way in cells)
    page.table(
        ["accuracy, %", *columns],
        [[way, *(cells.get(way, "") for cells in columns.values())] for way in ways],
    )


def size_table(page: Page, rows: list[Row], sizes: Sequence[str]) -> None:
    """Write memory and time."""
    header = ["rows", "classes", "pool", "seconds", "of CPU", "GB more than before", "accuracy, %"]
    page.table([*header, "the plan said"])
    known = {row["key"]: row for row in rows}
    for size in sizes:
        each = known[f"size|{size}"]
        cells = [f"{each['seconds']:.1f}", f"{each['cpu']:.1f}", f"{each['gigabytes']:.2f}"]
        counts = [f"{number:,}" for number in numbers(size)]
        page.row(*counts, *cells, f"{each['accuracy']:.0f}", each["plan"])


def numbers(size: str) -> tuple[int, int, int]:
    """Parse ROWSxCLASSES or ROWSxCLASSES+POOL."""
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
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--out", type=Path, help="a folder")
    parser.add_argument("--take", type=int, nargs=3, help="measure this size, and print it")
    args = parser.parse_args()
    if args.take:
        print(json.dumps(take(*args.take)))
        return
    args.out.mkdir(parents=True, exist_ok=True)
    model = default_stamp()
    stored = {row["key"] for row in read_rows(args.out, model)}
    for row in chain(size_rows(args, stored), accuracy_rows(args, stored)):
        with add_rows(args.out / "rows_large.jsonl") as file:
            file.write(json.dumps({**row, "model": model}) + "\n")
    rows = read_rows(args.out, model)
    page = Page(
        args.out / "README.md",
        "Large supports",
        f"Accuracy in % on up to {QUERIES} queries of each class: from all rows, related in pairs"
        " or without; from centres of k-means, or rows drawn at random. Differences are on the same"
        " queries; half widths are of 95 % intervals over queries.",
        BANKS=args.banks or Path("BANKS"),
    )
    if args.sets:
        accuracy_table(page, rows, args.sets)
    if args.sizes:
        page.text(f"A fit and {ASKED} predictions on {WIDTH} columns, in a process of its own:")
        size_table(page, rows, args.sizes)


if __name__ == "__main__":
    main()
