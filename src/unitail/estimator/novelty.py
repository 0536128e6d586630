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
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unitail.estimator.rows import Rows
from unitail.learners.in_context import MAX_ROWS

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
    usual: tuple[float, float, int]
    """Mean and deviation of log s of the rows left out, and how many they are."""

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
        logs = np.log(np.maximum(_left_out(centred, means, seed), min_length))
        spread = max(float(logs.std(ddof=1)) if len(logs) > 1 else 0.0, MIN_SPREAD)
        usual = (float(logs.mean()), spread, len(logs))
        return cls(centred, unit, centre, means, min_length, usual)

    def __call__(self, queries: NDArray[Any]) -> NDArray[np.float64]:
        """Return the novelty of each query, 0 to 1."""
        chunks = [
            self._novelty(self._scaled(queries[start : start + MAX_ROWS]) - self.centre)
            for start in range(0, len(queries), MAX_ROWS)
        ]
        return np.concatenate(chunks)

    def _scaled(self, queries: NDArray[Any]) -> NDArray[np.float64]:
        with np.errstate(over="ignore"):  # what is beyond all numbers is as far as the farthest
            scaled = np.ldexp(queries.astype(np.float64), -self.unit)
        return np.asarray(scaled.clip(-FAR, FAR))

    def _novelty(self, centred: NDArray[np.float64]) -> NDArray[np.float64]:
        from scipy.stats import t as t_distribution

        nearest = _nearest(self.rows.features, centred, 1)
        strange = _strangeness(nearest, _distances(centred, self.means))
        mean, spread, count = self.usual
        deviations = (np.log(np.maximum(strange, self.min_length)) - mean) / spread
        quantile: NDArray[np.float64] = t_distribution.cdf(
            deviations / np.sqrt(1 + 1 / count), max(1, count - 1)
        )
        return quantile


def _left_out(rows: Rows, means: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Return the strangeness of support rows to the rest."""
    shots = rows.shots[rows.class_indices]
    alone = not (shots > 1).any()
    places = np.flatnonzero(shots > 1) if not alone else np.arange(len(shots))
    if len(places) > MAX_REFERENCES:
        places = np.random.default_rng(seed).choice(places, MAX_REFERENCES, replace=False)
    features, own = rows.features[places], rows.class_indices[places]
    distances = _distances(features, means)
    if alone:
        distances[np.arange(len(own)), own] = np.nan
    else:  # distance to the mean of the others: c / (c - 1) times that to the mean of all
        distances[np.arange(len(own)), own] *= shots[places] / (shots[places] - 1)
    return _strangeness(_nearest(rows.features, features, 2), distances)


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
