"""Relations between feature vectors: all that the relational model sees of them.

Attention sees channels r_c(i, j): each says in its own way how alike vectors i and j are, or
whether they are one and the same; learned weights add them up to scores. The order is that of the
weights: new channels come last. Regression is in `regressions.py`; what
regressions answer by themselves are candidates, from which `weighing.py` makes a first answer.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from unitail.relational.geometry import Centre, Comparison, Geometry
from unitail.relational.regressions import (
    ANGLES,
    NUM_OPERATORS,
    LogisticRegressions,
    fit_logistic,
    fitted_penalties,
    for_each_penalty,
    leave_one_out,
    logistic_steps,
    solve,
    stack_kernels,
)
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

    def nearest(self, classes: Tensor, ways: int) -> Tensor:
        """Say how near each labelled row comes to others of each class: (B, n, K)."""
        near = self.channels[:, SHIFT_INVARIANT.index(closeness)]
        itself = torch.eye(near.shape[1], dtype=torch.bool, device=near.device)
        near = near.masked_fill(itself, -MAX_CHANNEL)
        start = near.new_full((*classes.shape, ways), -MAX_CHANNEL)
        return start.scatter_reduce(2, classes.unsqueeze(1).expand_as(near), near, "amax")

    def to(self, dtype: torch.dtype) -> "Relations":
        """Enter the precision of a network."""
        tensors = (self.channels, self.operators, self.candidates)
        return Relations(*(tensor.to(dtype) for tensor in tensors))


@dataclass(frozen=True, eq=False)
class Meeting:
    """All of how some vectors (rows) relate to others (columns) that no label decides."""

    channels: Tensor
    """(B, channels, rows, seen)."""
    operators: Tensor
    """(B, operators, rows, n)."""
    kernels: Tensor
    """Of each ridge regression: (B, ridges, rows, n)."""

    @property
    def angles(self) -> Tensor:
        """Cosines of directions from their centre, for logistic regressions: (B, rows, n)."""
        return self.kernels[:, ANGLES]


@dataclass(frozen=True, eq=False)
class Ground:
    """The vectors that all others are related to, whatever their labels are."""

    geometry: Geometry
    origin: bool
    """Whether angles from the origin count."""
    solutions: Tensor
    """P for each operator: (B, operators, n, n)."""

    def meet(self, features: Tensor) -> Meeting:
        """Compare other vectors (B, m, d_T) with the seen ones."""
        compared = self.geometry.compare(features)
        kernels = stack_kernels(compared, self.solutions.shape[2])
        return Meeting(
            channels=stack_channels(compared, origin=self.origin),
            operators=kernels[:, :NUM_OPERATORS] @ self.solutions,
            kernels=kernels,
        )


@dataclass(frozen=True, eq=False)
class Among:
    """All of how the seen vectors relate to each other that no label decides.

    The first n are labelled. It takes a third of a fit, and lasts while labels change.
    """

    ground: Ground
    compared: Comparison
    own: Meeting
    """Among operators each of the labelled vectors takes its leave-one-out version."""
    inverses: Tensor
    """P for each ridge regression: (B, ridges, n, n)."""
    left_out: Tensor
    """What `leave_one_out` makes of them: (B, ridges, n, n)."""
    steps: Tensor
    """Of logistic regressions: (B, regressions, n, n)."""

    @classmethod
    def of(
        cls,
        features: Tensor,
        num_labelled: int,
        fitted: Sequence[float],
        *,
        origin: bool,
        limit: float | None = None,
    ) -> Self:
        """Compare vectors (B, seen, d_T) with each other, for these logistic regressions."""
        n = num_labelled
        geometry, compared = Geometry.of(features, origin=origin, limit=limit)
        kernels = stack_kernels(compared, n)  # (B, ridges, seen, n)
        inverses = solve(kernels[:, :, :n])
        solutions, left_out = inverses[:, :NUM_OPERATORS], leave_one_out(inverses)
        operators = left_out[:, :NUM_OPERATORS]
        if features.shape[1] > n:  # vectors without a label hear of all
            others = kernels[:, :NUM_OPERATORS, n:] @ solutions
            operators = torch.cat([operators, others], dim=2)
        own = Meeting(stack_channels(compared, origin=origin), operators, kernels)
        steps = logistic_steps(own.angles[:, :n], fitted)
        return cls(Ground(geometry, origin, solutions), compared, own, inverses, left_out, steps)


@dataclass(frozen=True, eq=False)
class Frame:
    """The vectors that all others are related to, and what their labels say.

    The first n of the seen vectors are labelled. Isolated queries see the support, and statistics
    are the support's; joint ones see all vectors, and statistics are those of all.
    """

    ground: Ground
    labels: Tensor
    """One-hot, (B, n, K)."""
    ridges: Tensor
    """P times the labels, centred, for each ridge regression: (B, ridges, n, K)."""
    regressions: LogisticRegressions
    """Logistic, on directions from their centre."""
    units: Tensor
    """Root mean squares of the candidates' scores: (B, candidates, 1, 1)."""
    evidence: Evidence
    """What the labelled rows say of the candidates."""

    @property
    def geometry(self) -> Geometry:
        """How the seen vectors lie."""
        return self.ground.geometry

    def relate(self, features: Tensor) -> Relations:
        """Relate other vectors (B, m, d_T) to the seen ones."""
        met = self.ground.meet(features)
        logistic = self.regressions.scores(met.angles)
        candidates = _measure(logistic, met.kernels @ self.ridges, self.units)
        return Relations(met.channels, met.operators, candidates)


def relate(
    features: Tensor,
    labels: Tensor,
    *,
    origin: bool,
    limit: float | None = None,
    compare: "Callable[..., Among]" = Among.of,
) -> tuple[Frame, Relations]:
    """Relate vectors (B, seen, d_T) to each other; the first are labelled, (B, n, K), one-hot.

    No label counts for the vector that has it. `limit` is that of coordinates
    (`relational/geometry.py`). Whoever has compared them before may say so by `compare`.
    """
    n, ways = labels.shape[1:]
    labels = labels.to(features.dtype)
    among = compare(features, n, fitted_penalties(n, ways), origin=origin, limit=limit)
    centred = (labels - 1 / ways).unsqueeze(1)  # so that scores add up to 0
    votes = among.left_out @ centred
    # One product for both: without its own label row i takes y_i - (P y)_i / P_ii.
    ridges = among.inverses.diagonal(dim1=2, dim2=3).unsqueeze(-1) * (centred - votes)
    met, angles = among.own, among.own.angles
    regressions = fit_logistic(angles[:, :n], labels, among.steps)
    logistic = regressions.left_out
    squares = torch.cat([for_each_penalty(logistic), votes], dim=1).pow(2)
    units = squares.mean(dim=(2, 3), keepdim=True).sqrt()
    units = units.clamp_min(MIN_UNIT * math.sqrt(ways - 1) / ways)
    if features.shape[1] > n:  # vectors without a label hear of all
        votes = torch.cat([votes, met.kernels[:, :, n:] @ ridges], dim=2)
        logistic = torch.cat([logistic, regressions.scores(angles[:, n:])], dim=2)
    candidates = _measure(logistic, votes, units)

    evidence = weigh_evidence(among.compared, labels, candidates[:, :, :n])
    frame = Frame(among.ground, labels, ridges, regressions, units, evidence)
    return frame, Relations(met.channels, met.operators, candidates)


def _measure(logistic: Tensor, votes: Tensor, units: Tensor) -> Tensor:
    """Join candidates, and take their scores in units of their own."""
    most = largest_score(votes.shape[3])
    return (torch.cat([for_each_penalty(logistic), votes], dim=1) / units).clamp(-most, most)


def largest_score(ways: int) -> float:
    """Return the limit of scores of this many classes."""
    return MAX_SCORE * math.sqrt(ways)
