r"""Supports that are too large to be read, made smaller class by class.

The model relates every row to every other, so reading costs n² memory, and n K for the states of K
classes. Above the limit each class keeps at most a quota of rows, the same for all, as large as the
limit allows; smaller classes keep all of theirs, and every class keeps at least one. A class above
the quota is replaced by the centres of as many clusters (k-means), which cover it better than
as many of its rows would. Class frequencies above the quota are thereby forgotten.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.errors import TooManyClasses

ROUNDS = 10
"""Of k-means, at most."""
MOST_STATES = 2**21
"""The most rows times classes that are read: 2 to 6 GB with the shipped model."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Labelled rows."""

    features: NDArray[Any]
    """(n, d_T)."""
    class_indices: NDArray[np.int64]
    """(n,), 0..K-1, each at least once."""
    ways: int
    """K."""

    def take(self, places: NDArray[Any]) -> "Rows":
        """Keep some rows, by place or by mask."""
        return Rows(self.features[places], self.class_indices[places], self.ways)

    @property
    def shots(self) -> NDArray[np.int64]:
        """The number of rows of each class, (K,)."""
        return np.bincount(self.class_indices, minlength=self.ways)


def support_limit(max_support: int | None, ways: int) -> int | None:
    """Return the most rows that are read with so many classes, or None where all are."""
    if max_support is None:
        return None
    if ways**2 > MOST_STATES:
        raise TooManyClasses(
            "so many classes do not fit into bounded memory",
            got=f"{ways} classes",
            allowed=f"at most {int(MOST_STATES**0.5)}, or any number with max_support=None",
            remedy="Set max_support=None if there is memory enough, or split the task.",
        )
    return max(ways, min(max_support, MOST_STATES // ways))


def class_quota(shots: NDArray[np.int64], limit: int) -> int:
    """Return the most rows that a class may keep so that all together keep at most `limit`."""
    quotas = np.sort(shots)
    waiting = np.arange(len(quotas), 0, -1)  # the classes at least as large as each
    smaller = np.concatenate([[0], np.cumsum(quotas)[:-1]])
    fair = (limit - smaller) // waiting  # the quota if only the smaller ones keep all
    over = np.flatnonzero(quotas > fair)
    return max(1, int(fair[over[0]])) if len(over) else int(quotas[-1])


def reduced(rows: Rows, limit: int | None, seed: int) -> Rows:
    """Return at most `limit` rows that stand for all; the same ones for the same seed."""
    if limit is None or len(rows.class_indices) <= limit:
        return rows
    quota = class_quota(rows.shots, limit)
    order = np.argsort(rows.class_indices, kind="stable")
    members = np.split(order, np.cumsum(rows.shots)[:-1])
    parts = [
        rows.features[places]
        if len(places) <= quota
        else centres(rows.features[places], quota, seed)
        for places in members
    ]
    class_indices = np.repeat(np.arange(rows.ways), [len(part) for part in parts])
    return Rows(np.concatenate(parts), class_indices, rows.ways)


def centres(features: NDArray[Any], count: int, seed: int) -> NDArray[Any]:
    """Return the centres of at most `count` clusters; fewer if there are fewer different rows."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    # Choosing the first centres with care (k-means++) would take far longer than all the rest, and
    # with so many of them hardly helps.
    clusters = KMeans(count, init="random", n_init=1, max_iter=ROUNDS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than clusters
        clusters.fit(features)
    found: NDArray[Any] = clusters.cluster_centers_[np.unique(clusters.labels_)]
    return found
