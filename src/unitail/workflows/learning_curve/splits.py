"""Supports and questions drawn from labelled rows, again and again.

In a split of N shots every class gives N rows, drawn at random, to the support, and up to
`MAX_CLASS_QUESTIONS` of its other rows are asked, fewer if there are many classes. A class of N
rows or fewer gives all but one; a class of a single row gives that row and is never asked.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.errors import InvalidInput
from unitail.estimator.prediction_sets import folds
from unitail.estimator.rows import Rows
from unitail.estimator.support_size import class_quota
from unitail.randomness import stream

STEPS = (1, 2, 3, 5)
"""The shots of a curve: these times 1, 10, 100, ..., but for 30, 300, ..."""
MAX_CLASS_QUESTIONS = 15
"""Rows of a class that are asked in one split."""
MAX_QUESTIONS = 150
"""Rows of all classes that are asked in one split, about."""
MIN_SPLITS = 20
MAX_PAIRS = 2**23
"""Pairs of support rows in all splits of one size: large supports are drawn less often."""
MAX_ROWS = 1000
"""More rows than these are thinned out, so that an estimate takes about a minute."""

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Splits:
    """Several splits of the same size, as places of rows."""

    support: Places
    """(R, n)."""
    query: Places
    """(R, m)."""

    @property
    def count(self) -> int:
        """R."""
        return len(self.support)

    def chunks(self, size: int) -> Iterator["Splits"]:
        """Give the splits in chunks of at most `size`."""
        for start in range(0, self.count, size):
            stop = start + size
            yield Splits(self.support[start:stop], self.query[start:stop])


def check_rows(rows: Rows) -> None:
    """Refuse rows of which too few could be left out."""
    if rows.ways < 2 or np.median(rows.shots) < 2:
        raise InvalidInput(
            "there are too few labelled examples to estimate accuracy from",
            got=f"{len(rows)} examples of {rows.ways} classes",
            allowed="two or more classes, most of them with two or more examples",
            remedy="Label some more examples.",
        )


def thinned(rows: Rows, seed: int) -> Places:
    """Return the places of at most `MAX_ROWS` rows, of the largest classes fewest."""
    if len(rows) <= MAX_ROWS:
        return np.arange(len(rows))
    quota = class_quota(rows.shots, MAX_ROWS)
    generator = stream(seed, "thinning")
    chosen = [_permuted(places, 1, generator)[0, :quota] for places in rows.members()]
    return np.sort(np.concatenate(chosen))


def shot_series(rows: Rows) -> tuple[int, ...]:
    """Return the shots of a curve: as far as half the classes can give and keep one row back."""
    max_shots = int(np.median(rows.shots)) - 1
    tens = [10**power for power in range(len(str(max_shots)))]
    series = [step * ten for ten in tens for step in STEPS if ten == 1 or step != 3]
    return tuple(shots for shots in series if shots <= max_shots)


def random_splits(rows: Rows, shots: int, count: int, seed: int) -> Splits:
    """Draw up to `count` splits, fewer if supports are large; they depend on seed and shots."""
    given = np.maximum(np.minimum(shots, rows.shots - 1), 1)  # (K,)
    count = min(count, max(MIN_SPLITS, MAX_PAIRS // int(given.sum()) ** 2))
    asked = max(1, min(MAX_CLASS_QUESTIONS, MAX_QUESTIONS // rows.ways))
    generator = stream(seed, "own splits", shots)
    support, query = [], []
    for own, number in zip(rows.members(), given, strict=True):
        order = _permuted(own, count, generator)
        support.append(order[:, :number])
        query.append(order[:, number : number + asked])
    return Splits(np.concatenate(support, axis=1), np.concatenate(query, axis=1))


def leave_out_splits(rows: Rows) -> list[Splits]:
    """Ask each row once and give all others but one of each class; see `estimator.held_out`.

    Where a class has more than twenty rows a twentieth is left out at a time.
    """
    everyone = np.arange(len(rows))
    alike: dict[int, list[Places]] = {}
    for fold in folds(rows):
        alike.setdefault(len(fold), []).append(fold)
    return [
        Splits(np.stack([np.delete(everyone, fold) for fold in group]), np.stack(group))
        for group in alike.values()
    ]


def _permuted(places: Places, count: int, generator: torch.Generator) -> Places:
    """Return places in `count` random orders: (count, n)."""
    keys = torch.rand(count, len(places), generator=generator, dtype=torch.float64)
    chosen: Places = places[keys.argsort(dim=1).numpy()]
    return chosen
