r"""Novelty: how much a row looks as if it belonged to none of the classes.

The strangeness of x is a length,

    s(x) = |x - nearest support row| (|x - nearest class mean| / mean of |x - class means|)²:

a novel row is far from everything, and no nearer to one class than to the others. The length
depends on distances alone, so a rotation or shift changes nothing. The support's own rows, each
left out in turn, show which lengths are usual: novelty is the quantile of log s(x) in the t
distribution fitted to theirs (the prediction of one more value). A common scale of all features
cancels.

The model is not used. Equal rows of a class count once: a row left out next to its own copy would
not look strange at all. Only rows of classes with two or more rows are left out. If no class has
two, every row is left out together with its class, and novelty is relative to how strange the
classes are to one another.

For vectors with several parts (`unitail.learners.parts`), log s is averaged over the parts, each in
units of its standard deviation over the rows left out, and compared with the same average for those
rows. The weight of a part is how well it separates the classes,
max(0, -log(E |x - own class mean|² / E |x - class mean|²)), over the rows left out, with all
classes in the second mean; weights are equal if no part separates them. So an unseen date makes no
row novel if dates are unrelated to the classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unitail.estimator.rows import Rows
from unitail.learners.in_context import MAX_ROWS
from unitail.learners.parts import split_columns

MAX_REFERENCES = 1000
"""Largest number of rows that are left out in turn."""
MIN_REFERENCES = 3
"""Fewest rows that show alone which lengths are usual."""
MIN_SPREAD = 0.05
"""Smallest deviation of log s: support rows with equal s must not make all others novel."""
MIN_LENGTH = 1e-3
"""Smallest s, in units of the support's size: a copy of a support row has log s > -inf."""
FAR = 1e100
"""Largest coordinate, in units of the support's size; beyond it all is equally strange."""


@dataclass(frozen=True, eq=False)
class Novelty:
    """The support's statistics that the novelty of queries is computed from."""

    rows: Rows
    """Centred, in double precision."""
    unit: int
    """The power of two that lengths are measured in."""
    centre: NDArray[np.float64]
    means: NDArray[np.float64]
    """Class means, (K, d_T)."""
    min_length: float
    """Lower bound of s."""
    left_out: NDArray[np.float64]
    """log s of the rows left out, (n,)."""
    places: NDArray[np.int64]
    """Places of these rows in the support, (n,)."""
    first_copies: NDArray[np.int64]
    """For each row, the place of the first one that equals it in its class, (n,)."""
    separation: float
    """How much nearer these rows are to their own class than to all on average; 0: not at all."""

    @classmethod
    def of(cls, rows: Rows, seed: int) -> Self:
        """Compute the statistics of a support."""
        return cls.of_first_copies(rows, _first_copies(rows), seed)

    @classmethod
    def of_first_copies(cls, all_rows: Rows, first_copies: NDArray[np.int64], seed: int) -> Self:
        """Compute the statistics of the first copies; the features may be some of the columns."""
        distinct = np.unique(first_copies)
        rows = all_rows.take(distinct)
        # Squares of huge numbers overflow; rescaling by a power of two is exact and avoids it.
        unit = int(np.frexp(np.abs(rows.features).max())[1])
        features = np.ldexp(rows.features.astype(np.float64), -unit)
        centre = features.mean(axis=0)
        centred = Rows(features - centre, rows.class_indices, rows.ways)
        sums = np.zeros((rows.ways, centred.features.shape[1]))
        np.add.at(sums, rows.class_indices, centred.features)
        means = sums / rows.shots[:, None]
        size = float(np.sqrt(np.square(centred.features).sum(axis=1).mean()))
        min_length = max(MIN_LENGTH * size, np.finfo(np.float64).tiny)
        places = _places_left_out(rows, seed)
        strange, separation = _left_out(centred, means, places)
        logs = np.log(np.maximum(strange, min_length))
        places = distinct[places]
        return cls(centred, unit, centre, means, min_length, logs, places, first_copies, separation)

    def calibrated_on(self, is_representative: NDArray[np.bool_]) -> Self:
        """Return the same support, with only the rows in a mask showing which lengths are usual.

        Use it if other rows are easier than future queries. All rows remain neighbours, and a row
        counts if any of its copies is in the mask. If too few rows would be left, nothing changes.
        """
        kept = np.isin(self.places, self.first_copies[is_representative])
        return self if kept.sum() < MIN_REFERENCES else replace(self, left_out=self.left_out[kept])

    def __call__(self, queries: NDArray[Any]) -> NDArray[np.float64]:
        """Return the novelty of each query, 0 to 1."""
        return _quantiles(self.strangeness(queries), self.left_out)

    def strangeness(self, queries: NDArray[Any]) -> NDArray[np.float64]:
        """Return log s of each query."""
        chunks = [
            self._strangeness(self._scaled(queries[start : start + MAX_ROWS]) - self.centre)
            for start in range(0, len(queries), MAX_ROWS)
        ]
        return np.concatenate(chunks)

    def _scaled(self, queries: NDArray[Any]) -> NDArray[np.float64]:
        with np.errstate(over="ignore"):  # an overflow to infinity is clipped like any far value
            scaled = np.ldexp(queries.astype(np.float64), -self.unit)
        return np.asarray(scaled.clip(-FAR, FAR))

    def _strangeness(self, centred: NDArray[np.float64]) -> NDArray[np.float64]:
        nearest = _nearest(self.rows.features, centred, 1)
        strange = _strangeness(nearest, _distances(centred, self.means))
        return np.asarray(np.log(np.maximum(strange, self.min_length)))


@dataclass(frozen=True, eq=False)
class PartsNovelty:
    """The novelty of rows with several parts."""

    each: tuple[Novelty, ...]
    widths: tuple[int, ...]
    weights: NDArray[np.float64]
    """Weight of each part, summing to one, (P,)."""

    @classmethod
    def of(cls, rows: Rows, widths: tuple[int, ...], seed: int) -> Self:
        """Compute the statistics of each part of a support."""
        blocks, first_copies = split_columns(rows.features, widths), _first_copies(rows)
        each = tuple(
            Novelty.of_first_copies(rows.with_features(block), first_copies, seed)
            for block in blocks
        )
        separations = np.array([part.separation for part in each])
        total = separations.sum()
        weights = separations / total if total > 0 else np.full(len(each), 1 / len(each))
        return cls(each, widths, weights)

    def calibrated_on(self, is_representative: NDArray[np.bool_]) -> Self:
        """Return the same with all parts calibrated on the rows in a mask; see `Novelty`."""
        return replace(self, each=tuple(one.calibrated_on(is_representative) for one in self.each))

    def __call__(self, queries: NDArray[Any]) -> NDArray[np.float64]:
        """Return the novelty of each query, 0 to 1."""
        blocks = split_columns(queries, self.widths)
        logs = [part.strangeness(block) for part, block in zip(self.each, blocks, strict=True)]
        return _quantiles(self._average(logs), self._average([p.left_out for p in self.each]))

    def _average(self, logs: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Average log s over parts, each standardised by its values for the rows left out."""
        moments = [_moments(part.left_out) for part in self.each]
        units = [(log - mean) / spread for log, (mean, spread) in zip(logs, moments, strict=True)]
        return np.asarray(self.weights @ np.stack(units))


def _moments(left_out: NDArray[np.float64]) -> tuple[float, float]:
    """Return mean and standard deviation of log s of the rows left out."""
    spread = float(left_out.std(ddof=1)) if len(left_out) > 1 else 0.0
    return float(left_out.mean()), max(spread, MIN_SPREAD)


def _quantiles(strange: NDArray[np.float64], left_out: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the quantiles, 0 to 1, of log s among its values for the rows left out."""
    from scipy.stats import t as t_distribution

    (mean, spread), count = _moments(left_out), len(left_out)
    deviations = (strange - mean) / spread
    quantile: NDArray[np.float64] = t_distribution.cdf(
        deviations / np.sqrt(1 + 1 / count), max(1, count - 1)
    )
    return quantile


def _first_copies(rows: Rows) -> NDArray[np.int64]:
    """Return for each row the place of the first one that equals it in its class, (n,)."""
    first: dict[tuple[int, bytes], int] = {}
    places = np.empty(len(rows), dtype=np.int64)
    for place, (label, row) in enumerate(zip(rows.class_indices, rows.features, strict=True)):
        content = (row + 0.0).tobytes()  # -0.0 is 0.0
        digest = blake2b(content, digest_size=16).digest()  # rows themselves need memory
        places[place] = first.setdefault((int(label), digest), place)
    return places


def _places_left_out(rows: Rows, seed: int) -> NDArray[np.int64]:
    """Return the places of the rows to leave out in turn: not the only ones of their class."""
    shots = rows.shots[rows.class_indices]
    places = np.flatnonzero(shots > 1) if (shots > 1).any() else np.arange(len(shots))
    if len(places) > MAX_REFERENCES:
        places = np.random.default_rng(seed).choice(places, MAX_REFERENCES, replace=False)
    return places


def _left_out(
    rows: Rows, means: NDArray[np.float64], places: NDArray[np.int64]
) -> tuple[NDArray[np.float64], float]:
    """Return s of some rows, each left out in turn, and how well they separate the classes."""
    shots = rows.shots[rows.class_indices]
    singletons = not (shots > 1).any()
    features, labels = rows.features[places], rows.class_indices[places]
    distances, own = _distances(features, means), (np.arange(len(labels)), labels)
    separation = 0.0
    if singletons:
        distances[own] = np.nan
    else:  # to the mean of the other c - 1 rows it is c / (c - 1) times that to the mean of all c
        distances[own] *= shots[places] / (shots[places] - 1)
        within, overall = np.square(distances[own]).mean(), np.square(distances).mean()
        if overall > 0:  # otherwise all rows are equal
            separation = max(0.0, -float(np.log(max(within / overall, MIN_LENGTH))))
    return _strangeness(_nearest(rows.features, features, 2), distances), separation


def _strangeness(
    nearest: NDArray[np.float64], to_means: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return s (m,) from distances to the nearest row (m,) and to the class means (m, K)."""
    mean = np.maximum(np.nanmean(to_means, axis=1), np.finfo(np.float64).tiny)
    strange: NDArray[np.float64] = nearest * (np.nanmin(to_means, axis=1) / mean) ** 2
    return strange


def _nearest(
    rows: NDArray[np.float64], queries: NDArray[np.float64], rank: int
) -> NDArray[np.float64]:
    """Return the distance to the nearest row, or with rank 2, if queries are rows, to the next."""
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=rank, algorithm="brute").fit(rows)
    distances: NDArray[np.float64] = search.kneighbors(queries)[0][:, -1]
    return distances


def _distances(queries: NDArray[np.float64], means: NDArray[np.float64]) -> NDArray[np.float64]:
    from sklearn.metrics.pairwise import euclidean_distances

    distances: NDArray[np.float64] = euclidean_distances(queries, means)
    return distances
