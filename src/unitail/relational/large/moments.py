r"""Statistics of any number of rows from a few passes over them: sums and products, no pairs.

All statistics of pairs in `geometry.py` and `weighing.py` follow from sums. With rows u_i of length
1, or 0, from a centre, and S = sum_i u_i u_i',

    mean cosine            (|sum u|^2 - tr S) / (t (t - 1))
    mean squared cosine    (|S|_F^2 - #(u != 0)) / (t (t - 1)), between different rows
    within classes         sum_k (|sum of class k|^2 - its rows) / its pairs,

so memory grows with the width of rows, not with their number. A test holds all of this to the
statistics of pairs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from unitail.nn.episode_model import FeatureScale, Normalisation
from unitail.relational.geometry import (
    Centre,
    centres_to_mean,
    directions_from,
    safe_ratio,
    share_of_chance,
)
from unitail.relational.weighing import MIN_SQUARE

NUMBERS_AT_ONCE = 2**22
"""Number of elements of rows, or of their scores, in a chunk."""
ALL_CENTRES = tuple(Centre)


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """All rows of a support, possibly too many for pairs."""

    features: Tensor
    """(n, d_T)."""
    class_indices: Tensor
    """(n,)."""
    ways: int

    def chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the rows and their classes in chunks."""
        return zip(self.split(self.features), self.split(self.class_indices), strict=True)

    def split(self, values: Tensor) -> tuple[Tensor, ...]:
        """Split values (n, ...) into the chunks of rows."""
        size = NUMBERS_AT_ONCE // max(self.features.shape[1], self.ways)
        return torch.split(values, max(1, size))

    def first(self, count: int) -> "LabelledRows":
        """Return the first rows."""
        return LabelledRows(self.features[:count], self.class_indices[:count], self.ways)

    def centred_labels(self, count: int) -> Tensor:
        """Return one-hot labels of the first rows, minus 1 / K: (count, K)."""
        labels = torch.nn.functional.one_hot(self.class_indices[:count], self.ways)
        return labels.to(self.features) - 1 / self.ways

    def sums_of(self, values: Tensor) -> Tensor:
        """Return the product of centred labels and values (n, w): (K, w)."""
        sums = torch.zeros(self.ways, values.shape[1]).to(values)
        sums.index_add_(0, self.class_indices, values)
        return sums - sums.sum(dim=0) / self.ways

    @property
    def shots(self) -> Tensor:
        """Number of rows of each class, (K,)."""
        return torch.bincount(self.class_indices, minlength=self.ways)


@dataclass(frozen=True, eq=False)
class Span:
    """The subspace that rows span, where they are fewer than their coordinates.

    Another row gets its distance from the subspace as one more coordinate, which preserves its
    length and all of its angles with the rows.
    """

    basis: Tensor | None
    """Orthonormal columns, (d_T, n), or None if the subspace would save nothing."""

    @classmethod
    def of(cls, rows: Tensor) -> "Span":
        """Return the subspace that rows (n, d_T) span."""
        few = len(rows) + 1 < rows.shape[1]
        return cls(torch.linalg.qr(rows.mT).Q if few else None)

    def see(self, rows: Tensor) -> Tensor:
        """Return coordinates of rows (m, d_T) in the subspace and distances from it: (m, n + 1)."""
        if self.basis is None:
            return rows
        inside = rows @ self.basis
        distance = (rows - inside @ self.basis.mT).norm(dim=1, keepdim=True)
        return torch.cat([inside, distance], dim=1)


@dataclass(frozen=True, eq=False)
class Moments:
    """Scale, centres and statistics of all rows."""

    origin: bool
    """Whether angles at the origin count."""
    scale: FeatureScale
    to_mean: Tensor
    """(3, 1, 1, d_T), as in `Geometry`."""
    direction: Tensor
    """(1, 1, d_T)."""
    products: Tensor
    """S for each centre, (centres, d_T, d_T)."""
    sums: Tensor
    """Sums of directions in each class, for each centre: (centres, K, d_T)."""
    mean_distance: Tensor
    """Mean squared distance between different rows, ()."""
    mean_cosine: Tensor
    """Mean cosine between different rows, for each centre: (centres,)."""
    cosine_deviation: Tensor
    """Standard deviation of these cosines, (centres,)."""
    shapes: Tensor
    """The shape statistics of `weighing.py`: (1, NUM_SHAPES)."""

    @classmethod
    def of(cls, rows: LabelledRows, *, origin: bool) -> "Moments":
        """Compute all statistics in three passes over the rows."""
        scale, squares = _scale(rows)
        to_mean = centres_to_mean(scale, squares, len(rows.features), origin=origin)
        direction = _direction(rows, scale, to_mean, origin=origin)
        products, sums, spread = _products(rows, scale, to_mean, direction)
        count = len(rows.features)
        mean_distance = 2 * squares.squeeze() / max(1, count - 1)
        traces = products.diagonal(dim1=1, dim2=2).sum(
            dim=1
        )  # number of rows that are not at the centre
        pairs = max(1, count * (count - 1))
        means = (sums.sum(dim=1).pow(2).sum(dim=1) - traces) / pairs
        frobenius = products.pow(2).sum(dim=(1, 2))
        deviations = ((frobenius - traces) / pairs - means**2).clamp_min(0).sqrt()
        seen_from = [Centre.MEAN, Centre.ORIGIN, Centre.DIRECTION]
        dimensions = (frobenius[seen_from] / count**2).clamp_min(MIN_SQUARE).log()
        within = _within(rows, sums[Centre.DIRECTION], products, means[Centre.DIRECTION])
        shapes = torch.stack([*means, *deviations, spread, direction.norm(), within, *dimensions])
        pair_statistics = mean_distance, means, deviations
        measured = scale, to_mean, direction, products, sums, *pair_statistics
        return cls(origin, *measured, shapes[None])

    def directions(self, features: Tensor, centres: Sequence[Centre] = ALL_CENTRES) -> Tensor:
        """Return the directions of rows (m, d_T) from centres: (centres, m, d_T)."""
        vectors = self.scale(features[None])
        return directions_from(centres, vectors, self.to_mean, self.direction).squeeze(1)


def _scale(rows: LabelledRows) -> tuple[FeatureScale, Tensor]:
    """Return the scale of all rows, and the sum of squares of the scaled ones."""
    chunks = [features[None] for features, _ in rows.chunks()]
    scale = FeatureScale.of_chunks(chunks, Normalisation.SUPPORT)
    squares = torch.zeros(1, 1, 1, dtype=torch.float64, device=rows.features.device)
    for chunk in chunks:
        squares += scale(chunk).double().pow(2).sum()
    return scale, squares.to(scale.centre.dtype)


def _direction(rows: LabelledRows, scale: FeatureScale, to_mean: Tensor, *, origin: bool) -> Tensor:
    """Return the James-Stein mean direction, as `geometry.py` does, from sums: (1, 1, d_T)."""
    total = torch.zeros_like(to_mean[Centre.ORIGIN], dtype=torch.float64)
    if not origin:
        return total.to(to_mean.dtype)
    off_origin = torch.zeros((), dtype=torch.float64, device=total.device)  # number of rows
    for features, _ in rows.chunks():
        seen = scale(features[None]) + to_mean[Centre.ORIGIN]
        units = safe_ratio(seen, seen.norm(dim=-1, keepdim=True)).double()
        total += units.sum(dim=1, keepdim=True)
        off_origin += units.pow(2).sum()
    count = len(rows.features)
    mean = total / count
    squares = off_origin - count * mean.pow(2).sum(dim=-1, keepdim=True)
    estimate: Tensor = (1 - share_of_chance(mean, squares, count)) * mean
    return estimate.to(to_mean.dtype)


def _products(
    rows: LabelledRows, scale: FeatureScale, to_mean: Tensor, direction: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return S and class sums for each centre, and the relative deviation of lengths."""
    width = rows.features.shape[1]
    zeros = partial(torch.zeros, dtype=torch.float64, device=rows.features.device)
    products = zeros((len(Centre), width, width))
    sums = zeros((len(Centre), rows.ways, width))
    lengths = zeros((2,))
    for features, classes in rows.chunks():
        vectors = scale(features[None])
        directions = directions_from(ALL_CENTRES, vectors, to_mean, direction).squeeze(1)
        products += _gram(directions)
        sums.index_add_(1, classes, directions.double())
        length = (vectors + to_mean[Centre.ORIGIN]).norm(dim=-1).double()
        lengths += torch.stack([length.sum(), length.pow(2).sum()])
    mean, square = lengths / len(rows.features)
    spread = (square - mean**2).clamp_min(0).sqrt() / mean.clamp_min(1e-300)
    return products, sums, spread


def _within(rows: LabelledRows, sums: Tensor, products: Tensor, mean: Tensor) -> Tensor:
    """Return the mean cosine within classes, minus that of all rows: ()."""
    pairs = rows.shots.double() * (rows.shots - 1)
    off_centre = products[Centre.DIRECTION].diagonal().sum()  # number of rows
    within = (sums.pow(2).sum() - off_centre) / pairs.sum().clamp_min(1)
    return torch.where(pairs.sum() > 0, within - mean, 0.0)


def _gram(directions: Tensor) -> Tensor:
    """Return S of directions (centres, m, d_T), in double precision: (centres, d_T, d_T).

    From a distant origin all cosines are nearly 1, and their differences would be lost in single
    precision, so that product alone is computed in double precision.
    """
    products = (directions.mT @ directions).double()
    far = directions[Centre.ORIGIN].double()
    products[Centre.ORIGIN] = far.mT @ far
    return products
