"""Precision and recall of `TailClassifier.flag_labels` on labels with artificial errors.

    python bench/label_noise.py --banks BANKS --only 'efflite0/*' --out results/label_noise.md

Some labels of real rows are replaced by random wrong ones. Precision is the share of the flagged
labels that were replaced, recall the share of the replaced ones that are flagged. Labels that were
already wrong count against precision. Banks that the model was trained on and others (`--unseen`)
are averaged separately.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from measuring.banks import chosen_banks
from measuring.page import Page
from numpy.typing import NDArray

from unitail.banks.bank import FeatureBank
from unitail.estimator.classifier import TailClassifier
from unitail.framework.statistics import MeanInterval

NOISES = (0.05, 0.1)


@dataclass(frozen=True)
class Counts:
    """Counts of one draw."""

    flagged: int
    exchanged: int
    both: int


def draw(
    bank: FeatureBank, ways: int, shots: int, generator: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Draw classes and rows of each."""
    large = np.flatnonzero(bank.class_sizes >= shots)
    classes = generator.permutation(large)[:ways]
    rows = [
        generator.permutation(np.flatnonzero(bank.class_indices == each))[:shots]
        for each in classes
    ]
    features = np.asarray(bank.features[np.concatenate(rows)], dtype=np.float32)
    return features, np.repeat(np.arange(len(classes)), shots)


def measure(
    features: NDArray[np.float32],
    labels: NDArray[np.int64],
    noise: float,
    generator: np.random.Generator,
) -> Counts:
    """Replace some labels with wrong ones, and count how many are flagged."""
    ways = int(labels.max()) + 1
    wrong = generator.permutation(len(labels))[: max(1, round(noise * len(labels)))]
    noisy = labels.copy()
    noisy[wrong] = (labels[wrong] + generator.integers(1, ways, len(wrong))) % ways
    classifier = TailClassifier(device="cpu", random_state=0).fit(features, noisy)
    flagged = {each.place for each in classifier.flag_labels()}
    return Counts(len(flagged), len(wrong), len(flagged & set(wrong.tolist())))


def measure_bank(bank: FeatureBank, noise: float, args: argparse.Namespace) -> list[Counts]:
    """Measure all draws of a bank."""
    counts = []
    for number in range(args.draws):
        generator = np.random.default_rng(number)
        drawn = draw(bank, args.ways, args.shots, generator)
        counts.append(measure(*drawn, noise, generator))
    return counts


def interval(counts: Sequence[Counts], of: str) -> str:
    """Format a share in % over all draws, with its interval over draws."""
    whole = np.array([getattr(each, of) for each in counts], dtype=np.float64)
    both = np.array([each.both for each in counts], dtype=np.float64)
    share = both.sum() / max(1.0, whole.sum())
    # The ratio of two means: its error is that of both - share * whole, over the mean of whole.
    error = MeanInterval.of((both - share * whole) / max(1e-9, whole.mean())).half_width
    return f"{100 * share:.0f} ± {100 * error:.0f}"


def cells(counts: Sequence[Counts]) -> Iterator[str]:
    """Yield precision, recall, and the mean number of flagged labels."""
    yield interval(counts, "flagged")
    yield interval(counts, "exchanged")
    yield f"{np.mean([each.flagged for each in counts]):.1f}"


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--banks", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=["*"], help="patterns ENCODER/DATASET")
    parser.add_argument("--unseen", nargs="*", default=[], help="more, not trained on")
    parser.add_argument("--ways", type=int, default=8)
    parser.add_argument("--shots", type=int, default=20)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)  # the matrices are small
    page = Page(
        args.out,
        "Labels that look wrong",
        f"Up to {args.ways} classes, {args.shots} rows of each, {args.draws} draws of each data"
        " set; in % with the half width of the 95 % interval, which is about draws; labels flagged"
        " in a draw.",
        BANKS=args.banks,
    )
    heads = [f"{noise:.0%}: {what}" for noise in NOISES for what in ("right", "found", "flagged")]
    page.table(["data set", *heads])
    for group, patterns in (("trained on", args.only), ("unseen", args.unseen)):
        banks = chosen_banks(parser, args.banks, patterns) if patterns else {}
        everything: dict[float, list[Counts]] = {noise: [] for noise in NOISES}
        for name, bank in banks.items():
            for noise, counts in everything.items():
                counts.extend(measure_bank(bank, noise, args))
            last = {noise: counts[-args.draws :] for noise, counts in everything.items()}
            page.row(name, *(cell for counts in last.values() for cell in cells(counts)))
        if banks:
            all_cells = (cell for counts in everything.values() for cell in cells(counts))
            page.row(f"all, {group}", *all_cells)


if __name__ == "__main__":
    main()
