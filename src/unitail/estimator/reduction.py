r"""Supports that are too large to be read, made smaller class by class.

The model relates every row to every other, so reading costs n² memory, and n K for the states of K
classes. Above the limit each class keeps at most a quota of rows, the same for all, as large as the
limit allows; smaller classes keep all of theirs, and every class keeps at least one. A class above
the quota is replaced by the centres of as many clusters (k-means), which cover it better than
as many of its rows would. Class frequencies above the quota are thereby forgotten.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.errors import TooManyClasses
from unitail.estimator.rows import Rows
from unitail.learners.budget import MAX_STATES

MAX_ROUNDS = 10
"""Of k-means."""


def support_limit(max_support: int | None, ways: int) -> int | None:
    """Return the most rows that are read of so many classes, or None where all are."""
    if max_support is None:
        return None
    if ways**2 > MAX_STATES:
        raise TooManyClasses(
            "so many classes do not fit into bounded memory",
            got=f"{ways} classes",
            allowed=f"at most {int(MAX_STATES**0.5)}, or any number with max_support=None",
            remedy="Set max_support=None if there is memory enough, or split the task.",
        )
    return max(ways, min(max_support, MAX_STATES // ways))


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
    if limit is None or len(rows) <= limit:
        return rows
    quota = class_quota(rows.shots, limit)
    kept = [
        rows.features[places]
        if len(places) <= quota
        else centres(rows.features[places], quota, seed)
        for places in rows.members()
    ]
    class_indices = np.repeat(np.arange(rows.ways), [len(features) for features in kept])
    return Rows(np.concatenate(kept), class_indices, rows.ways)


def centres(features: NDArray[Any], count: int, seed: int) -> NDArray[Any]:
    """Return the centres of at most `count` clusters; fewer if there are fewer different rows."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    # Choosing the first centres with care (k-means++) would take far longer than all the rest, and
    # with so many of them hardly helps.
    clusters = KMeans(count, init="random", n_init=1, max_iter=MAX_ROUNDS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than clusters
        clusters.fit(features)
    used: NDArray[Any] = clusters.cluster_centers_[np.unique(clusters.labels_)]
    return used
