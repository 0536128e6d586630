r"""How many rows are read, and how: all in pairs, fewer that stand for them, or without pairs.

The model relates every row to every other, so reading costs n² memory, and n K for the states of K
classes. Above the limit each class keeps at most a quota of rows, the same for all, as large as the
limit allows; smaller classes keep all of theirs, and every class keeps at least one. A class above
the quota is replaced by the centres of as many clusters (k-means), which cover it better than
as many of its rows would. What is kept has other shares of the classes than all rows; answers are
brought back to those of all rows by Bayes' rule (`Settings.offsets`).
This is for joint answers, pools, parts and models other than relational ones (`reads_many`).
"""

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.errors import TooManyClasses, UserError
from unitail.estimator.rows import Rows, as_support
from unitail.estimator.settings import Settings
from unitail.learners.in_context import MAX_STATES
from unitail.learners.large_hypothesis import LargeHypothesis, read_many
from unitail.nn.episode_model import AnyModel
from unitail.randomness import content_order
from unitail.relational.model import Relational

MAX_PAIRED = 1000
"""Rows up to which pairs are the faster way to the same answers."""
MAX_PAIRED_WAYS, MAX_PAIRED_STATES = 256, 2**17
"""Classes that may be read with pairs of rows, and their number times rows: queries have states for
all of them, where states of a few lose up to a point."""
MAX_SUPPORT = 4000
"""`max_support` if nobody says; as many queries may see each other, were it smaller, too."""
MAX_WIDTH = 4096
"""The widest rows that are read without pairs: products of their coordinates are kept."""
MAX_ROUNDS = 10
"""Of k-means."""


def reads_many(settings: Settings, width: int, *, pooled: bool = False) -> bool:
    """Tell whether supports beyond the limit are read whole, without pairs of rows."""
    isolated = settings.visibility.isolates_queries
    if settings.max_support is None or settings.parts or pooled or not isolated:
        return False
    return takes_many(settings.given_model, width)


def takes_many(model: AnyModel, width: int) -> bool:
    """Tell whether a model's supports may have any number of rows so wide."""
    return isinstance(model, Relational) and model.entry is None and width <= MAX_WIDTH


def pair_limit(settings: Settings, ways: int, width: int, *, pooled: bool = False) -> int | None:
    """Return the most rows that are read in pairs, or None where all are."""
    if not reads_many(settings, width, pooled=pooled):
        return support_limit(settings.max_support, ways)
    if ways > MAX_PAIRED_WAYS:
        return 0
    limit = support_limit(settings.max_support, ways)
    return None if limit is None else min(limit, MAX_PAIRED, MAX_PAIRED_STATES // ways)


def support_limit(max_support: int | None, ways: int) -> int | None:
    """Return the most rows that are read of K classes, or None where all are."""
    if max_support is None:
        return None
    if ways**2 > MAX_STATES:
        raise TooManyClasses(
            "the classes do not fit into bounded memory",
            got=f"{ways} classes",
            allowed=f"at most {int(MAX_STATES**0.5)}, or any number with max_support=None",
            remedy="Set max_support=None if there is enough memory, or split the task.",
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


def rows_kept(rows: int, ways: int, limit: int | None) -> int:
    """Count the rows that are read, of classes of equal size."""
    if limit is None or rows <= limit:
        return rows
    shots = np.full(ways, rows // ways)
    shots[: rows % ways] += 1
    return int(np.minimum(shots, class_quota(shots, limit)).sum())


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


def standing_for(rows: Rows, kept: Rows) -> NDArray[np.int64]:
    """Return the place of what stands for each row among those that `reduced` kept, (n,)."""
    from sklearn.metrics import pairwise_distances_argmin

    places = np.empty(len(rows), dtype=np.int64)
    for own, few in zip(rows.members(), kept.members(), strict=True):
        near = np.arange(len(own))  # all of them were kept
        if len(few) < len(own):
            near = pairwise_distances_argmin(rows.features[own], kept.features[few])
        places[own] = few[near]
    return places


def centres(features: NDArray[Any], count: int, seed: int) -> NDArray[Any]:
    """Return the centres of at most `count` clusters; fewer if there are fewer different rows."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    # Choosing the first centres with care (k-means++) would take far longer than all the rest, and
    # with this many of them hardly helps.
    clusters = KMeans(count, init="random", n_init=1, max_iter=MAX_ROUNDS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than clusters
        clusters.fit(features)
    used: NDArray[Any] = clusters.cluster_centers_[np.unique(clusters.labels_)]
    return used


def read_large(
    settings: Settings, rows: Rows, given: NDArray[Any], limit: int | None, *, pooled: bool
) -> LargeHypothesis | None:
    """Read a support beyond the limit; None if it is within, or must be reduced.

    `given` are the rows before they were scaled: what they are decides which of them are asked.
    """
    width = rows.features.shape[1]
    if limit is None or len(rows) <= limit:
        return None
    if not reads_many(settings, width, pooled=pooled):
        return None
    model = settings.learner(len(rows)).model
    assert isinstance(model, Relational)
    order = torch.from_numpy(content_order(given, rows.class_indices, settings.seed))
    return read_many(model, as_support(rows), order)


def check_joint_call(num_queries: int, limit: int | None) -> None:
    """Refuse more queries than can see each other in bounded memory.

    A smaller `max_support` is no reason to answer fewer rows: they need not the support's room.
    """
    limit = None if limit is None else max(limit, MAX_SUPPORT)
    if limit is not None and num_queries > limit:
        raise UserError(
            "the rows of one call, which see each other, do not fit into bounded memory",
            got=f"{num_queries} rows in one call",
            allowed=f"at most {limit} (max_support, or {MAX_SUPPORT} if that is less), or any"
            " number with visibility='isolated'",
            remedy="Ask for fewer rows in a call, or raise max_support.",
        )
