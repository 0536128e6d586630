r"""How much a row looks as if it belonged to none of the classes.

The strangeness of x is a length,

    s(x) = |x - nearest support row| (|x - nearest class mean| / mean of |x - class means|)²:

what is novel is far from everything, and no nearer to one class than to the others. It depends on
distances alone, so a rotation and a shift change nothing. The support's own rows, each left out
in turn, say which lengths are usual: novelty is the quantile of log s(x) in the t distribution
(prediction of one more value) fitted to theirs. A common scale of all features cancels.

No model is asked. Only rows of classes with two or more are left out. If no class has two, every
row is left out together with its class, and novelty compares with how strange the classes are to
one another.

Vectors of several parts (`unitail.learners.parts`) have the mean of their parts' log s, each in
units of its usual deviation, and that is compared with the mean of the rows left out. A part counts
by how well it tells classes apart: as max(0, -log(E |x - own class mean|² / E |x - class mean|²)),
over rows left out, and all classes in the second mean; all count alike if none tells. So a date
that no labelled row has had makes nothing novel if dates say nothing of the classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unitail.estimator.rows import Rows
from unitail.learners.in_context import MAX_ROWS
from unitail.learners.parts import split_columns

MAX_REFERENCES = 1000
"""The rows that are left out in turn."""
MIN_SPREAD = 0.05
"""Of log s: support rows that are all alike in this do not make all others novel."""
MIN_LENGTH = 1e-3
"""Of s, in units of the support's own size: copies of a support row are not infinitely usual."""

FAR = 1e100
"""Of coordinates, in units of the support's own size: beyond this all is equally strange."""


@dataclass(frozen=True, eq=False)
class Novelty:
    """The novelty of rows to a support: what strangeness is measured against."""

    rows: Rows
    """Centred, in double precision."""
    unit: int
    """The power of two that lengths are measured in."""
    centre: NDArray[np.float64]
    means: NDArray[np.float64]
    """Of the classes, (K, d_T)."""
    min_length: float
    """The shortest s there is."""
    left_out: NDArray[np.float64]
    """log s of the rows left out, (n,)."""
    telling: float
    """How much nearer these are to their own class than to all, on average; 0 is not at all."""

    @classmethod
    def of(cls, rows: Rows, seed: int) -> Self:
        """Measure a support."""
        # Squares of huge numbers overflow: a power of two takes the size away, and no digit.
        unit = int(np.frexp(np.abs(rows.features).max())[1])
        features = np.ldexp(rows.features.astype(np.float64), -unit)
        centre = features.mean(axis=0)
        centred = Rows(features - centre, rows.class_indices, rows.ways)
        sums = np.zeros((rows.ways, centred.features.shape[1]))
        np.add.at(sums, rows.class_indices, centred.features)
        means = sums / rows.shots[:, None]
        size = float(np.sqrt(np.square(centred.features).sum(axis=1).mean()))
        min_length = max(MIN_LENGTH * size, np.finfo(np.float64).tiny)
        strange, telling = _left_out(centred, means, seed)
        logs = np.log(np.maximum(strange, min_length))
        return cls(centred, unit, centre, means, min_length, logs, telling)

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
        with np.errstate(over="ignore"):  # what is beyond all numbers is as far as the farthest
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
    """What each part counts; one in all, (P,)."""

    @classmethod
    def of(cls, rows: Rows, widths: tuple[int, ...], seed: int) -> Self:
        """Measure each part of a support."""
        blocks = split_columns(rows.features, widths)
        each = tuple(Novelty.of(rows.with_features(block), seed) for block in blocks)
        telling = np.array([part.telling for part in each])
        total = telling.sum()
        weights = telling / total if total > 0 else np.full(len(each), 1 / len(each))
        return cls(each, widths, weights)

    def __call__(self, queries: NDArray[Any]) -> NDArray[np.float64]:
        """Return the novelty of each query, 0 to 1."""
        blocks = split_columns(queries, self.widths)
        asked = [part.strangeness(block) for part, block in zip(self.each, blocks, strict=True)]
        return _quantiles(self._together(asked), self._together([p.left_out for p in self.each]))

    def _together(self, logs: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Join what the parts say, each in units of its usual deviation."""
        usual = [_usual(part.left_out) for part in self.each]
        units = [(own - mean) / spread for own, (mean, spread) in zip(logs, usual, strict=True)]
        return np.asarray(self.weights @ np.stack(units))


def _usual(left_out: NDArray[np.float64]) -> tuple[float, float]:
    """Return mean and deviation of what was left out."""
    spread = float(left_out.std(ddof=1)) if len(left_out) > 1 else 0.0
    return float(left_out.mean()), max(spread, MIN_SPREAD)


def _quantiles(strange: NDArray[np.float64], left_out: NDArray[np.float64]) -> NDArray[np.float64]:
    """Say where strangeness lies among that of the rows left out, 0 to 1."""
    from scipy.stats import t as t_distribution

    (mean, spread), count = _usual(left_out), len(left_out)
    deviations = (strange - mean) / spread
    quantile: NDArray[np.float64] = t_distribution.cdf(
        deviations / np.sqrt(1 + 1 / count), max(1, count - 1)
    )
    return quantile


def _left_out(
    rows: Rows, means: NDArray[np.float64], seed: int
) -> tuple[NDArray[np.float64], float]:
    """Return the strangeness of support rows to the rest, and how well they tell classes apart."""
    shots = rows.shots[rows.class_indices]
    alone = not (shots > 1).any()
    places = np.flatnonzero(shots > 1) if not alone else np.arange(len(shots))
    if len(places) > MAX_REFERENCES:
        places = np.random.default_rng(seed).choice(places, MAX_REFERENCES, replace=False)
    features, own = rows.features[places], rows.class_indices[places]
    distances, mine = _distances(features, means), (np.arange(len(own)), own)
    telling = 0.0
    if alone:
        distances[mine] = np.nan
    else:  # distance to the mean of the others: c / (c - 1) times that to the mean of all
        distances[mine] *= shots[places] / (shots[places] - 1)
        nearer, usual = np.square(distances[mine]).mean(), np.square(distances).mean()
        if usual > 0:  # else all rows are equal, which tells nothing
            telling = max(0.0, -float(np.log(max(nearer / usual, MIN_LENGTH))))
    return _strangeness(_nearest(rows.features, features, 2), distances), telling


def _strangeness(
    nearest: NDArray[np.float64], to_means: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Combine distances to the nearest row (m,) and to the class means (m, K): s."""
    mean = np.maximum(np.nanmean(to_means, axis=1), np.finfo(np.float64).tiny)
    strange: NDArray[np.float64] = nearest * (np.nanmin(to_means, axis=1) / mean) ** 2
    return strange


def _nearest(
    rows: NDArray[np.float64], queries: NDArray[np.float64], rank: int
) -> NDArray[np.float64]:
    """Return the distance to the nearest row, or to the next one where that is the query itself."""
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=rank, algorithm="brute").fit(rows)
    distances: NDArray[np.float64] = search.kneighbors(queries)[0][:, -1]
    return distances


def _distances(queries: NDArray[np.float64], means: NDArray[np.float64]) -> NDArray[np.float64]:
    from sklearn.metrics.pairwise import euclidean_distances

    distances: NDArray[np.float64] = euclidean_distances(queries, means)
    return distances
