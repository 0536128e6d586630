r"""How a support is read: all rows in pairs, cluster centres in pairs, or all rows without pairs.

The model relates every row to every other, so reading takes memory for n² pairs, and n K for the
states of K classes. Above the limit each class keeps at most a quota of rows, the same for all
classes and as large as the limit allows; smaller classes keep all of their rows, and every class
keeps at least one. The rows of a class above the quota are replaced by as many cluster centres
(k-means), which cover the class better than a sample of its rows. This changes the class shares, so
answers are corrected to the shares of all rows by Bayes' rule (`Settings.offsets`). Reduction is
for joint answers, pools, parts and models other than relational ones; others read all rows without
pairs (`ReadingRule`).
"""

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.errors import TooManyClasses, UserError
from unitail.estimator.rows import Rows, as_support
from unitail.estimator.settings import Settings
from unitail.learners.in_context import MAX_STATES
from unitail.learners.large_hypothesis import LargeHypothesis, read_large
from unitail.nn.episode_model import AnyModel
from unitail.randomness import content_order
from unitail.relational.model import Relational

MAX_PAIRED = 1000
"""Largest number of rows for which reading in pairs is the faster way to the same answers."""
MAX_PAIRED_WAYS, MAX_PAIRED_STATES = 256, 2**17
"""Largest number of classes, and of classes times rows, that are read in pairs: queries then have
states for all classes, while without pairs they have a few, which costs up to a point."""
MAX_SUPPORT = 4000
"""Default of `max_support`; also the least limit on the number of queries of a joint call."""
MAX_WIDTH = 4096
"""Largest width of rows that are read without pairs, which keeps products of coordinates."""
MAX_ROUNDS = 10
"""Iterations of k-means."""


@dataclass(frozen=True)
class ReadingRule:
    """Which supports are read in pairs of rows, and what is done with larger ones."""

    max_paired: int | None
    """Largest number of rows that are read in pairs; None if there is no limit."""
    reads_large: bool
    """Whether larger supports are read completely, without pairs; otherwise they are reduced."""

    @classmethod
    def of(cls, settings: Settings, ways: int, width: int, *, pooled: bool = False) -> Self:
        """Return the rule for K classes of rows of this width; `pooled` with a pool beside them."""
        isolated = settings.visibility.isolates_queries
        bounded = settings.max_support is not None
        may_be_large = bounded and isolated and not settings.parts and not pooled
        large = may_be_large and takes_large(settings.given_model, width)
        if large and ways > MAX_PAIRED_WAYS:
            return cls(0, large)
        limit = support_limit(settings.max_support, ways)
        if large and limit is not None:
            limit = min(limit, MAX_PAIRED, MAX_PAIRED_STATES // ways)
        return cls(limit, large)

    def in_pairs(self, rows: int) -> bool:
        """Return whether this many rows are read in pairs, all of them."""
        return self.max_paired is None or rows <= self.max_paired

    def is_large(self, rows: int) -> bool:
        """Return whether this many rows are read without pairs."""
        return self.reads_large and not self.in_pairs(rows)

    def kept(self, rows: int, ways: int) -> int:
        """Return the number of rows that are read, for classes of equal size."""
        if self.max_paired is None or self.in_pairs(rows) or self.reads_large:
            return rows
        shots = np.full(ways, rows // ways)
        shots[: rows % ways] += 1
        return int(np.minimum(shots, class_quota(shots, self.max_paired)).sum())


def takes_large(model: AnyModel, width: int) -> bool:
    """Return whether a model can read any number of rows of this width."""
    return model.takes_large_supports and width <= MAX_WIDTH


def support_limit(max_support: int | None, ways: int) -> int | None:
    """Return the largest number of rows of K classes that are kept; None if there is no limit."""
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
    """Return the largest number of rows per class such that all together keep at most `limit`."""
    quotas = np.sort(shots)
    sharing = np.arange(len(quotas), 0, -1)  # number of classes at least as large as each
    smaller = np.concatenate([[0], np.cumsum(quotas)[:-1]])
    fair = (limit - smaller) // sharing  # the quota if only the smaller classes keep all rows
    over = np.flatnonzero(quotas > fair)
    return max(1, int(fair[over[0]])) if len(over) else int(quotas[-1])


def reduced(rows: Rows, limit: int | None, seed: int) -> Rows:
    """Replace rows by at most `limit` rows and cluster centres; deterministic given the seed."""
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
    """Return, for each row, the place of itself or its nearest centre in `kept`, (n,)."""
    from sklearn.metrics import pairwise_distances_argmin

    places = np.empty(len(rows), dtype=np.int64)
    for members, kept_members in zip(rows.members(), kept.members(), strict=True):
        nearest = np.arange(len(members))  # all of them were kept
        if len(kept_members) < len(members):
            nearest = pairwise_distances_argmin(rows.features[members], kept.features[kept_members])
        places[members] = kept_members[nearest]
    return places


def centres(features: NDArray[Any], count: int, seed: int) -> NDArray[Any]:
    """Return the centres of `count` clusters; fewer if there are fewer distinct rows."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    # Initialisation by k-means++ would take far longer than the clustering itself, and hardly helps
    # with so many centres.
    clusters = KMeans(count, init="random", n_init=1, max_iter=MAX_ROUNDS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        clusters.fit(features)
    used: NDArray[Any] = clusters.cluster_centers_[np.unique(clusters.labels_)]
    return used


def read_large_support(settings: Settings, rows: Rows, given: NDArray[Any]) -> LargeHypothesis:
    """Read a support of any size without pairs of rows.

    `given` are the vectors before scaling; the random order of the rows depends on their content.
    """
    model = settings.learner(len(rows)).model
    assert isinstance(model, Relational)
    order = torch.from_numpy(content_order(given, rows.class_indices, settings.seed))
    return read_large(model, as_support(rows), order, settings.chunk_size)


def joint_limit(max_support: int | None) -> int | None:
    """Return the largest number of queries that may see each other; None if there is no limit.

    A `max_support` below `MAX_SUPPORT` does not lower this limit: queries take their own memory.
    """
    return None if max_support is None else max(max_support, MAX_SUPPORT)


def check_joint_call(num_queries: int, max_support: int | None) -> None:
    """Refuse more queries than can see each other in bounded memory; see `joint_limit`."""
    limit = joint_limit(max_support)
    if limit is not None and num_queries > limit:
        raise UserError(
            "the rows of one call, which see each other, do not fit into bounded memory",
            got=f"{num_queries} rows in one call",
            allowed=f"at most {limit} (max_support, or {MAX_SUPPORT} if that is less), or any"
            " number with visibility='isolated'",
            remedy="Pass fewer rows in a call, or raise max_support.",
        )
