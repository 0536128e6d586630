"""Relations between feature vectors: all that the relational model sees of them.

Attention sees *channels*, numbers r(i, j) for each pair of vectors: several measures of their
similarity, and whether they are the same vector. Learned weights sum them to scores. Weights are
stored in the order of the channels, so new channels come last. *Operators* are the ridge
regressions of `regressions.py`. *Candidates* are the answers of regressions by themselves, which
`weighing.py` combines to a first answer.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from unitail.relational.geometry import (
    ORIGIN_WITHOUT_LIMIT,
    Centre,
    Comparison,
    Geometry,
    GeometrySettings,
)
from unitail.relational.regressions import (
    ANGLES,
    NUM_OPERATORS,
    LogisticRegressions,
    expand_to_all_penalties,
    fit_logistic,
    fitted_penalties,
    leave_one_out,
    logistic_steps,
    solve,
    stack_kernels,
)
from unitail.relational.weighing import Evidence, gather_evidence

STRETCH = 4.0
"""Factor from cosines, which are small, to attention scores."""
DISTANCE_STRETCH = 2.0
"""How much a squared distance equal to the mean one lowers an attention score."""
MAX_CHANNEL = 8.0
"""Largest amount by which a distance lowers a score."""
MIN_UNIT = 0.2
"""Smallest unit of scores, relative to the root mean square of one-hot labels. Where no labelled
row is near another, the scores of a sharp kernel are nearly zero, and too small for a unit."""
MAX_SCORE = 3.0
"""Scores are clipped to this many times sqrt(K), which is about the score of a one-hot label."""

Channel = Callable[[Comparison], Tensor]
"""Maps a comparison to (B, rows, seen)."""


def cosine(centre: Centre) -> Channel:
    """Return the channel of cosines of the angles at a centre."""
    return lambda compared: STRETCH * compared.cosines[centre]


def standardised_cosine(centre: Centre) -> Channel:
    """Return the channel of cosines at a centre, standardised within the episode."""
    return lambda compared: compared.standardised(centre)


def closeness(compared: Comparison) -> Tensor:
    """Return minus the squared distances, scaled and clamped."""
    return (-DISTANCE_STRETCH * compared.distances).clamp_min(-MAX_CHANNEL)


def same(compared: Comparison) -> Tensor:
    """Return a channel that is positive where two vectors are the same one, and zero elsewhere."""
    return (STRETCH * compared.same).expand_as(compared.distances)


SHIFT_INVARIANT: tuple[Channel, ...] = (
    cosine(Centre.MEAN),
    standardised_cosine(Centre.MEAN),
    closeness,
    same,
)
FROM_ORIGIN: tuple[Channel, ...] = (
    cosine(Centre.ORIGIN),
    standardised_cosine(Centre.ORIGIN),
    cosine(Centre.SHRUNK),
)


def channels(*, origin: bool) -> tuple[Channel, ...]:
    """Return the channels of a model, with those that depend on the origin if it counts."""
    return SHIFT_INVARIANT + FROM_ORIGIN if origin else SHIFT_INVARIANT


def stack_channels(compared: Comparison) -> Tensor:
    """Return all channels: (B, channels, rows, seen)."""
    used = channels(origin=compared.seen.origin)
    return torch.stack([channel(compared) for channel in used], dim=1)


@dataclass(frozen=True, eq=False)
class Relations:
    """How some vectors (rows) relate to the seen ones (columns), and to classes."""

    channels: Tensor
    """(B, channels, rows, seen). The seen vectors are those whose tokens rows may attend to."""
    operators: Tensor
    """(B, operators, rows, n), for the n labelled vectors."""
    candidates: Tensor
    """Class scores with root mean square 1 among the labelled: (B, candidates, rows, K)."""
    seen_scale: Tensor | None = None
    """Factor on what each row receives from each seen vector, (B, rows, seen); None: 1."""

    def nearest(self, classes: Tensor, ways: int) -> Tensor:
        """Return how close each labelled row is to other rows of each class, at best: (B, n, K)."""
        near = self.channels[:, SHIFT_INVARIANT.index(closeness)]
        diagonal = torch.eye(near.shape[1], dtype=torch.bool, device=near.device)
        near = near.masked_fill(diagonal, -MAX_CHANNEL)
        start = near.new_full((*classes.shape, ways), -MAX_CHANNEL)
        return start.scatter_reduce(2, classes.unsqueeze(1).expand_as(near), near, "amax")

    def to(self, dtype: torch.dtype) -> "Relations":
        """Convert to the dtype of a network."""
        tensors = (self.channels, self.operators, self.candidates)
        return Relations(*(tensor.to(dtype) for tensor in tensors))


@dataclass(frozen=True, eq=False)
class LabelFreeRelations:
    """The relations of some vectors (rows) to the seen ones (columns) that depend on no label."""

    channels: Tensor
    """(B, channels, rows, seen)."""
    operators: Tensor
    """(B, operators, rows, n)."""
    kernels: Tensor
    """Kernel of each ridge regression: (B, ridges, rows, n)."""

    @property
    def angles(self) -> Tensor:
        """The kernel of logistic regressions, cosines of centred directions: (B, rows, n)."""
        return self.kernels[:, ANGLES]


@dataclass(frozen=True, eq=False)
class ReferenceVectors:
    """The seen vectors, to which all others are related, without their labels."""

    geometry: Geometry
    solutions: Tensor
    """P for each operator: (B, operators, n, n)."""

    def relate(self, features: Tensor) -> LabelFreeRelations:
        """Relate other vectors (B, m, d_T) to the seen ones."""
        compared = self.geometry.compare(features)
        kernels = stack_kernels(compared, self.solutions.shape[2])
        return LabelFreeRelations(
            channels=stack_channels(compared),
            operators=kernels[:, :NUM_OPERATORS] @ self.solutions,
            kernels=kernels,
        )


@dataclass(frozen=True, eq=False)
class LabelFreeFit:
    """All of a fit that depends on no label: the relations of the seen vectors to each other.

    The first n are labelled. This takes a third of the time of a fit, and stays valid while labels
    change.
    """

    reference: ReferenceVectors
    compared: Comparison
    relations: LabelFreeRelations
    """For labelled rows, operators are the leave-one-out version."""
    inverses: Tensor
    """P for each ridge regression: (B, ridges, n, n)."""
    left_out: Tensor
    """`leave_one_out` of the inverses: (B, ridges, n, n)."""
    steps: Tensor
    """`logistic_steps` of the logistic regressions: (B, regressions, n, n)."""

    @classmethod
    def of(
        cls,
        features: Tensor,
        num_labelled: int,
        penalties: Sequence[float],
        settings: GeometrySettings,
    ) -> Self:
        """Relate vectors (B, seen, d_T) to each other; `penalties` are of logistic regressions."""
        n = num_labelled
        geometry, compared = Geometry.of(features, settings)
        kernels = stack_kernels(compared, n)  # (B, ridges, seen, n)
        inverses = solve(kernels[:, :, :n])
        solutions, left_out = inverses[:, :NUM_OPERATORS], leave_one_out(inverses)
        operators = left_out[:, :NUM_OPERATORS]
        if features.shape[1] > n:  # vectors without a label have none to leave out
            unlabelled = kernels[:, :NUM_OPERATORS, n:] @ solutions
            operators = torch.cat([operators, unlabelled], dim=2)
        relations = LabelFreeRelations(stack_channels(compared), operators, kernels)
        steps = logistic_steps(relations.angles[:, :n], penalties)
        reference = ReferenceVectors(geometry, solutions)
        return cls(reference, compared, relations, inverses, left_out, steps)


@dataclass(frozen=True, eq=False)
class Frame:
    """The seen vectors with all that was fitted to their labels; other vectors are related to it.

    The first n of the seen vectors are labelled. With isolated queries the seen vectors are the
    support, with joint ones all vectors; statistics are always over all seen vectors.
    """

    reference: ReferenceVectors
    labels: Tensor
    """One-hot, (B, n, K)."""
    ridges: Tensor
    """P times the centred labels for each ridge regression: (B, ridges, n, K)."""
    regressions: LogisticRegressions
    """Logistic regressions on centred directions."""
    units: Tensor
    """Root mean squares of the candidates' scores: (B, candidates, 1, 1)."""
    evidence: Evidence
    """How well the candidates answer for the labelled rows."""

    @property
    def geometry(self) -> Geometry:
        """The geometry of the seen vectors."""
        return self.reference.geometry

    def relate(self, features: Tensor) -> Relations:
        """Relate other vectors (B, m, d_T) to the seen ones, and score their classes."""
        relations = self.reference.relate(features)
        logistic = self.regressions.scores(relations.angles)
        candidates = _candidates(logistic, relations.kernels @ self.ridges, self.units)
        return Relations(relations.channels, relations.operators, candidates)


def relate(
    features: Tensor,
    labels: Tensor,
    settings: GeometrySettings = ORIGIN_WITHOUT_LIMIT,
    *,
    compare: "Callable[..., LabelFreeFit]" = LabelFreeFit.of,
) -> tuple[Frame, Relations]:
    """Relate vectors (B, seen, d_T) to each other; the first have one-hot labels (B, n, K).

    No vector sees its own label. `compare` may return a `LabelFreeFit` that was computed before.
    """
    n, ways = labels.shape[1:]
    labels = labels.to(features.dtype)
    fit = compare(features, n, fitted_penalties(n, ways), settings)
    centred = (labels - 1 / ways).unsqueeze(1)  # scores then sum to 0 over classes
    ridge = fit.left_out @ centred
    # P y without another product: row i of the leave-one-out scores is y_i - (P y)_i / P_ii.
    ridges = fit.inverses.diagonal(dim1=2, dim2=3).unsqueeze(-1) * (centred - ridge)
    relations, angles = fit.relations, fit.relations.angles
    regressions = fit_logistic(angles[:, :n], labels, fit.steps)
    logistic = regressions.left_out
    squares = torch.cat([expand_to_all_penalties(logistic), ridge], dim=1).pow(2)
    units = squares.mean(dim=(2, 3), keepdim=True).sqrt()
    units = units.clamp_min(MIN_UNIT * math.sqrt(ways - 1) / ways)
    if features.shape[1] > n:  # vectors without a label have none to leave out
        ridge = torch.cat([ridge, relations.kernels[:, :, n:] @ ridges], dim=2)
        logistic = torch.cat([logistic, regressions.scores(angles[:, n:])], dim=2)
    candidates = _candidates(logistic, ridge, units)

    evidence = gather_evidence(fit.compared, labels, candidates[:, :, :n])
    frame = Frame(fit.reference, labels, ridges, regressions, units, evidence)
    return frame, Relations(relations.channels, relations.operators, candidates)


def _candidates(logistic: Tensor, ridge: Tensor, units: Tensor) -> Tensor:
    """Join the scores of all candidates, divide them by their units, and clip them."""
    limit = largest_score(ridge.shape[3])
    return (torch.cat([expand_to_all_penalties(logistic), ridge], dim=1) / units).clamp(
        -limit, limit
    )


def largest_score(ways: int) -> float:
    """Return the value at which scores are clipped, for this number of classes."""
    return MAX_SCORE * math.sqrt(ways)
