"""Active learning: labels needed to reach an accuracy, by selection strategy.

    python bench/label_next.py --banks BANKS --only efflite0/rsscn7 ... --out results/label_next.md

Curves can be stored in a folder (`--rows`); stored ones are reused if the default model is the
same.

From each data set, some classes and rows are drawn; some rows are held out as queries, the others
form an unlabelled heap with unequal class sizes. In each step a labeller labels a batch, a
classifier is fitted on all labels so far, and the held-out rows are predicted. The first batch is
chosen before there is any label. Rows of a class without any label yet are always predicted
wrongly.

The target accuracy is what random choice reaches on average with `--target` labels. All strategies
see the same heaps.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from measuring.banks import chosen_banks
from measuring.page import Page
from measuring.row_files import add_rows, read_rows
from numpy.typing import NDArray

from unitail.banks.bank import FeatureBank
from unitail.estimator.classifier import TailClassifier
from unitail.framework.statistics import MeanInterval
from unitail.learners.fingerprints import default_stamp
from unitail.studio.suggestions import doubts, suggest

Rows = NDArray[np.float32]
Places = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Heap:
    """Unlabelled rows to select from, and held-out queries."""

    rows: Rows
    classes: Places
    asked: Rows
    truths: Places


@dataclass(frozen=True)
class Situation:
    """Input of a chooser: open rows, their doubt if there are predictions, and labelled rows."""

    rows: Rows
    doubt: Floats | None
    labelled: Rows
    count: int
    seed: int


Chooser = Callable[[Situation], Places]


def at_random(situation: Situation) -> Places:
    """Choose rows at random."""
    return np.random.default_rng(situation.seed).permutation(len(situation.rows))[: situation.count]


def doubtful(situation: Situation) -> Places:
    """Choose the most doubtful rows."""
    if situation.doubt is None:
        return at_random(situation)
    return np.argsort(-situation.doubt, kind="stable")[: situation.count]


def spread(situation: Situation) -> Places:
    """Choose rows that are dissimilar, whatever their predictions."""
    return suggest(situation.rows, None, situation.labelled, situation.count, seed=situation.seed)


def suggested(situation: Situation) -> Places:
    """Choose rows as the studio does."""
    return suggest(
        situation.rows, situation.doubt, situation.labelled, situation.count, seed=situation.seed
    )


CHOOSERS: Mapping[str, Chooser] = {
    "random": at_random,
    "most doubtful": doubtful,
    "spread out": spread,
    "studio": suggested,
}


def draw(bank: FeatureBank, ways: int, per_class: int, seed: int) -> Heap:
    """Draw classes and rows: a third become queries, some of the others the unlabelled heap."""
    generator = np.random.default_rng(seed)
    large = np.flatnonzero(bank.class_sizes >= min(per_class, bank.class_sizes.max()))
    heap, queries = [], []
    for number, own in enumerate(generator.permutation(large)[:ways]):
        places = generator.permutation(np.flatnonzero(bank.class_indices == own))[:per_class]
        num_queries = len(places) // 3
        share = generator.uniform(0.25, 1)
        queries += [(place, number) for place in places[:num_queries]]
        heap += [
            (place, number)
            for place in places[num_queries:][: int(share * (len(places) - num_queries))]
        ]

    def taken(pairs: Sequence[tuple[int, int]]) -> tuple[Rows, Places]:
        order = np.array(pairs)
        rows = np.asarray(bank.features[np.sort(order[:, 0])], dtype=np.float32)
        return rows, order[np.argsort(order[:, 0], kind="stable"), 1]

    return Heap(*taken(heap), *taken(queries))


def curve(heap: Heap, choose: Chooser, batch: int, labels: int, seed: int) -> list[float]:
    """Return the accuracy after each batch of labels."""
    labelled: list[int] = []
    doubt: Floats | None = None
    result = []
    while len(labelled) < min(labels, len(heap.rows)):
        free = np.setdiff1d(np.arange(len(heap.rows)), labelled)
        open_doubt = None if doubt is None else doubt[free]
        situation = Situation(
            heap.rows[free], open_doubt, heap.rows[labelled], batch, seed + len(labelled)
        )
        labelled += free[choose(situation)].tolist()
        classes = heap.classes[labelled]
        if len(np.unique(classes)) < 2:
            doubt = None
            result.append(float((heap.truths == classes[0]).mean()))
            continue
        classifier = TailClassifier(device="cpu", scale="none", precision="single")
        classifier.fit(heap.rows[labelled], classes)
        result.append(float((classifier.predict(heap.asked) == heap.truths).mean()))
        doubt = doubts(-np.sort(-classifier.predict_proba(heap.rows), axis=1)[:, :2])
    return result


def needed(accuracies: Sequence[float], target: float, batch: int) -> float:
    """Return the interpolated number of labels at which a curve reaches the target."""
    previous = 0.0
    for number, accuracy in enumerate(accuracies):
        if accuracy >= target:
            share = (target - previous) / max(accuracy - previous, 1e-9)
            return batch * (number + share)
        previous = accuracy
    return float(batch * len(accuracies))  # it takes more: counted as this many


def draw_curves(
    name: str, bank: FeatureBank, number: int, args: argparse.Namespace
) -> dict[str, list[float]]:
    """Return the curve of each chooser on a draw, reusing stored ones."""
    facts = (args.ways, args.per_class, args.batch, args.labels)
    key = [name, number, *facts]
    model = default_stamp()
    stored = [row for row in read_rows(args.rows, model) if row["key"] == key] if args.rows else []
    if stored:
        return dict(stored[0]["curves"])
    heap = draw(bank, args.ways, args.per_class, number)
    curves = {
        chooser: curve(heap, choose, args.batch, args.labels, 1000 * number)
        for chooser, choose in CHOOSERS.items()
    }
    if args.rows:
        args.rows.mkdir(parents=True, exist_ok=True)
        with add_rows(args.rows / f"rows_{name.replace('/', '_')}.jsonl") as file:
            file.write(json.dumps({"key": key, "model": model, "curves": curves}) + "\n")
    return curves


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--banks", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=["*"], help="patterns ENCODER/DATASET")
    parser.add_argument("--ways", type=int, default=8)
    parser.add_argument("--per-class", type=int, default=75)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--labels", type=int, default=96)
    parser.add_argument("--target", type=int, default=64)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--rows", type=Path, help="a folder that keeps what is measured")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)  # the matrices are small
    banks = chosen_banks(parser, args.banks, args.only)
    page = Page(
        args.out,
        "What to label next",
        f"Labels needed to reach what random choice reaches with {args.target} on average; up to"
        f" {args.ways} classes in unequal numbers, batches of {args.batch}, {args.draws} draws;"
        " means with the half width of their 95 % interval. *Saved*: labels of random choice less"
        f" those of the studio on the same draw. What takes more than {args.labels} counts as"
        f" {args.labels}.",
        BANKS=args.banks,
    )
    page.table(["data set", "accuracy, %", *CHOOSERS, "saved"])
    saved: list[float] = []
    every: dict[str, list[float]] = {name: [] for name in CHOOSERS}
    for name, bank in banks.items():
        drawn = [draw_curves(name, bank, number, args) for number in range(args.draws)]
        curves = {chooser: [each[chooser] for each in drawn] for chooser in CHOOSERS}
        place = args.target // args.batch - 1
        if min(map(len, curves["random"])) <= place:
            parser.error(f"{name} has heaps of fewer than --target {args.target} rows")
        target = float(np.mean([each[place] for each in curves["random"]]))
        labels = {
            chooser: [needed(each, target, args.batch) for each in own]
            for chooser, own in curves.items()
        }
        gains = np.subtract(labels["random"], labels["studio"])
        saved += gains.tolist()
        for chooser, own in labels.items():
            every[chooser] += own
        cells = [f"{MeanInterval.of(own):.0f}" for own in labels.values()]
        page.row(name, f"{100 * target:.0f}", *cells, f"{MeanInterval.of(gains):.0f}")
    cells = [f"{MeanInterval.of(own):.1f}" for own in every.values()]
    page.row("all", "", *cells, f"{MeanInterval.of(saved):.1f}")


if __name__ == "__main__":
    main()
