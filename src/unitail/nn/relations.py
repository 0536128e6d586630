r"""Relations between feature vectors: all that the relational model sees of them.

Every relation is made of inner products, so an orthogonal change of coordinates and a positive
scale of the features change nothing, whatever their width. Vectors are centred by one mean first,
so a shift changes nothing either, unless angles seen from the origin are asked for: these two
channels tell something of how features of a kind lie, for the price of that indifference.

*Channels* r_c(i, j) say how alike vectors i and j are, and whether they are the same one; attention
adds them up to its scores.
*Operators* carry values from the labelled vectors to all others as kernel ridge regression does:
with Gram matrix G of a kernel among the labelled vectors, P = (G + lambda I)^-1 and g_x the kernel
between x and them,

    x takes g_x P times the values;
    labelled vector i takes its leave-one-out version, row i of I - diag(1 / P_ii) P.

That a row of I - diag(1 / P_ii) P is what ridge regression without vector i predicts for i is the
well-known shortcut for leave-one-out residuals, r_i = (P y)_i / P_ii.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from unitail.nn.normalisation import FeatureScale, Normalisation

NUM_CHANNELS = 4
ORIGIN_CHANNELS = 2
"""What there are more of where angles are seen from the origin too."""
COSINE_PENALTIES = (0.05, 0.5, 3.0)
"""lambda for the cosine kernel: from hardly to heavily smoothed."""
DISTANCE_PENALTY = 0.1
"""lambda for the kernel exp(-squared distance / mean squared distance)."""
NUM_OPERATORS = len(COSINE_PENALTIES) + 1
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
class Spread:
    """Mean and deviation of some relation between different vectors, (B, 1, 1) each."""

    mean: Tensor
    deviation: Tensor

    @classmethod
    def of(cls, values: Tensor) -> Self:
        """Measure relations (B, t, t)."""
        mean, square = _mean_off_diagonal(values), _mean_off_diagonal(values**2)
        return cls(mean, (square - mean**2).clamp_min(0).sqrt())

    def __call__(self, values: Tensor) -> Tensor:
        """Standardise relations."""
        return _ratio(values - self.mean, self.deviation).clamp(-FARTHEST, FARTHEST)


@dataclass(frozen=True, eq=False)
class Frame:
    """The vectors that all others are related to, and the statistics of their relations.

    The first n of the `seen` vectors are labelled. Isolated queries see the support, and statistics
    are the support's; joint ones see all vectors, and statistics are those of all.
    """

    scale: FeatureScale
    vectors: Tensor
    """The seen vectors, centred and scaled: (B, seen, d_T)."""
    num_labelled: int
    cosine: Spread
    """Of the cosines between different seen vectors."""
    origin_cosine: Spread | None
    """The same for angles seen from the origin, if these count."""
    distance: Tensor
    """Mean squared distance between different seen vectors, (B, 1, 1)."""
    solutions: Tensor
    """P for each operator: (B, NUM_OPERATORS, n, n)."""

    @classmethod
    def of(cls, features: Tensor, num_labelled: int, *, origin: bool = False) -> Self:
        """Measure vectors (B, seen, d_T), of which the first are labelled."""
        scale = FeatureScale.of(features, Normalisation.SUPPORT)
        vectors = scale(features)
        cosines = _cosines(vectors, vectors)
        distances = _distances(vectors, vectors)
        distance = _mean_off_diagonal(distances)
        from_origin = vectors + scale.centre / scale.scale
        labelled = slice(num_labelled)
        kernels = _kernels(
            cosines[:, labelled, labelled], distances[:, labelled, labelled], distance
        )
        return cls(
            scale=scale,
            vectors=vectors,
            num_labelled=num_labelled,
            cosine=Spread.of(cosines),
            origin_cosine=Spread.of(_cosines(from_origin, from_origin)) if origin else None,
            distance=distance,
            solutions=_inverse(kernels + _penalties(kernels)),
        )

    def of_itself(self) -> Relations:
        """Relate the seen vectors to each other; no label counts for the vector that has it."""
        cosines, distances = self._products(self.vectors)
        shares = self.solutions / self.solutions.diagonal(dim1=2, dim2=3).unsqueeze(-1)
        identity = torch.eye(self.num_labelled, device=shares.device, dtype=shares.dtype)
        others = slice(self.num_labelled, None)
        itself = torch.eye(cosines.shape[1], device=cosines.device, dtype=cosines.dtype)
        return Relations(
            channels=self._channels(self.vectors, cosines, distances, itself),
            operators=torch.cat(
                [identity - shares, self._operators(cosines[:, others], distances[:, others])],
                dim=2,
            ),
        )

    def of_queries(self, features: Tensor) -> Relations:
        """Relate other vectors (B, m, d_T) to the seen ones."""
        vectors = self.scale(features)
        cosines, distances = self._products(vectors)
        return Relations(
            channels=self._channels(vectors, cosines, distances, torch.zeros_like(cosines)),
            operators=self._operators(cosines, distances),
        )

    def _products(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        return _cosines(vectors, self.vectors), _distances(vectors, self.vectors)

    def _channels(
        self, vectors: Tensor, cosines: Tensor, distances: Tensor, itself: Tensor
    ) -> Tensor:
        far = _ratio(distances, self.distance).clamp_max(FARTHEST / 2)
        found = [STRETCH * cosines, self.cosine(cosines), -2 * far]
        found.append(STRETCH * itself.expand_as(cosines))
        if self.origin_cosine is not None:
            centre = self.scale.centre / self.scale.scale
            angles = _cosines(vectors + centre, self.vectors + centre)
            found += [STRETCH * angles, self.origin_cosine(angles)]
        return torch.stack(found, dim=1)

    def _operators(self, cosines: Tensor, distances: Tensor) -> Tensor:
        labelled = slice(self.num_labelled)
        kernels = _kernels(cosines[..., labelled], distances[..., labelled], self.distance)
        return kernels @ self.solutions


def _kernels(cosines: Tensor, distances: Tensor, distance: Tensor) -> Tensor:
    """Stack the kernel of each operator: (B, NUM_OPERATORS, rows, n)."""
    near = torch.exp(-_ratio(distances, distance))
    return torch.stack([*[cosines] * len(COSINE_PENALTIES), near], dim=1)


def _inverse(matrices: Tensor) -> Tensor:
    """Invert positive definite matrices.

    Not by `torch.linalg.inv`: on a CPU its batches of more than about 150 rows come out wrong with
    several threads (pytorch issues 141358 and 142815).
    """
    identity = torch.eye(matrices.shape[-1], device=matrices.device, dtype=matrices.dtype)
    return torch.cholesky_solve(identity.expand_as(matrices), torch.linalg.cholesky(matrices))


def _penalties(kernels: Tensor) -> Tensor:
    """Return lambda I for each operator: (NUM_OPERATORS, n, n)."""
    penalties = kernels.new_tensor([*COSINE_PENALTIES, DISTANCE_PENALTY])
    identity = torch.eye(kernels.shape[-1], device=kernels.device, dtype=kernels.dtype)
    return penalties[:, None, None] * identity


def _cosines(rows: Tensor, columns: Tensor) -> Tensor:
    """Compare directions: (B, rows, columns); a vector without length is alike to nothing."""
    lengths = rows.norm(dim=-1).unsqueeze(2) * columns.norm(dim=-1).unsqueeze(1)
    return _ratio(rows @ columns.mT, lengths)


def _distances(rows: Tensor, columns: Tensor) -> Tensor:
    """Return squared distances, (B, rows, columns)."""
    squares = rows.pow(2).sum(-1).unsqueeze(2) + columns.pow(2).sum(-1).unsqueeze(1)
    return (squares - 2 * rows @ columns.mT).clamp_min(0)


def _mean_off_diagonal(values: Tensor) -> Tensor:
    """Average over different vectors: (B, t, t) -> (B, 1, 1)."""
    count = values.shape[1]
    total = values.sum((1, 2)) - values.diagonal(dim1=1, dim2=2).sum(1)
    return (total / max(1, count * (count - 1)))[:, None, None]


def _ratio(values: Tensor, unit: Tensor) -> Tensor:
    """Divide, and give zero where there is no unit to measure in."""
    tiny = 64 * torch.finfo(values.dtype).eps
    return torch.where(unit > tiny, values / unit.clamp_min(tiny), 0)
