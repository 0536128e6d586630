r"""Centres, directions and distances: what the relational model measures of feature vectors.

Everything is computed from inner products of vectors that are centred by one mean and scaled by one
number, so an orthogonal change of coordinates, a positive scale and a shift of all features change
nothing. If the origin counts, angles are also measured at the origin, and at a shrunk mean between
it and the mean. They tell how features of one encoder are spread, at the price of invariance to
shifts.

The shrunk mean: for small t, the mean mu of t vectors is a poor estimate of the mean of all
features of the encoder. The James-Stein estimate is alpha mu,

    alpha = max(0, 1 - (sigma^2 / t) / |mu|^2),    sigma^2 = mean squared distance from mu,

near the origin where the mean may be chance, and near mu where it is significant. Directions from
the origin, as vectors of length 1, have such a centre of their own.

Some encoders have a few coordinates that are far larger than the rest, and these alone decide the
angles. A limit c bounds the effect of a coordinate: x becomes x / (1 + (x / c s)^4)^(1/4), with s
the root mean square of the nonzero coordinates of the seen vectors. This hardly changes values well
below c s, and never exceeds it. With a limit the choice of coordinates matters. Narrow vectors have
no limit: their coordinates are chosen columns, in which a large value is meaningful.

Cosines at a centre are products of directions from it. Centres only shift vectors, so one product
of all pairs gives the cosines at each: (x + s)(y + s) = xy + xs + ys + ss. For vectors near a
centre this sum cancels and loses all precision, unless it is twice as precise as the vectors.
So single precision takes one product in double precision, and double precision four products.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from unitail.nn.episode_model import FeatureScale, Normalisation

MAX_DEVIATIONS = 8.0
"""Standardised cosines are clamped to this."""
COORDINATES_AT_ONCE, MIN_CHUNK_ROWS = 2**17, 8
"""Number of coordinates that a CPU compares at once, and the fewest vectors."""
MIN_UNIT = 64
"""A unit below this many times the rounding of 1 counts as zero."""
MIN_LIMITED_WIDTH = 32
"""Narrower vectors have no limit on coordinates."""
MIN_SHARE = 1e-6
"""A coordinate below this share of the largest counts as zero."""
MAX_LIMITS = 1e6
"""Coordinates are clamped to this many times the limit first, so that powers stay finite."""


class Centre(IntEnum):
    """A point at which angles are measured. If the origin does not count, all are the mean."""

    MEAN = 0
    SHRUNK = 1
    """James-Stein estimate of the encoder's mean."""
    ORIGIN = 2
    DIRECTION = 3
    """James-Stein estimate of the mean direction, for angles between directions."""


@dataclass(frozen=True, kw_only=True)
class GeometrySettings:
    """What is measured of feature vectors."""

    origin: bool = True
    """Whether angles at the origin count."""
    limit: float | None = None
    """Limit on coordinates of wide vectors, in units of their root mean square; None: no limit."""


ORIGIN_WITHOUT_LIMIT = GeometrySettings()


@dataclass(frozen=True, eq=False)
class OriginVectors:
    """Vectors from the origin."""

    vectors: Tensor
    """(B, t, d_T)."""
    lengths: Tensor
    """(B, t, 1)."""

    @classmethod
    def of(cls, vectors: Tensor, to_mean: Tensor) -> Self:
        """Move centred and scaled vectors back to the origin."""
        rows = vectors + to_mean[Centre.ORIGIN]
        return cls(rows, torch.linalg.vector_norm(rows, dim=-1, keepdim=True))

    @property
    def directions(self) -> Tensor:
        """Vectors of length 1, or 0 for one at the origin: (B, t, d_T)."""
        return self.vectors * safe_reciprocal(self.lengths)


class PreparedVectors(ABC):
    """Vectors with all that can be computed before they are compared with others of this class."""

    origin_lengths: Tensor
    """Lengths from the origin, (B, t, 1)."""

    @classmethod
    @abstractmethod
    def of(cls, vectors: Tensor, to_mean: Tensor, direction: Tensor) -> Self:
        """Prepare vectors that are centred by the mean and scaled."""

    @abstractmethod
    def compare(self, seen: Self) -> tuple[Tensor, Tensor]:
        """Return cosines at each centre (centres, B, t, seen), and squared distances."""

    @staticmethod
    def kind(vectors: Tensor) -> "type[Directions | Products]":
        """Return the faster class, or the plainer one for gradients and for exported graphs."""
        single = vectors.dtype is torch.float32 and vectors.device.type == "cpu"
        plain = vectors.requires_grad or torch.compiler.is_exporting()
        return Products if single and not plain else Directions


@dataclass(frozen=True, eq=False)
class Directions(PreparedVectors):
    """Comparison by a product of directions for each centre."""

    vectors: Tensor
    """From the mean: (B, t, d_T)."""
    turned: Tensor
    """Directions from the origin, minus the centre of directions: (B, t, d_T)."""
    lengths: Tensor
    """Lengths of `vectors`: (B, t, 1)."""
    origin_lengths: Tensor
    shifted: Tensor
    """From the shrunk mean, and from the origin: (2, B, t, d_T)."""
    inverse_lengths: Tensor
    """One over the lengths of `shifted`, or 0: (2, B, t, 1)."""

    @classmethod
    def of(cls, vectors: Tensor, to_mean: Tensor, direction: Tensor) -> Self:
        """Prepare vectors that are centred by the mean and scaled."""
        origin, shrunk = OriginVectors.of(vectors, to_mean), vectors + to_mean[Centre.SHRUNK]
        shrunk_lengths = torch.linalg.vector_norm(shrunk, dim=-1, keepdim=True)
        return cls(
            vectors=vectors,
            turned=torch.addcmul(-direction, origin.vectors, safe_reciprocal(origin.lengths)),
            lengths=torch.linalg.vector_norm(vectors, dim=-1, keepdim=True),
            origin_lengths=origin.lengths,
            shifted=torch.stack([shrunk, origin.vectors]),
            inverse_lengths=safe_reciprocal(torch.stack([shrunk_lengths, origin.lengths])),
        )

    @cached_property
    def units(self) -> tuple[Tensor, Tensor, Tensor]:
        """`vectors`, `shifted` and `turned` with length 1, or 0 for a vector at its centre."""
        lengths = torch.linalg.vector_norm(self.turned, dim=-1, keepdim=True)
        shifted = self.shifted * self.inverse_lengths
        units = self.vectors * safe_reciprocal(self.lengths)
        return units, shifted, self.turned * safe_reciprocal(lengths)

    def compare(self, seen: Self) -> tuple[Tensor, Tensor]:
        """Return cosines and squared distances.

        The seen vectors have length 1 before the product. Lengths of these are divided out after
        it, as the products are smaller than the vectors.
        """
        mean_units, shifted_units, turned_units = seen.units
        products = self.vectors @ mean_units.mT
        turned = self.turned @ turned_units.mT
        turned = turned * safe_reciprocal(
            torch.linalg.vector_norm(self.turned, dim=-1, keepdim=True)
        )
        shifted = self.shifted @ shifted_units.mT * self.inverse_lengths
        mean = products * safe_reciprocal(self.lengths)
        cosines = torch.cat([mean.unsqueeze(0), shifted, turned.unsqueeze(0)])
        squares = self.lengths**2 + (seen.lengths**2).mT
        return cosines, (squares - 2 * products * seen.lengths.mT).clamp_min(0)


@dataclass(frozen=True, eq=False)
class Products(PreparedVectors):
    """Comparison by a single product in double precision, from which all centres follow: faster.

    For vectors near a centre the result is still exact to single precision, which they came in.
    """

    vectors: Tensor
    """From the mean, in double precision: (B, t, d_T)."""
    squares: Tensor
    """Squared lengths of `vectors`: (B, t, 1)."""
    shifts: Tensor
    """x s + s s / 2 for the shifts s to the shrunk mean and to the origin: (2, B, t, 1). The sum
    of those of x and y is what their product gains from the shift."""
    tilts: Tensor
    """The same for directions from the origin and their centre, to be subtracted: (B, t, 1)."""
    inverse_lengths: Tensor
    """One over the length from each centre, or 0: (centres, B, t, 1)."""
    origin_lengths: Tensor

    @classmethod
    def of(cls, vectors: Tensor, to_mean: Tensor, direction: Tensor) -> Self:
        """Prepare vectors that are centred by the mean and scaled."""
        exact = vectors.double()
        # Three vectors s: the shifts to the shrunk mean and to the origin, and the mean direction.
        points = torch.cat([*to_mean[Centre.SHRUNK : Centre.DIRECTION], direction], dim=1).double()
        along = (exact @ points.mT).unbind(dim=2)  # x s, (B, t) each
        gram = points @ points.mT  # s s', (B, 3, 3)
        squares = exact.square().sum(dim=-1)
        shifts = torch.stack([along[s] + gram[:, s, s, None] / 2 for s in (0, 1)])
        lengths = torch.cat([squares[None], squares + 2 * shifts]).clamp_min(0).sqrt()
        inverse_lengths = safe_reciprocal(lengths, vectors.dtype)
        cosine = (along[2] + gram[:, 1, 2, None]) * inverse_lengths[2]  # x s, x a direction
        tilts = cosine - gram[:, 2, 2, None] / 2
        turned = (inverse_lengths[2] * lengths[2] - 2 * tilts).clamp_min(0).sqrt()
        inverse_turned = safe_reciprocal(turned, vectors.dtype)
        inverse_lengths = torch.cat([inverse_lengths, inverse_turned[None]])
        return cls(
            vectors=exact,
            squares=squares.unsqueeze(-1),
            shifts=shifts.unsqueeze(-1),
            tilts=tilts.unsqueeze(-1),
            inverse_lengths=inverse_lengths.unsqueeze(-1),
            origin_lengths=lengths[2].unsqueeze(-1).to(vectors.dtype),
        )

    def compare(self, seen: Self) -> tuple[Tensor, Tensor]:
        """Return cosines and squared distances; sums are in place, so that caches hold them."""
        products = self.vectors @ seen.vectors.mT
        cosines = products.new_empty(len(Centre), *products.shape, dtype=torch.float32)
        inverse, seen_inverse = self.inverse_lengths, seen.inverse_lengths.mT
        shifts, seen_shifts = self.shifts, seen.shifts.mT
        cosines[Centre.MEAN] = (products * inverse[0]).mul_(seen_inverse[0])
        shrunk = (products + shifts[0]).add_(seen_shifts[0])
        cosines[Centre.SHRUNK] = shrunk.mul_(inverse[1]).mul_(seen_inverse[1])
        distances = (self.squares + seen.squares.mT).sub_(products, alpha=2).clamp_min_(0)
        origin = (products + shifts[1]).add_(seen_shifts[1])
        origin = origin.mul_(inverse[2]).mul_(seen_inverse[2])
        cosines[Centre.ORIGIN] = origin
        turned = (origin - self.tilts).sub_(seen.tilts.mT)
        cosines[Centre.DIRECTION] = turned.mul_(inverse[3]).mul_(seen_inverse[3])
        return cosines, distances.float()


@dataclass(frozen=True, eq=False)
class Geometry:
    """The seen vectors of a batch of episodes, and statistics of pairs of them."""

    origin: bool
    """Whether angles at the origin count."""
    limit: Tensor | None
    """Largest absolute value of a coordinate, (B, 1, 1), or None."""
    scale: FeatureScale
    to_mean: Tensor
    """From each centre to the mean, in the units of `scale`: (centres, B, 1, d_T). The last entry
    is that of the origin, as `Centre.DIRECTION` is a centre of directions from there."""
    direction: Tensor
    """The centre of directions from the origin: (B, 1, d_T)."""
    vectors: Tensor
    """The seen vectors, centred and scaled: (B, seen, d_T)."""
    prepared: PreparedVectors
    """The same, prepared for comparisons."""
    mean_distance: Tensor
    """Mean squared distance between different vectors, (B, 1, 1)."""
    mean_cosine: Tensor
    """Mean cosine between different vectors, (centres, B, 1, 1)."""
    cosine_deviation: Tensor
    """Standard deviation of these cosines, (centres, B, 1, 1)."""

    @classmethod
    def of(
        cls, features: Tensor, settings: GeometrySettings = ORIGIN_WITHOUT_LIMIT
    ) -> "tuple[Self, Comparison]":
        """Measure vectors (B, seen, d_T), and compare them with each other."""
        origin, largest = settings.origin, coordinate_limit([features], settings.limit)
        features = limited(features, largest)
        scale = FeatureScale.of(features, Normalisation.SUPPORT)
        vectors = scale(features)
        squares = vectors.pow(2).sum(dim=(1, 2), keepdim=True)
        to_mean = centres_to_mean(scale, squares, vectors.shape[1], origin=origin)
        direction = _mean_direction(OriginVectors.of(vectors, to_mean), origin=origin)
        kind = PreparedVectors.kind(vectors)
        prepared: PreparedVectors = kind.of(vectors, to_mean, direction)
        cosines, distances = prepared.compare(prepared)
        different = _off_diagonal(cosines)
        mean_cosine = _mean(different)
        geometry = cls(
            origin=origin,
            limit=largest,
            scale=scale,
            to_mean=to_mean,
            direction=direction,
            vectors=vectors,
            prepared=prepared,
            mean_distance=_mean(_off_diagonal(distances)),
            mean_cosine=mean_cosine,
            cosine_deviation=_mean((different - mean_cosine).pow(2)).sqrt(),
        )
        return geometry, geometry._comparison_of_seen(cosines, distances)

    def compare_seen(self) -> "Comparison":
        """Compare the seen vectors with each other."""
        return self._comparison_of_seen(*self.prepared.compare(self.prepared))

    def _comparison_of_seen(self, cosines: Tensor, distances: Tensor) -> "Comparison":
        vectors = self.vectors
        same = torch.eye(vectors.shape[1], device=vectors.device, dtype=vectors.dtype)
        return Comparison(self, cosines, distances * self._distance_unit, same)

    # Units of every comparison, cached as a fit is queried many times.

    @cached_property
    def _distance_unit(self) -> Tensor:
        return safe_reciprocal(self.mean_distance)

    @cached_property
    def cosine_unit(self) -> Tensor:
        """One over the deviation of cosines, or 0 where there is none: (centres, B, 1, 1)."""
        return safe_reciprocal(self.cosine_deviation)

    @property
    def origin_lengths(self) -> Tensor:
        """Lengths of the seen vectors, from the origin: (B, seen)."""
        return self.prepared.origin_lengths.squeeze(-1)

    def normalise(self, features: Tensor) -> Tensor:
        """Limit, centre and scale other vectors (B, rows, d_T) as the seen ones are."""
        return self.scale(limited(features, self.limit))

    def compare(self, features: Tensor) -> "Comparison":
        """Compare other vectors (B, rows, d_T) with the seen ones."""
        rows = features.shape[1]
        if features.device.type == "cpu":  # chunks that fit into caches, without new pages for each
            rows = max(
                MIN_CHUNK_ROWS, COORDINATES_AT_ONCE // (features.shape[0] * features.shape[2])
            )
        chunks = torch.split(features, rows, dim=1)
        measured = [self._measure(self.normalise(chunk)) for chunk in chunks]
        cosines, distances = measured[0]
        if len(measured) > 1:
            cosines, distances = (torch.cat(each, dim=-2) for each in zip(*measured, strict=True))
        same = distances.new_zeros(distances.shape[1:])
        return Comparison(self, cosines, distances * self._distance_unit, same)

    def compare_seen_rows(self, rows: slice) -> "Comparison":
        """Compare some of the seen vectors with all of them."""
        vectors = self.vectors[:, rows]
        cosines, distances = self._measure(vectors)
        same = distances.new_zeros(distances.shape[1:])
        same.diagonal(rows.start).fill_(1)
        return Comparison(self, cosines, distances * self._distance_unit, same)

    def _measure(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines (centres, B, rows, seen) and squared distances of normalised vectors."""
        prepared, centres = self.prepared, (self.to_mean, self.direction)
        if torch.compiler.is_exporting():  # some runtimes have no double precision
            prepared = Directions.of(self.vectors, *centres)
        return type(prepared).of(vectors, *centres).compare(prepared)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Cosines and distances between vectors (rows) and the seen ones (columns)."""

    seen: Geometry
    cosines: Tensor
    """Cosines of the angles at each centre: (centres, B, rows, seen)."""
    distances: Tensor
    """Squared distances, relative to the mean between different seen vectors: (B, rows, seen)."""
    same: Tensor
    """1 where the row is the seen vector itself, else 0: (rows, seen)."""

    def standardised(self, centre: Centre) -> Tensor:
        """Return cosines minus their mean, in standard deviations: (B, rows, seen)."""
        deviation = self.cosines[centre] - self.seen.mean_cosine[centre]
        return (deviation * self.seen.cosine_unit[centre]).clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS)

    def first(self, count: int) -> "Comparison":
        """Return the comparison with the first `count` seen vectors only."""
        tensors = (self.cosines, self.distances, self.same)
        return Comparison(self.seen, *(tensor[..., :count] for tensor in tensors))


def centres_to_mean(scale: FeatureScale, squares: Tensor, count: int, *, origin: bool) -> Tensor:
    """Return the vectors from centres to the mean, in scaled units: (centres, B, 1, d_T).

    `squares` is the sum of squares of the `count` scaled vectors.
    """
    mean = scale.centre / scale.scale if origin else torch.zeros_like(scale.centre)
    places = {
        Centre.MEAN: torch.zeros_like(mean),
        Centre.SHRUNK: share_of_chance(mean, squares, count) * mean,
        Centre.ORIGIN: mean,
        Centre.DIRECTION: mean,
    }
    return torch.stack([places[centre] for centre in Centre])


def _mean_direction(vectors: OriginVectors, *, origin: bool) -> Tensor:
    """Return the James-Stein estimate of the mean direction, or 0 without origin: (B, 1, d_T)."""
    rows = vectors.directions
    count, mean = rows.shape[1], rows.mean(dim=1, keepdim=True)
    if not origin:
        return torch.zeros_like(mean)
    squares = (rows - mean).pow(2).sum(dim=(1, 2), keepdim=True)
    return (1 - share_of_chance(mean, squares, count)) * mean


def share_of_chance(mean: Tensor, squares: Tensor, count: int) -> Tensor:
    """Return 1 - alpha of the James-Stein estimate alpha mu for means (..., d_T): (..., 1).

    `squares` is the sum of squared distances of `count` vectors from their mean.
    """
    chance = squares / (max(1, count - 1) * count)
    return safe_ratio(chance, mean.pow(2).sum(dim=-1, keepdim=True)).clamp_max(1)


def _off_diagonal(values: Tensor) -> Tensor:
    """Return the off-diagonal entries as a view: (..., t, t) -> (..., t - 1, t).

    In the flattened matrix every (t + 1)-th number, from the first one on, is on the diagonal.
    """
    count = values.shape[-1]
    flat = values.flatten(-2)[..., :-1]
    return flat.view(*flat.shape[:-1], count - 1, count + 1)[..., 1:]


def _mean(matrices: Tensor) -> Tensor:
    """Return the means of matrices (..., rows, columns), or 0 for empty ones: (..., 1, 1)."""
    rows, columns = matrices.shape[-2:]
    return matrices.sum(dim=(-2, -1), keepdim=True) / max(1, rows * columns)


def directions_from(
    centres: Sequence[Centre], vectors: Tensor, to_mean: Tensor, direction: Tensor
) -> Tensor:
    """Return directions of scaled vectors (B, t, d_T) from centres: (centres, B, t, d_T).

    They are normalised one by one, so that their products form a proper Gram matrix. Of several
    centres, `Centre.DIRECTION` is the last.
    """
    directions = vectors + to_mean[list(centres)]  # in place from here on, for caches
    directions.mul_(safe_reciprocal(torch.linalg.vector_norm(directions, dim=-1, keepdim=True)))
    if Centre.DIRECTION in centres:
        last = directions[-1].sub_(direction)
        last.mul_(safe_reciprocal(torch.linalg.vector_norm(last, dim=-1, keepdim=True)))
    return directions


def safe_ratio(values: Tensor, unit: Tensor) -> Tensor:
    """Return values / unit, or 0 where the unit counts as zero."""
    return values * safe_reciprocal(unit)


def safe_reciprocal(unit: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return 1 / unit, or 0 where the unit is zero up to the rounding of a dtype."""
    least = MIN_UNIT * torch.finfo(dtype or unit.dtype).eps
    return torch.where(unit > least, unit, torch.inf).reciprocal()


def coordinate_limit(chunks: Sequence[Tensor], factor: float | None) -> Tensor | None:
    """Return the largest absolute value of coordinates: (B, 1, 1), or None.

    It is `factor` times the root mean square of the nonzero coordinates of vectors (B, rows, d_T),
    which come in chunks of rows.
    """
    if factor is None or chunks[0].shape[2] < MIN_LIMITED_WIDTH:
        return None
    peaks = [chunk.abs().amax(dim=(1, 2), keepdim=True) for chunk in chunks]
    peak = torch.stack(peaks).amax(dim=0)
    peak = torch.where(peak > 0, peak, 1)  # keeps squares of very large or small features finite
    squares, count = torch.zeros_like(peak), torch.zeros_like(peak)
    for chunk in chunks:
        shares = chunk / peak
        squares = squares + shares.pow(2).sum(dim=(1, 2), keepdim=True)
        # Counting nonzero coordinates by their signs is three times as fast as by a comparison.
        signs = F.hardshrink(shares, MIN_SHARE).sign()
        count = count + signs.abs().sum(dim=(1, 2), keepdim=True)
    return factor * peak * (squares / count.clamp_min(1)).sqrt()


def limited(features: Tensor, limit: Tensor | None) -> Tensor:
    """Softly limit the coordinates of vectors (B, rows, d_T) to (B, 1, 1), if there is a limit."""
    if limit is None:
        return features
    # A limit of zero means that all seen coordinates are zero: then nothing is limited.
    limit = torch.where(limit > 0, limit, torch.inf)
    largest = MAX_LIMITS * limit
    clamped = features.clamp(-largest, largest)
    powers = (clamped / limit).square_().square_()
    # `rsqrt` twice is the fourth root; `sqrt` twice takes twice the time, `pow` ten times.
    return clamped / powers.add_(1).rsqrt_().rsqrt_()
