r"""Relations between feature vectors: all that the relational model sees of them.

Every relation is made of inner products of vectors centred by one mean, so an orthogonal change of
coordinates, a shift and a positive scale of the features change nothing, whatever their width.

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
    """(B, NUM_CHANNELS, rows, seen): the seen are those whose tokens may be looked at."""
    operators: Tensor
    """(B, NUM_OPERATORS, rows, n): the n labelled vectors."""


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
    cosine: tuple[Tensor, Tensor]
    """Mean and deviation of the cosines between different seen vectors, (B, 1, 1) each."""
    distance: Tensor
    """Mean squared distance between different seen vectors, (B, 1, 1)."""
    solutions: Tensor
    """P for each operator: (B, NUM_OPERATORS, n, n)."""

    @classmethod
    def of(cls, features: Tensor, num_labelled: int) -> Self:
        """Measure vectors (B, seen, d_T), of which the first are labelled."""
        scale = FeatureScale.of(features, Normalisation.SUPPORT)
        vectors = scale(features)
        cosines = _cosines(vectors, vectors)
        distances = _distances(vectors, vectors)
        mean, square = _mean_off_diagonal(cosines), _mean_off_diagonal(cosines**2)
        deviation = (square - mean**2).clamp_min(0).sqrt()
        distance = _mean_off_diagonal(distances)
        labelled = slice(num_labelled)
        kernels = _kernels(
            cosines[:, labelled, labelled], distances[:, labelled, labelled], distance
        )
        return cls(
            scale=scale,
            vectors=vectors,
            num_labelled=num_labelled,
            cosine=(mean, deviation),
            distance=distance,
            solutions=torch.linalg.inv(kernels + _penalties(kernels)),
        )

    def of_itself(self) -> Relations:
        """Relate the seen vectors to each other; no label counts for the vector that has it."""
        cosines, distances = self._products(self.vectors)
        shares = self.solutions / self.solutions.diagonal(dim1=2, dim2=3).unsqueeze(-1)
        identity = torch.eye(self.num_labelled, device=shares.device, dtype=shares.dtype)
        others = slice(self.num_labelled, None)
        itself = torch.eye(cosines.shape[1], device=cosines.device, dtype=cosines.dtype)
        return Relations(
            channels=self._channels(cosines, distances, itself.expand_as(cosines)),
            operators=torch.cat(
                [identity - shares, self._operators(cosines[:, others], distances[:, others])],
                dim=2,
            ),
        )

    def of_queries(self, features: Tensor) -> Relations:
        """Relate other vectors (B, m, d_T) to the seen ones."""
        cosines, distances = self._products(self.scale(features))
        return Relations(
            channels=self._channels(cosines, distances, torch.zeros_like(cosines)),
            operators=self._operators(cosines, distances),
        )

    def _products(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        return _cosines(vectors, self.vectors), _distances(vectors, self.vectors)

    def _channels(self, cosines: Tensor, distances: Tensor, itself: Tensor) -> Tensor:
        mean, deviation = self.cosine
        standard = _ratio(cosines - mean, deviation).clamp(-FARTHEST, FARTHEST)
        far = _ratio(distances, self.distance).clamp_max(FARTHEST / 2)
        return torch.stack([STRETCH * cosines, standard, -2 * far, STRETCH * itself], dim=1)

    def _operators(self, cosines: Tensor, distances: Tensor) -> Tensor:
        labelled = slice(self.num_labelled)
        kernels = _kernels(cosines[..., labelled], distances[..., labelled], self.distance)
        return kernels @ self.solutions


def _kernels(cosines: Tensor, distances: Tensor, distance: Tensor) -> Tensor:
    """Stack the kernel of each operator: (B, NUM_OPERATORS, rows, n)."""
    near = torch.exp(-_ratio(distances, distance))
    return torch.stack([*[cosines] * len(COSINE_PENALTIES), near], dim=1)


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
