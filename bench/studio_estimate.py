"""The studio's estimate of its accuracy, beside the truth, as labels come about in several ways.

    python bench/studio_estimate.py --banks BANKS --only efflite0/rsscn7 ... --out PAGE

Somebody labels five random items of each class, then what *Label next* suggests, then confirms all
answers above 95 % at once. After each stage the estimate is compared with the truth, the share of
open answers that are right, and so is the accuracy on labelled items, each hidden in turn.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from measuring.banks import chosen_banks
from measuring.page import Page
from numpy.typing import NDArray
from studio_latency import RowOf

from unitail.banks.bank import FeatureBank
from unitail.framework.statistics import MeanInterval
from unitail.studio.catalogue import Catalogue
from unitail.studio.estimate import estimate
from unitail.studio.schema import database_of
from unitail.studio.store import Store
from unitail.studio.stored_rows import Origin
from unitail.studio.studio import Studio
from unitail.workflows.learning_curve.interval import Estimate

SHOTS = 5
SUGGESTED = 24
SURE = 0.95
STAGES = ("five of each class", "24 suggested", "48 suggested", "72 suggested", "sure confirmed")
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Outcome:
    """The truth at one stage, and two estimates of it."""

    truth: float
    estimated: Estimate
    hidden: Estimate
    """Accuracy on labelled items, however they came about, each hidden in turn."""


class Labeller:
    """Somebody who knows the classes of all items, and labels some in a studio."""

    def __init__(self, studio: Studio, truths: Places) -> None:
        self.studio, self.truths = studio, truths
        for each in range(int(truths.max()) + 1):
            studio.store.add_class(f"class {each}")
        studio.sync()
        self._ids = np.array([row.id for row in studio.labels.classes()])

    def label(self, places: Sequence[int], class_ids: Places, origin: Origin) -> None:
        """Label items in one action, and answer the others again."""
        labels = {int(p): int(c) for p, c in zip(places, class_ids, strict=True)}
        seen = {place: self.studio.labels.row(place).version for place in labels}
        self.studio.label(dict(labels), seen, author="", origin=origin)
        self.studio.answerer.answer_all()

    def work(self) -> Iterator[Outcome | None]:
        """Go through the stages, and look at the estimates after each."""
        order = np.random.default_rng(0).permutation(len(self.truths))
        first = [p for k in range(len(self._ids)) for p in order[self.truths[order] == k][:SHOTS]]
        self.label(first, self._ids[self.truths[first]], Origin.CHOSEN)
        yield self._outcome()
        for _ in range(3):
            places = self.studio.next(SUGGESTED)
            self.label(places, self._ids[self.truths[places]], Origin.SUGGESTED)
            yield self._outcome()
        everything = np.arange(len(self.truths))
        answered = self.studio.answers.at(everything)
        is_open = ~np.isin(everything, self.studio.labels.labelled().places)
        sure = everything[is_open & (answered.probabilities[:, 0] > SURE)]
        if len(sure):
            self.label(sure.tolist(), answered.class_ids[sure, 0], Origin.CONFIRMED)
        yield self._outcome()

    def _outcome(self) -> Outcome | None:
        """Return the truth and its estimates; None if nothing is open."""
        named = self.studio.labels.labelled()
        is_open = ~np.isin(np.arange(len(self.truths)), named.places)
        if not is_open.any():
            return None
        answered = self.studio.answers.at(np.flatnonzero(is_open))
        right = answered.class_ids[:, 0] == self._ids[self.truths[is_open]]
        unaware = replace(named, origins=(str(Origin.CHOSEN),) * len(named.origins))
        known = ((named, answered.probabilities[:, 0]), (unaware, np.zeros(0)))
        results = [
            estimate(self.studio.vectors, *each, device="cpu", is_over=lambda: False)
            for each in known
        ]
        estimated, hidden = (each.now for each in results if each is not None)
        return Outcome(float(right.mean()), estimated, hidden)


def draw(bank: FeatureBank, items: int, ways: int, seed: int) -> tuple[NDArray[np.float32], Places]:
    """Draw items of some classes, as many of each as there are among all, in a random order."""
    generator = np.random.default_rng(seed)
    classes = generator.permutation(len(bank.class_names))[:ways]
    places = np.flatnonzero(np.isin(bank.class_indices, classes))
    places = generator.permutation(places)[:items]
    rows = np.asarray(bank.features[np.sort(places)], np.float32)
    return rows, np.unique(bank.class_indices[np.sort(places)], return_inverse=True)[1]


def outcomes(rows: NDArray[np.float32], truths: Places) -> list[Outcome | None]:
    """Let somebody label these items in a studio."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "items.csv"
        table.write_text("text\n" + "".join(f"item {n} of many\n" for n in range(len(rows))))
        store = Store(database_of(table, None))
        studio = Studio(Catalogue.read(table), store, encoder=RowOf(rows), device="cpu")
        studio.vectors.encode_all()
        result = list(Labeller(studio, truths).work())
        studio.stop()
        return result


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--banks", type=Path, required=True)
    parser.add_argument("--only", nargs="+", required=True, help="ENCODER/DATASET, or patterns")
    parser.add_argument("--items", type=int, default=1500)
    parser.add_argument("--ways", type=int, default=10)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    banks = chosen_banks(parser, args.banks, args.only)
    draws = [
        outcomes(*draw(bank, args.items, args.ways, seed))
        for bank in banks.values()
        for seed in range(args.draws)
    ]
    page = Page(
        args.out,
        "The studio's estimate of its accuracy",
        f"Up to {args.items:,} items of up to {args.ways} classes from {len(banks)} feature tables,"
        f" {args.draws} draws of each. *Right*: open answers that are right. Then how far the"
        " studio's estimate is off, in points: on average (95 % interval over draws), and in"
        " size; and how often its own interval holds the truth. Last, the same of the accuracy on"
        " labelled items, each hidden in turn. Draws in which nothing is open any more do not"
        " count.",
        BANKS=args.banks,
    )
    columns = ["off", "size", "holds"]
    page.table(["stage", "draws", "right", *columns, *(f"hidden: {each}" for each in columns)])
    for stage, each in zip(STAGES, zip(*draws, strict=True), strict=True):
        outcomes_now = [one for one in each if one is not None]
        if len(outcomes_now) < 2:
            continue
        truth = MeanInterval.of([100 * one.truth for one in outcomes_now])
        cells = (*_cells(outcomes_now, "estimated"), *_cells(outcomes_now, "hidden"))
        page.row(stage, len(outcomes_now), f"{truth.mean:.1f} %", *cells)


def _cells(each: Sequence[Outcome], which: str) -> tuple[str, str, str]:
    """Return the mean error of an estimate in points, its size, and how often the truth is in."""
    pairs = [(one.truth, getattr(one, which)) for one in each]
    errors = np.array([100 * (estimate.mean - truth) for truth, estimate in pairs])
    mean = MeanInterval.of(errors)
    holds = np.mean([estimate.low <= truth <= estimate.high for truth, estimate in pairs])
    size = f"{np.abs(errors).mean():.1f}"
    return f"{mean.mean:+.1f} ± {mean.half_width:.1f}", size, f"{100 * holds:.0f} %"


if __name__ == "__main__":
    main()
