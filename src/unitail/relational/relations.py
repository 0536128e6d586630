r"""Relations between feature vectors: all that the relational model sees of them.

Every relation is made of inner products, so an orthogonal change of coordinates and a positive
scale of the features change nothing, whatever their width. Vectors are centred by one mean first,
so a shift changes nothing either, unless the origin is asked to count: angles seen from it, and
from a point between it and the mean, tell something of how features of a kind lie, for the price
of that indifference.

*Channels* r_c(i, j) say how alike vectors i and j are, and whether they are the same one; attention
adds them up to its scores.
*Operators* carry values from the labelled vectors to all others as kernel ridge regression does:
with Gram matrix G of a kernel among the labelled vectors, P = (G + lambda I)^-1 and g_x the kernel
between x and them,

    x takes g_x P times the values;
    labelled vector i takes its leave-one-out version, row i of I - diag(1 / P_ii) P.

That a row of I - diag(1 / P_ii) P is what ridge regression without vector i predicts for i is the
well-known shortcut for leave-one-out residuals, r_i = (P y)_i / P_ii.

The point between: the mean mu of t vectors is a poor guess of where all features of the encoder
have their mean, if t is small. James and Stein's guess is alpha mu,

    alpha = max(0, 1 - (sigma^2 / t) / |mu|^2),    sigma^2 = mean squared distance from mu,

near the origin where the mean could be chance, near mu where it is plain. Angles are seen from it.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from unitail.nn.normalisation import FeatureScale, Normalisation

NUM_CHANNELS = 4
ORIGIN_CHANNELS = 3
"""What there are more of where the origin counts."""
SHRUNK_PENALTIES = (0.02, 0.3)
"""lambda for the cosine kernel around James and Stein's centre (the mean, without an origin)."""
COSINE_PENALTIES = (0.1, 2.0)
"""lambda for the cosine kernel around the mean: from hardly to heavily smoothed."""
DISTANCE_PENALTIES = (0.02,)
"""lambda for the kernel exp(-squared distance / mean squared distance)."""
PENALTIES = (*SHRUNK_PENALTIES, *COSINE_PENALTIES, *DISTANCE_PENALTIES)
"""lambda of each operator."""
NUM_OPERATORS = len(PENALTIES)
STRETCH = 4.0
"""Cosines are small numbers; attention scores are not."""
FARTHEST = 8.0
"""Beyond this many units a relation is as weak, or as strong, as it gets."""


@dataclass(frozen=True, eq=False)
class Relations:
    """How some vectors (rows) relate to others (columns)."""

    channels: Tensor
    """(B, channels, rows, seen): the seen are those whose tokens may be looked at."""
    operators: Tensor
    """(B, NUM_OPERATORS, rows, n): the n labelled vectors."""


@dataclass(frozen=True, eq=False)
class Views:
    """Vectors as they look from each centre; a direction is as long as 1, or as 0: (B, t, d_T)."""

    lengths: Tensor
    """Seen from the mean: (B, t, 1)."""
    directions: Tensor
    """Seen from the mean."""
    shrunk: Tensor
    """Directions seen from the shrunk centre."""
    origin: Tensor | None
    """Directions seen from the origin, if it counts."""


@dataclass(frozen=True, eq=False)
class Likeness:
    """What channels and kernels are made of: (B, rows, seen) each."""

    cosines: Tensor
    """Of angles seen from the mean."""
    distances: Tensor
    """Squared."""
    shrunk: Tensor
    """Cosines of angles seen from the shrunk centre."""
    origin: Tensor | None
    """Cosines of angles seen from the origin, if it counts."""

    @classmethod
    def of(cls, rows: Views, seen: Views) -> Self:
        """Compare vectors with the seen ones."""
        cosines = rows.directions @ seen.directions.mT
        squares = rows.lengths**2 + (seen.lengths**2).mT
        products = rows.lengths * cosines * seen.lengths.mT
        distances = (squares - 2 * products).clamp_min(0)
        if rows.origin is None or seen.origin is None:
            return cls(cosines, distances, cosines, None)
        return cls(cosines, distances, rows.shrunk @ seen.shrunk.mT, rows.origin @ seen.origin.mT)

    def kernels(self, labelled: int, distance: Tensor) -> Tensor:
        """Stack the kernel of each operator: (B, NUM_OPERATORS, rows, n)."""
        near = torch.exp(-_ratio(self.distances[..., :labelled], distance))
        kinds = (
            *[self.shrunk[..., :labelled]] * len(SHRUNK_PENALTIES),
            *[self.cosines[..., :labelled]] * len(COSINE_PENALTIES),
            *[near] * len(DISTANCE_PENALTIES),
        )
        return torch.stack(kinds, dim=1)


@dataclass(frozen=True, eq=False)
class Spread:
    """Mean and deviation of some relation between different vectors, (B, 1, 1) each."""

    mean: Tensor
    deviation: Tensor

    @classmethod
    def of(cls, values: Tensor) -> Self:
        """Measure relations (B, t, t)."""
        mean = _mean_off_diagonal(values)
        return cls(mean, _mean_off_diagonal((values - mean) ** 2).sqrt())

    def __call__(self, values: Tensor) -> Tensor:
        """Standardise relations."""
        return _ratio(values - self.mean, self.deviation).clamp(-FARTHEST, FARTHEST)


@dataclass(frozen=True, eq=False)
class Places:
    """Where seen vectors lie, and from where they are looked at; all centred and scaled."""

    scale: FeatureScale
    vectors: Tensor
    """The seen vectors: (B, seen, d_T)."""
    origin: Tensor | None
    """The origin, as seen from the mean: minus (B, 1, d_T)."""
    shrunk: Tensor | float
    """James and Stein's centre, likewise."""

    @classmethod
    def of(cls, features: Tensor, *, origin: bool) -> Self:
        """Place the vectors (B, seen, d_T)."""
        scale = FeatureScale.of(features, Normalisation.SUPPORT)
        vectors = scale(features)
        if not origin:
            return cls(scale, vectors, None, 0.0)
        mean = scale.centre / scale.scale
        count = vectors.shape[1]
        chance = vectors.pow(2).sum(dim=(1, 2), keepdim=True) / (max(1, count - 1) * count)
        left = _ratio(chance, mean.pow(2).sum(dim=-1, keepdim=True)).clamp_max(1)  # 1 - alpha
        return cls(scale, vectors, mean, left * mean)

    def look(self, vectors: Tensor) -> Views:
        """Look at scaled vectors (B, t, d_T) from each centre."""
        lengths = vectors.norm(dim=-1, keepdim=True)
        directions = _ratio(vectors, lengths)
        if self.origin is None:
            return Views(lengths, directions, directions, None)
        shrunk, origin = _directions(vectors + self.shrunk), _directions(vectors + self.origin)
        return Views(lengths, directions, shrunk, origin)


@dataclass(frozen=True, eq=False)
class Frame:
    """The vectors that all others are related to, and the statistics of their relations.

    The first n of the `seen` vectors are labelled. Isolated queries see the support, and statistics
    are the support's; joint ones see all vectors, and statistics are those of all.
    """

    places: Places
    seen: Views
    num_labelled: int
    cosine: Spread
    """Of the cosines between different seen vectors."""
    origin_cosine: Spread | None
    """The same for angles seen from the origin, if it counts."""
    distance: Tensor
    """Mean squared distance between different seen vectors, (B, 1, 1)."""
    solutions: Tensor
    """P for each operator: (B, NUM_OPERATORS, n, n)."""

    def of_queries(self, features: Tensor) -> Relations:
        """Relate other vectors (B, m, d_T) to the seen ones."""
        found = Likeness.of(self.places.look(self.places.scale(features)), self.seen)
        return Relations(
            channels=self._channels(found, torch.zeros_like(found.cosines)),
            operators=found.kernels(self.num_labelled, self.distance) @ self.solutions,
        )

    def _of_itself(self, found: Likeness, kernels: Tensor) -> Relations:
        """Relate the seen vectors to each other; no label counts for the vector that has it."""
        labelled = self.solutions / -self.solutions.diagonal(dim1=2, dim2=3).unsqueeze(-1)
        labelled.diagonal(dim1=2, dim2=3).zero_()
        others = kernels[:, :, self.num_labelled :] @ self.solutions
        return Relations(
            channels=self._channels(found, _identity_like(found.cosines)),
            operators=torch.cat([labelled, others], dim=2),
        )

    def _channels(self, found: Likeness, itself: Tensor) -> Tensor:
        far = _ratio(found.distances, self.distance).clamp_max(FARTHEST / 2)
        cosines = found.cosines
        channels = [STRETCH * cosines, self.cosine(cosines), -2 * far]
        channels.append(STRETCH * itself.expand_as(cosines))
        if self.origin_cosine is not None and found.origin is not None:
            channels += [STRETCH * found.origin, self.origin_cosine(found.origin)]
            channels.append(STRETCH * found.shrunk)
        return torch.stack(channels, dim=1)


def relate(features: Tensor, num_labelled: int, *, origin: bool = False) -> tuple[Frame, Relations]:
    """Measure vectors (B, seen, d_T), of which the first are labelled, and relate them."""
    places = Places.of(features, origin=origin)
    seen = places.look(places.vectors)
    found = Likeness.of(seen, seen)
    distance = _mean_off_diagonal(found.distances)
    kernels = found.kernels(num_labelled, distance)  # (B, NUM_OPERATORS, seen, n)
    regular = kernels[:, :, :num_labelled].clone()
    regular.diagonal(dim1=2, dim2=3).add_(kernels.new_tensor(PENALTIES).unsqueeze(-1))
    frame = Frame(
        places=places,
        seen=seen,
        num_labelled=num_labelled,
        cosine=Spread.of(found.cosines),
        origin_cosine=None if found.origin is None else Spread.of(found.origin),
        distance=distance,
        solutions=_inverse(regular),
    )
    return frame, frame._of_itself(found, kernels)


def _inverse(matrices: Tensor) -> Tensor:
    """Invert positive definite matrices.

    Not by `torch.linalg.inv`: on a CPU its batches of more than about 150 rows come out wrong with
    several threads (pytorch issues 141358 and 142815).
    """
    return torch.cholesky_inverse(torch.linalg.cholesky(matrices))


def _identity_like(matrices: Tensor) -> Tensor:
    return torch.eye(matrices.shape[-1], device=matrices.device, dtype=matrices.dtype)


def _directions(vectors: Tensor) -> Tensor:
    """Make vectors as long as 1, each by itself, so that their Gram matrix stays one."""
    return _ratio(vectors, vectors.norm(dim=-1, keepdim=True))


def _mean_off_diagonal(values: Tensor) -> Tensor:
    """Average over different vectors: (B, t, t) -> (B, 1, 1)."""
    count = values.shape[1]
    itself = torch.eye(count, dtype=torch.bool, device=values.device)
    total = values.masked_fill(itself, 0).sum((1, 2), keepdim=True)  # to subtract would round
    return total / max(1, count * (count - 1))


def _ratio(values: Tensor, unit: Tensor) -> Tensor:
    """Divide, and give zero where there is no unit to measure in."""
    tiny = 64 * torch.finfo(values.dtype).eps
    return values * torch.where(unit > tiny, 1 / unit.clamp_min(tiny), 0)
