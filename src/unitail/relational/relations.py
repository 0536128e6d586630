"""Relations between feature vectors: all that the relational model sees of them.

Attention sees channels r_c(i, j): each says in its own way how alike vectors i and j are, or
whether they are one and the same; learned weights add them up to scores. The order is that of the
weights: new channels come last. Regression is in `regressions.py`; what
regressions answer by themselves are candidates, from which `weighing.py` makes a first answer.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unitail.relational.geometry import Comparison, Geometry
from unitail.relational.regressions import (
    NUM_OPERATORS,
    LogisticRegressions,
    fit_logistic,
    leave_one_out,
    solve,
    stack_kernels,
)
from unitail.relational.sight import Centre
from unitail.relational.weighing import Evidence, weigh_evidence

STRETCH = 4.0
"""Cosines are small numbers; attention scores are not."""
DISTANCE_STRETCH = 2.0
"""A squared distance as long as the mean one takes this much off a score."""
MAX_CHANNEL = 8.0
"""Beyond this a distance counts no more."""
MIN_UNIT = 0.2
"""Scores are measured in this share of the root mean square of one-hot labels, at least: where no
labelled row is near another, those of a sharp kernel are nearly zero, and nothing to measure in."""
MAX_SCORE = 3.0
"""Beyond this many times sqrt(K), about what a one-hot label would score, more is not counted."""

Channel = Callable[[Comparison], Tensor]
"""From a comparison to (B, rows, seen)."""


def cosine(centre: Centre) -> Channel:
    """Return the channel of cosines as seen from a centre."""
    return lambda compared: STRETCH * compared.cosines[centre]


def unusual_cosine(centre: Centre) -> Channel:
    """Return the channel of cosines against what is usual in the episode."""
    return lambda compared: compared.unusual(centre)


def closeness(compared: Comparison) -> Tensor:
    """Count distance against two vectors."""
    return (-DISTANCE_STRETCH * compared.distances).clamp_min(-MAX_CHANNEL)


def same(compared: Comparison) -> Tensor:
    """Tell a vector from all others."""
    return (STRETCH * compared.same).expand_as(compared.distances)


SHIFT_INVARIANT: tuple[Channel, ...] = (
    cosine(Centre.MEAN),
    unusual_cosine(Centre.MEAN),
    closeness,
    same,
)
FROM_ORIGIN: tuple[Channel, ...] = (
    cosine(Centre.ORIGIN),
    unusual_cosine(Centre.ORIGIN),
    cosine(Centre.SHRUNK),
)


def channels(*, origin: bool) -> tuple[Channel, ...]:
    """Return the channels of a model, with those seen from the origin if it counts."""
    return SHIFT_INVARIANT + FROM_ORIGIN if origin else SHIFT_INVARIANT


def stack_channels(compared: Comparison, *, origin: bool) -> Tensor:
    """Return all channels: (B, channels, rows, seen)."""
    return torch.stack([channel(compared) for channel in channels(origin=origin)], dim=1)


@dataclass(frozen=True, eq=False)
class Relations:
    """How some vectors (rows) relate to others (columns), and to classes."""

    channels: Tensor
    """(B, channels, rows, seen): the seen are those whose tokens may be looked at."""
    operators: Tensor
    """(B, operators, rows, n): the n labelled vectors."""
    candidates: Tensor
    """Scores of classes, of root mean square 1 among the labelled: (B, candidates, rows, K)."""
    heard: Tensor | None = None
    """The share that each row hears of all that is said, (B, rows, seen); None: all of it."""

    def to(self, dtype: torch.dtype) -> "Relations":
        """Enter the precision of a network."""
        tensors = (self.channels, self.operators, self.candidates)
        return Relations(*(tensor.to(dtype) for tensor in tensors))


@dataclass(frozen=True, eq=False)
class Frame:
    """The vectors that all others are related to.

    The first n of the seen vectors are labelled. Isolated queries see the support, and statistics
    are the support's; joint ones see all vectors, and statistics are those of all.
    """

    geometry: Geometry
    labels: Tensor
    """One-hot, (B, n, K)."""
    origin: bool
    """Whether angles from the origin count."""
    solutions: Tensor
    """P for each operator: (B, operators, n, n)."""
    ridges: Tensor
    """P times the labels, centred, for each ridge regression: (B, ridges, n, K)."""
    regressions: LogisticRegressions
    """Logistic, on directions from their centre."""
    units: Tensor
    """Root mean squares of the candidates' scores: (B, candidates, 1, 1)."""
    evidence: Evidence
    """What the labelled rows say of the candidates."""

    def relate(self, features: Tensor) -> Relations:
        """Relate other vectors (B, m, d_T) to the seen ones."""
        compared = self.geometry.compare(features)
        n = self.labels.shape[1]
        kernels = stack_kernels(compared, n)
        logistic = self.regressions.scores(compared.cosines[Centre.DIRECTION][..., :n])
        return Relations(
            channels=stack_channels(compared, origin=self.origin),
            operators=kernels[:, :NUM_OPERATORS] @ self.solutions,
            candidates=_measure(logistic, kernels @ self.ridges, self.units),
        )


def relate(
    features: Tensor, labels: Tensor, *, origin: bool, limit: float | None = None
) -> tuple[Frame, Relations]:
    """Relate vectors (B, seen, d_T) to each other; the first are labelled, (B, n, K), one-hot.

    No label counts for the vector that has it. `limit` is that of coordinates (`geometry.py`).
    """
    n, ways = labels.shape[1:]
    labels = labels.to(features.dtype)
    geometry, compared = Geometry.of(features, origin=origin, limit=limit)
    kernels = stack_kernels(compared, n)  # (B, ridges, seen, n)
    inverses = solve(kernels[:, :, :n])
    solutions, left_out = inverses[:, :NUM_OPERATORS], leave_one_out(inverses)
    centred = (labels - 1 / ways).unsqueeze(1)  # so that scores add up to 0
    own = left_out @ centred
    # One product for both: without its own label row i takes y_i - (P y)_i / P_ii.
    ridges = inverses.diagonal(dim1=2, dim2=3).unsqueeze(-1) * (centred - own)
    cosines = compared.cosines[Centre.DIRECTION][..., :n]
    regressions = fit_logistic(cosines[:, :n], labels)
    votes, logistic, operators = own, regressions.left_out, left_out[:, :NUM_OPERATORS]
    squares = torch.cat([logistic, votes], dim=1).pow(2)
    units = squares.mean(dim=(2, 3), keepdim=True).sqrt()
    units = units.clamp_min(MIN_UNIT * math.sqrt(ways - 1) / ways)
    if features.shape[1] > n:  # vectors without a label hear of all
        others = kernels[:, :, n:]
        operators = torch.cat([operators, others[:, :NUM_OPERATORS] @ solutions], dim=2)
        votes = torch.cat([votes, others @ ridges], dim=2)
        logistic = torch.cat([logistic, regressions.scores(cosines[:, n:])], dim=2)
    candidates = _measure(logistic, votes, units)

    evidence = weigh_evidence(compared, labels, candidates[:, :, :n])
    frame = Frame(geometry, labels, origin, solutions, ridges, regressions, units, evidence)
    return frame, Relations(stack_channels(compared, origin=origin), operators, candidates)


def _measure(logistic: Tensor, votes: Tensor, units: Tensor) -> Tensor:
    """Join candidates, and take their scores in units of their own."""
    most = largest_score(votes.shape[3])
    return (torch.cat([logistic, votes], dim=1) / units).clamp(-most, most)


def largest_score(ways: int) -> float:
    """Return the limit of scores of this many classes."""
    return MAX_SCORE * math.sqrt(ways)
