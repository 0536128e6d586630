r"""What is known of any number of rows after a few walks over them: sums and products, no pairs.

Everything that `geometry.py` and `weighing.py` take from pairs of rows follows from sums. With rows
u_i of length 1, or 0, seen from a centre, and S = sum_i u_i u_i',

    mean cosine            (|sum u|^2 - tr S) / (t (t - 1))
    mean squared cosine    (|S|_F^2 - #(u != 0)) / (t (t - 1)), between different rows
    within classes         sum_k (|sum of class k|^2 - its rows) / its pairs,

so memory grows with the width of rows, not with their number. A test holds all of it to the
geometry of pairs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from unitail.nn.episode_model import FeatureScale
from unitail.relational.geometry import Centre, centres_to_mean, lengths_and_directions, safe_ratio
from unitail.relational.weighing import MIN_SQUARE

CHUNK = 2**22
"""Numbers of rows that are looked at at once."""


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """All rows of a support, which may be more than can be compared with each other."""

    features: Tensor
    """(n, d_T)."""
    class_indices: Tensor
    """(n,)."""
    ways: int

    def chunks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Give some rows and their classes at a time."""
        return zip(self.split(self.features), self.split(self.class_indices), strict=True)

    def split(self, values: Tensor) -> tuple[Tensor, ...]:
        """Cut what there is of each row, (n, ...), as the rows are."""
        return torch.split(values, max(1, CHUNK // max(self.features.shape[1], self.ways)))

    def first(self, count: int) -> "LabelledRows":
        """Keep the first rows."""
        return LabelledRows(self.features[:count], self.class_indices[:count], self.ways)

    def centred_labels(self, count: int) -> Tensor:
        """Return one-hot labels of the first rows, less 1 / K: (count, K)."""
        labels = torch.nn.functional.one_hot(self.class_indices[:count], self.ways)
        return labels.to(self.features) - 1 / self.ways

    def sums_of(self, values: Tensor) -> Tensor:
        """Sum values (n, w) times centred labels over rows: (K, w)."""
        sums = torch.zeros(self.ways, values.shape[1]).to(values)
        sums.index_add_(0, self.class_indices, values)
        return sums - sums.sum(dim=0) / self.ways

    @property
    def shots(self) -> Tensor:
        """The rows of each class, (K,)."""
        return torch.bincount(self.class_indices, minlength=self.ways)


@dataclass(frozen=True, eq=False)
class Span:
    """The space that rows span, where they are fewer than their coordinates.

    What is beside it in another row is its distance, one coordinate more: all lengths and angles
    with the rows stay.
    """

    basis: Tensor | None
    """Orthonormal, (d_T, n); None where there is nothing to save."""

    @classmethod
    def of(cls, rows: Tensor) -> "Span":
        """Span rows (n, d_T)."""
        few = len(rows) + 1 < rows.shape[1]
        return cls(torch.linalg.qr(rows.mT).Q if few else None)

    def see(self, rows: Tensor) -> Tensor:
        """Return rows (m, d_T) in coordinates of the space, and beside it: (m, n + 1)."""
        if self.basis is None:
            return rows
        inside = rows @ self.basis
        beside = (rows - inside @ self.basis.mT).norm(dim=1, keepdim=True)
        return torch.cat([inside, beside], dim=1)


@dataclass(frozen=True, eq=False)
class Moments:
    """Where centres are, and what is usual between rows."""

    scale: FeatureScale
    to_mean: Tensor
    """(3, 1, 1, d_T), as in `Geometry`."""
    direction: Tensor
    """(1, 1, d_T)."""
    products: Tensor
    """S as seen from each centre, (centres, d_T, d_T)."""
    sums: Tensor
    """Of the rows of each class, as seen from each centre: (centres, K, d_T)."""
    mean_distance: Tensor
    """Squared, ()."""
    mean_cosine: Tensor
    """Between different rows, from each centre: (centres,)."""
    cosine_deviation: Tensor
    """(centres,)."""
    shapes: Tensor
    """How rows lie, as evidence has it: (1, NUM_SHAPES)."""

    @classmethod
    def of(cls, rows: LabelledRows, *, origin: bool) -> "Moments":
        """Walk over all rows, three times."""
        scale, squares = _scale(rows)
        to_mean = centres_to_mean(scale, squares, len(rows.features), origin=origin)
        direction = _direction(rows, scale, to_mean, origin=origin)
        products, sums, lengths = _products(rows, scale, to_mean, direction)
        count = len(rows.features)
        mean_distance = 2 * squares.squeeze() / max(1, count - 1)
        traces = products.diagonal(dim1=1, dim2=2).sum(dim=1)  # rows that are not at the centre
        pairs = max(1, count * (count - 1))
        means = (sums.sum(dim=1).pow(2).sum(dim=1) - traces) / pairs
        frobenius = products.pow(2).sum(dim=(1, 2))
        deviations = ((frobenius - traces) / pairs - means**2).clamp_min(0).sqrt()
        seen_from = [Centre.MEAN, Centre.ORIGIN, Centre.DIRECTION]
        dimensions = (frobenius[seen_from] / count**2).clamp_min(MIN_SQUARE).log()
        within = _within(rows, sums[Centre.DIRECTION], products, means[Centre.DIRECTION])
        spread, shrinking = lengths, direction.norm()
        shapes = torch.stack([*means, *deviations, spread, shrinking, within, *dimensions])
        usual = mean_distance, means, deviations
        return cls(scale, to_mean, direction, products, sums, *usual, shapes[None])

    def see(self, features: Tensor) -> Tensor:
        """Return the directions of rows (m, d_T) from each centre: (centres, m, d_T)."""
        return lengths_and_directions(self.scale(features[None]), self.to_mean, self.direction)[
            1
        ].squeeze(1)


def measured_scale(features: Tensor) -> FeatureScale:
    """Measure rows (n, d_T) as `FeatureScale.of` does, some at a time."""
    chunks = torch.split(features, max(1, CHUNK // features.shape[1]))
    count, width = features.shape
    total = torch.zeros(width, dtype=torch.float64, device=features.device)
    for chunk in chunks:
        total += chunk.double().sum(dim=0)
    centre = (total / count).to(features.dtype)
    peak = torch.stack([(chunk - centre).abs().amax() for chunk in chunks]).amax()
    largest = torch.stack([chunk.abs().amax() for chunk in chunks]).amax()
    if peak <= 8 * torch.finfo(features.dtype).eps * largest:  # equal rows have no scale
        return FeatureScale(centre.view(1, 1, -1), torch.full_like(peak, torch.inf).view(1, 1, 1))
    squares = sum(float(((chunk - centre) / peak).double().pow(2).sum()) for chunk in chunks)
    rms = peak * (squares / (count * width)) ** 0.5
    return FeatureScale(centre.view(1, 1, -1), rms.view(1, 1, 1))


def _scale(rows: LabelledRows) -> tuple[FeatureScale, Tensor]:
    """Return the scale of all rows, and the sum of squares of the scaled ones."""
    scale = measured_scale(rows.features)
    squares = torch.zeros(1, 1, 1, dtype=torch.float64, device=rows.features.device)
    for features, _ in rows.chunks():
        squares += scale(features[None]).double().pow(2).sum()
    return scale, squares.to(scale.centre.dtype)


def _direction(rows: LabelledRows, scale: FeatureScale, to_mean: Tensor, *, origin: bool) -> Tensor:
    """Guess the mean direction from the origin, as `geometry.py` does, from sums: (1, 1, d_T)."""
    total = torch.zeros_like(to_mean[Centre.ORIGIN], dtype=torch.float64)
    if not origin:
        return total.to(to_mean.dtype)
    there = torch.zeros((), dtype=torch.float64, device=total.device)
    for features, _ in rows.chunks():
        seen = scale(features[None]) + to_mean[Centre.ORIGIN]
        units = safe_ratio(seen, seen.norm(dim=-1, keepdim=True)).double()
        total += units.sum(dim=1, keepdim=True)
        there += units.pow(2).sum()
    count = len(rows.features)
    mean = total / count
    square = mean.pow(2).sum(dim=-1, keepdim=True)
    chance = (there - count * square) / (max(1, count - 1) * count)
    guess: Tensor = (1 - safe_ratio(chance, square)).clamp_min(0) * mean
    return guess.to(to_mean.dtype)


def _products(
    rows: LabelledRows, scale: FeatureScale, to_mean: Tensor, direction: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return S and class sums from each centre, and the relative spread of lengths."""
    width = rows.features.shape[1]
    zeros = partial(torch.zeros, dtype=torch.float64, device=rows.features.device)
    products = zeros((len(Centre), width, width))
    sums = zeros((len(Centre), rows.ways, width))
    lengths = zeros((2,))
    for features, classes in rows.chunks():
        vectors = scale(features[None])
        seen = lengths_and_directions(vectors, to_mean, direction)[1].squeeze(1)
        products += _gram(seen)
        sums.index_add_(1, classes, seen.double())
        length = (vectors + to_mean[Centre.ORIGIN]).norm(dim=-1).double()
        lengths += torch.stack([length.sum(), length.pow(2).sum()])
    mean, square = lengths / len(rows.features)
    spread = (square - mean**2).clamp_min(0).sqrt() / mean.clamp_min(1e-300)
    return products, sums, spread


def _within(rows: LabelledRows, sums: Tensor, products: Tensor, mean: Tensor) -> Tensor:
    """Return the mean cosine between rows of a class, above that of all: ()."""
    pairs = rows.shots.double() * (rows.shots - 1)
    there = products[Centre.DIRECTION].diagonal().sum()
    alike = (sums.pow(2).sum() - there) / pairs.sum().clamp_min(1)
    return torch.where(pairs.sum() > 0, alike - mean, 0.0)


def _gram(seen: Tensor) -> Tensor:
    """Return S of directions (centres, m, d_T), in double precision: (centres, d_T, d_T).

    Seen from a far origin, all cosines are nearly 1: what they differ by would be lost in sums.
    """
    products = (seen.mT @ seen).double()
    far = seen[Centre.ORIGIN].double()
    products[Centre.ORIGIN] = far.mT @ far
    return products
