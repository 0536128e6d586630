"""Random splits of labelled rows into supports and queries, and leave-one-out splits.

In a split of N shots, every class gives N random rows to the support and up to
`MAX_CLASS_QUESTIONS` of its other rows to the queries, fewer if there are many classes. A class of
N rows or fewer gives all but one to the support; a class of a single row has no queries.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.errors import InvalidInput
from unitail.estimator.prediction_sets import folds
from unitail.estimator.rows import Rows, class_quota
from unitail.randomness import stream

STEPS = (1, 2, 3, 5)
"""The shots of a curve: these times 1, 10, 100, ..., except 30, 300, ..."""
MAX_CLASS_QUESTIONS = 15
"""Largest number of queries per class in one split."""
MAX_QUESTIONS = 150
"""Approximate limit on the queries of all classes in one split."""
MIN_SPLITS = 20
MAX_PAIRS = 2**23
"""Limit on pairs of support rows in all splits of one size: large supports get fewer splits."""
MAX_ROWS = 1000
"""Larger data are subsampled to this many rows, so that an estimate takes about a minute."""

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Splits:
    """Several splits of the same size, as indices of rows."""

    support: Places
    """Shape (R, n)."""
    query: Places
    """Shape (R, m)."""

    @property
    def count(self) -> int:
        """R, the number of splits."""
        return len(self.support)

    def chunks(self, size: int) -> Iterator["Splits"]:
        """Yield the splits in chunks of at most `size`."""
        for start in range(0, self.count, size):
            stop = start + size
            yield Splits(self.support[start:stop], self.query[start:stop])


def check_rows(rows: Rows) -> None:
    """Raise an error if there are too few labelled rows to leave some out."""
    if rows.ways < 2 or np.median(rows.shots) < 2:
        raise InvalidInput(
            "there are too few labelled examples to estimate accuracy from",
            got=f"{len(rows)} examples of {rows.ways} classes",
            allowed="two or more classes, most of them with two or more examples",
            remedy="Label some more examples.",
        )


def thinned(rows: Rows, seed: int) -> Places:
    """Return the indices of at most `MAX_ROWS` random rows, with a limit per class."""
    if len(rows) <= MAX_ROWS:
        return np.arange(len(rows))
    quota = class_quota(rows.shots, MAX_ROWS)
    generator = stream(seed, "thinning")
    chosen = [_permuted(places, 1, generator)[0, :quota] for places in rows.members()]
    return np.sort(np.concatenate(chosen))


def shot_series(rows: Rows) -> tuple[int, ...]:
    """Return the shots of a curve, up to what half of the classes can give and keep one row."""
    max_shots = int(np.median(rows.shots)) - 1
    tens = [10**power for power in range(len(str(max_shots)))]
    series = [step * ten for ten in tens for step in STEPS if ten == 1 or step != 3]
    return tuple(shots for shots in series if shots <= max_shots)


def random_splits(rows: Rows, shots: int, count: int, seed: int) -> Splits:
    """Draw up to `count` splits, fewer if supports are large; they depend on seed and shots."""
    support_sizes = np.maximum(np.minimum(shots, rows.shots - 1), 1)  # (K,)
    count = min(count, max(MIN_SPLITS, MAX_PAIRS // int(support_sizes.sum()) ** 2))
    queries = max(1, min(MAX_CLASS_QUESTIONS, MAX_QUESTIONS // rows.ways))
    generator = stream(seed, "own splits", shots)
    support, query = [], []
    for members, size in zip(rows.members(), support_sizes, strict=True):
        order = _permuted(members, count, generator)
        support.append(order[:, :size])
        query.append(order[:, size : size + queries])
    return Splits(np.concatenate(support, axis=1), np.concatenate(query, axis=1))


def leave_out_splits(rows: Rows) -> list[Splits]:
    """Return splits in which each row is a query once, and all rows outside its fold the support.

    A fold has one row of each class, or a twentieth of a class with more than twenty rows; see
    `prediction_sets.folds`. Splits of the same size are grouped.
    """
    everyone = np.arange(len(rows))
    by_size: dict[int, list[Places]] = {}
    for fold in folds(rows):
        by_size.setdefault(len(fold), []).append(fold)
    return [
        Splits(np.stack([np.delete(everyone, fold) for fold in group]), np.stack(group))
        for group in by_size.values()
    ]


def _permuted(places: Places, count: int, generator: torch.Generator) -> Places:
    """Return the indices in `count` random orders: (count, n)."""
    keys = torch.rand(count, len(places), generator=generator, dtype=torch.float64)
    chosen: Places = places[keys.argsort(dim=1).numpy()]
    return chosen
