r"""Centres, directions and distances: what the relational model measures of feature vectors.

Everything is made of inner products of vectors that are centred by one mean and scaled by one
number, so an orthogonal change of coordinates, a positive scale and a shift of all features change
nothing. If the origin counts, angles are seen from it too, and from a point between it and the
mean; they tell something of how features of a kind lie, for the price that a shift is noticed.

The point between: the mean mu of t vectors is a poor guess of where all features of the encoder
have their mean, if t is small. James and Stein's guess is alpha mu,

    alpha = max(0, 1 - (sigma^2 / t) / |mu|^2),    sigma^2 = mean squared distance from mu,

near the origin where the mean could be chance, near mu where it is plain. Directions from the
origin, vectors of length 1, have such a centre of their own.

Some encoders have few coordinates that are far larger than the rest, and angles are those of these
few. A limit c says how far a coordinate counts: x becomes x / (1 + (x / c s)^4)^(1/4), with s the
root mean square of the seen coordinates that are not zero. It hardly changes what is well below
c s, and nothing gets beyond. With a limit it matters which coordinates vectors are given in. Few
coordinates are columns that somebody chose: a large one counts as it is.

Cosines seen from a centre are products of directions from there. Centres only shift vectors, so one
product of all pairs gives the cosines from each: (x + s)(y + s) = xy + xs + ys + ss. But of vectors
near a centre nothing is left of a difference of products, unless these are twice as precise as the
vectors. So single precision has one product in double precision, and double precision has four.
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
"""Beyond this many standard deviations a cosine is as unusual as it gets."""
CHUNK, MIN_CHUNK_ROWS = 2**17, 8
"""Coordinates of other vectors that a CPU compares at once, and the fewest vectors."""
MIN_UNIT = 64
"""A unit below this many roundings of 1 is none: nothing can be measured in it."""
MIN_LIMITED_WIDTH = 32
"""Vectors of fewer coordinates have no limit."""
MIN_SHARE = 1e-6
"""A coordinate below this share of the largest is zero, but for rounding."""
MAX_LIMITS = 1e6
"""A coordinate this many times the limit is as far beyond it as it gets; powers stay finite."""


class Centre(IntEnum):
    """A point that vectors are seen from. If the origin does not count, all are the mean."""

    MEAN = 0
    SHRUNK = 1
    """James and Stein's guess of the encoder's mean."""
    ORIGIN = 2
    DIRECTION = 3
    """James and Stein's guess of the mean direction, from which directions are seen."""


@dataclass(frozen=True, eq=False)
class Rays:
    """Vectors as seen from the origin."""

    vectors: Tensor
    """(B, t, d_T)."""
    lengths: Tensor
    """(B, t, 1)."""

    @classmethod
    def of(cls, vectors: Tensor, to_mean: Tensor) -> Self:
        """See vectors that are centred by the mean and scaled."""
        rows = vectors + to_mean[Centre.ORIGIN]
        return cls(rows, torch.linalg.vector_norm(rows, dim=-1, keepdim=True))

    @property
    def directions(self) -> Tensor:
        """Of length 1, or 0 for a vector at the origin: (B, t, d_T)."""
        return self.vectors * inverse(self.lengths)


class Sight(ABC):
    """Vectors, ready to be compared with others that are seen alike."""

    origin_lengths: Tensor
    """(B, t, 1)."""

    @classmethod
    @abstractmethod
    def of(cls, vectors: Tensor, to_mean: Tensor, direction: Tensor) -> Self:
        """See vectors that are centred by the mean and scaled."""

    @abstractmethod
    def compare(self, seen: Self) -> tuple[Tensor, Tensor]:
        """Return cosines from each centre (centres, B, t, seen), and squared distances."""

    @staticmethod
    def kind(vectors: Tensor) -> "type[Directions | Products]":
        """Return what is faster; for gradients and for other runtimes, what is plainer."""
        single = vectors.dtype is torch.float32 and vectors.device.type == "cpu"
        plain = vectors.requires_grad or torch.compiler.is_exporting()
        return Products if single and not plain else Directions


@dataclass(frozen=True, eq=False)
class Directions(Sight):
    """By a product of directions from each centre."""

    vectors: Tensor
    """From the mean: (B, t, d_T)."""
    turns: Tensor
    """Their directions from the origin, from the centre of those: (B, t, d_T)."""
    lengths: Tensor
    """Of vectors: (B, t, 1)."""
    origin_lengths: Tensor
    shifted: Tensor
    """From the centre that is a guess, and from the origin: (2, B, t, d_T)."""
    closeness: Tensor
    """One over the lengths of those, or 0: (2, B, t, 1)."""

    @classmethod
    def of(cls, vectors: Tensor, to_mean: Tensor, direction: Tensor) -> Self:
        """See vectors that are centred by the mean and scaled."""
        rays, shrunk = Rays.of(vectors, to_mean), vectors + to_mean[Centre.SHRUNK]
        away = torch.linalg.vector_norm(shrunk, dim=-1, keepdim=True)
        return cls(
            vectors=vectors,
            turns=torch.addcmul(-direction, rays.vectors, inverse(rays.lengths)),
            lengths=torch.linalg.vector_norm(vectors, dim=-1, keepdim=True),
            origin_lengths=rays.lengths,
            shifted=torch.stack([shrunk, rays.vectors]),
            closeness=inverse(torch.stack([away, rays.lengths])),
        )

    @cached_property
    def units(self) -> tuple[Tensor, Tensor, Tensor]:
        """Vectors, shifted ones and turns, of length 1, or 0 for one at its centre."""
        lengths = torch.linalg.vector_norm(self.turns, dim=-1, keepdim=True)
        shifted = self.shifted * self.closeness
        return self.vectors * inverse(self.lengths), shifted, self.turns * inverse(lengths)

    def compare(self, seen: Self) -> tuple[Tensor, Tensor]:
        """Let what is seen be of length 1, and take lengths of others off the smaller product."""
        from_mean, from_shifted, from_direction = seen.units
        along = self.vectors @ from_mean.mT
        last = self.turns @ from_direction.mT
        last = last * inverse(torch.linalg.vector_norm(self.turns, dim=-1, keepdim=True))
        shifted = self.shifted @ from_shifted.mT * self.closeness
        mean = along * inverse(self.lengths)
        cosines = torch.cat([mean.unsqueeze(0), shifted, last.unsqueeze(0)])
        squares = self.lengths**2 + (seen.lengths**2).mT
        return cosines, (squares - 2 * along * seen.lengths.mT).clamp_min(0)


@dataclass(frozen=True, eq=False)
class Products(Sight):
    """By one product in twice the precision, of which each centre takes its own: that is faster.

    What is left of vectors near a centre is exact to single precision, in which they came.
    """

    vectors: Tensor
    """From the mean: (B, t, d_T)."""
    squares: Tensor
    """(B, t, 1)."""
    shifts: Tensor
    """What products with others gain from the guess, and from the origin: (2, B, t, 1)."""
    tilts: Tensor
    """What those of directions from the origin lose from their centre: (B, t, 1)."""
    closeness: Tensor
    """One over the length from each centre, or 0: (centres, B, t, 1)."""
    origin_lengths: Tensor

    @classmethod
    def of(cls, vectors: Tensor, to_mean: Tensor, direction: Tensor) -> Self:
        """See vectors that are centred by the mean and scaled."""
        exact = vectors.double()
        places = torch.cat([*to_mean[Centre.SHRUNK : Centre.DIRECTION], direction], dim=1).double()
        along = (exact @ places.mT).unbind(dim=2)  # (B, t) each: the guess, the origin, direction
        own = places @ places.mT  # (B, 3, 3)
        squares = exact.square().sum(dim=-1)
        # Each of the two that are compared brings half of what a centre has with itself.
        shifts = torch.stack([along[place] + own[:, place, place, None] / 2 for place in (0, 1)])
        lengths = torch.cat([squares[None], squares + 2 * shifts]).clamp_min(0).sqrt()
        near = inverse(lengths, vectors.dtype)
        turned = (along[2] + own[:, 1, 2, None]) * near[2]
        tilts = turned - own[:, 2, 2, None] / 2
        turns = (near[2] * lengths[2] - 2 * tilts).clamp_min(0).sqrt()
        closeness = torch.cat([near, inverse(turns, vectors.dtype)[None]])
        return cls(
            vectors=exact,
            squares=squares.unsqueeze(-1),
            shifts=shifts.unsqueeze(-1),
            tilts=tilts.unsqueeze(-1),
            closeness=closeness.unsqueeze(-1),
            origin_lengths=lengths[2].unsqueeze(-1).to(vectors.dtype),
        )

    def compare(self, seen: Self) -> tuple[Tensor, Tensor]:
        """Make sums in place, for the caches."""
        products = self.vectors @ seen.vectors.mT
        cosines = products.new_empty(len(Centre), *products.shape, dtype=torch.float32)
        near, seen_near = self.closeness, seen.closeness.mT
        shifts, seen_shifts = self.shifts, seen.shifts.mT
        cosines[Centre.MEAN] = (products * near[0]).mul_(seen_near[0])
        shrunk = (products + shifts[0]).add_(seen_shifts[0])
        cosines[Centre.SHRUNK] = shrunk.mul_(near[1]).mul_(seen_near[1])
        distances = (self.squares + seen.squares.mT).sub_(products, alpha=2).clamp_min_(0)
        origin = (products + shifts[1]).add_(seen_shifts[1]).mul_(near[2]).mul_(seen_near[2])
        cosines[Centre.ORIGIN] = origin
        turned = (origin - self.tilts).sub_(seen.tilts.mT).mul_(near[3]).mul_(seen_near[3])
        cosines[Centre.DIRECTION] = turned
        return cosines, distances.float()


@dataclass(frozen=True, eq=False)
class Geometry:
    """The seen vectors of some episodes, and what is usual between different ones."""

    limit: Tensor | None
    """How far a coordinate counts, if there is an end: (B, 1, 1)."""
    scale: FeatureScale
    to_mean: Tensor
    """From each centre to the mean, in the units of `scale`: (centres, B, 1, d_T). Directions from
    the origin are seen from the last one: its place is the origin's."""
    direction: Tensor
    """The last centre, among directions from the origin: (B, 1, d_T)."""
    vectors: Tensor
    """The seen vectors, centred and scaled: (B, seen, d_T)."""
    sight: Sight
    """The same, ready to be compared with others."""
    mean_distance: Tensor
    """Squared, (B, 1, 1)."""
    mean_cosine: Tensor
    """(centres, B, 1, 1)."""
    cosine_deviation: Tensor
    """(centres, B, 1, 1)."""

    @classmethod
    def of(
        cls, features: Tensor, *, origin: bool, limit: float | None = None
    ) -> "tuple[Self, Comparison]":
        """Measure the vectors (B, seen, d_T), and compare them with each other.

        `limit` is that of coordinates, in units of their root mean square.
        """
        ends = coordinate_limit([features], limit)
        features = limited(features, ends)
        scale = FeatureScale.of(features, Normalisation.SUPPORT)
        vectors = scale(features)
        squares = vectors.pow(2).sum(dim=(1, 2), keepdim=True)
        to_mean = centres_to_mean(scale, squares, vectors.shape[1], origin=origin)
        rays = Rays.of(vectors, to_mean)
        direction = _mean_direction(rays, origin=origin)
        sight: Sight = Sight.kind(vectors).of(vectors, to_mean, direction)
        cosines, distances = sight.compare(sight)
        different = _off_diagonal(cosines)
        mean_cosine = _mean(different)
        geometry = cls(
            limit=ends,
            scale=scale,
            to_mean=to_mean,
            direction=direction,
            vectors=vectors,
            sight=sight,
            mean_distance=_mean(_off_diagonal(distances)),
            mean_cosine=mean_cosine,
            cosine_deviation=_mean((different - mean_cosine).pow(2)).sqrt(),
        )
        return geometry, geometry._own(cosines, distances)

    def compare_seen(self) -> "Comparison":
        """Compare the seen vectors with each other."""
        return self._own(*self.sight.compare(self.sight))

    def _own(self, cosines: Tensor, distances: Tensor) -> "Comparison":
        vectors = self.vectors
        same = torch.eye(vectors.shape[1], device=vectors.device, dtype=vectors.dtype)
        return Comparison(self, cosines, distances * self._distance_unit, same)

    # What all that is compared with the seen is measured in: made once, however often it is.

    @cached_property
    def _distance_unit(self) -> Tensor:
        return inverse(self.mean_distance)

    @cached_property
    def cosine_unit(self) -> Tensor:
        """One over the deviation of cosines, or 0 where there is none: (centres, B, 1, 1)."""
        return inverse(self.cosine_deviation)

    @property
    def origin_lengths(self) -> Tensor:
        """Lengths of the seen vectors, from the origin: (B, seen)."""
        return self.sight.origin_lengths.squeeze(-1)

    def normalise(self, features: Tensor) -> Tensor:
        """Limit, centre and scale other vectors (B, rows, d_T) as the seen ones are."""
        return self.scale(limited(features, self.limit))

    def compare(self, features: Tensor) -> "Comparison":
        """Compare other vectors (B, rows, d_T) with the seen ones."""
        rows = features.shape[1]
        if features.device.type == "cpu":  # arrays that caches hold, and no fresh pages for each
            rows = max(MIN_CHUNK_ROWS, CHUNK // (features.shape[0] * features.shape[2]))
        measured = [self._measure(chunk) for chunk in torch.split(features, rows, dim=1)]
        cosines, distances = measured[0]
        if len(measured) > 1:
            cosines, distances = (torch.cat(each, dim=-2) for each in zip(*measured, strict=True))
        same = distances.new_zeros(distances.shape[1:])
        return Comparison(self, cosines, distances * self._distance_unit, same)

    def _measure(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines (centres, B, rows, seen) and squared distances of some vectors."""
        sight, centres = self.sight, (self.to_mean, self.direction)
        if torch.compiler.is_exporting():  # single precision is all that some runtimes have
            sight = Directions.of(self.vectors, *centres)
        return type(sight).of(self.normalise(features), *centres).compare(sight)


@dataclass(frozen=True, eq=False)
class Comparison:
    """How vectors (rows) lie to the seen ones (columns)."""

    seen: Geometry
    cosines: Tensor
    """Of the angles as seen from each centre: (centres, B, rows, seen)."""
    distances: Tensor
    """Squared, in units of their mean between different seen vectors: (B, rows, seen)."""
    same: Tensor
    """1 where the row is the seen vector itself, else 0: (rows, seen)."""

    def standardised(self, centre: Centre) -> Tensor:
        """Return cosines in standard deviations from what is usual: (B, rows, seen)."""
        above = self.cosines[centre] - self.seen.mean_cosine[centre]
        return (above * self.seen.cosine_unit[centre]).clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS)

    def first(self, count: int) -> "Comparison":
        """Keep the comparison with the first of the seen vectors."""
        tensors = (self.cosines, self.distances, self.same)
        return Comparison(self.seen, *(tensor[..., :count] for tensor in tensors))


def centres_to_mean(scale: FeatureScale, squares: Tensor, count: int, *, origin: bool) -> Tensor:
    """Place the centres of scaled vectors, given their sum of squares: (centres, B, 1, d_T)."""
    mean = scale.centre / scale.scale if origin else torch.zeros_like(scale.centre)
    chance = squares / (max(1, count - 1) * count)
    left = safe_ratio(chance, mean.pow(2).sum(dim=-1, keepdim=True)).clamp_max(1)  # 1 - alpha
    places = {
        Centre.MEAN: torch.zeros_like(mean),
        Centre.SHRUNK: left * mean,
        Centre.ORIGIN: mean,
        Centre.DIRECTION: mean,
    }
    return torch.stack([places[centre] for centre in Centre])


def _mean_direction(rays: Rays, *, origin: bool) -> Tensor:
    """Guess the mean direction from the origin, if it counts: (B, 1, d_T)."""
    rows = rays.directions
    count, mean = rows.shape[1], rows.mean(dim=1, keepdim=True)
    if not origin:
        return torch.zeros_like(mean)
    chance = (rows - mean).pow(2).sum(dim=(1, 2), keepdim=True) / (max(1, count - 1) * count)
    left = safe_ratio(chance, mean.pow(2).sum(dim=-1, keepdim=True))  # 1 - alpha
    return (1 - left).clamp_min(0) * mean


def _off_diagonal(values: Tensor) -> Tensor:
    """Return what is between different vectors, without a copy: (..., t, t) -> (..., t - 1, t).

    After the first number of the matrix, and then after every t, comes one of the diagonal.
    """
    count = values.shape[-1]
    rest = values.flatten(-2)[..., :-1]
    return rest.view(*rest.shape[:-1], count - 1, count + 1)[..., 1:]


def _mean(matrices: Tensor) -> Tensor:
    """Average matrices (..., rows, columns), if there is anything in them: (..., 1, 1)."""
    rows, columns = matrices.shape[-2:]
    return matrices.sum(dim=(-2, -1), keepdim=True) / max(1, rows * columns)


def lengths_and_directions(
    vectors: Tensor, to_mean: Tensor, direction: Tensor
) -> tuple[Tensor, Tensor]:
    """Return lengths of scaled vectors (B, t, d_T) and their directions, each from each centre.

    Each direction is of length 1 by itself, so that their Gram matrix stays one.
    """
    directions = vectors + to_mean  # (centres, B, t, d_T); in place from here on, for the caches
    lengths = torch.linalg.vector_norm(directions, dim=-1, keepdim=True)
    directions.mul_(inverse(lengths))
    last = directions[Centre.DIRECTION].sub_(direction)
    last.mul_(inverse(torch.linalg.vector_norm(last, dim=-1, keepdim=True)))
    return lengths, directions


def safe_ratio(values: Tensor, unit: Tensor) -> Tensor:
    """Divide, and give zero where there is no unit to measure in."""
    return values * inverse(unit)


def inverse(unit: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return one over a unit, and zero where there is none, by the dtype of what was measured."""
    least = MIN_UNIT * torch.finfo(dtype or unit.dtype).eps
    return torch.where(unit > least, unit, torch.inf).reciprocal()


def coordinate_limit(chunks: Sequence[Tensor], factor: float | None) -> Tensor | None:
    """Return how far coordinates of vectors (B, rows, d_T), in chunks of rows, count: (B, 1, 1).

    That is a factor times the root mean square of what is not zero.
    """
    if factor is None or chunks[0].shape[2] < MIN_LIMITED_WIDTH:
        return None
    peaks = [chunk.abs().amax(dim=(1, 2), keepdim=True) for chunk in chunks]
    peak = torch.stack(peaks).amax(dim=0)
    peak = torch.where(peak > 0, peak, 1)  # squares of very large or small features are not finite
    squares, count = torch.zeros_like(peak), torch.zeros_like(peak)
    for chunk in chunks:
        shares = chunk / peak
        squares = squares + shares.pow(2).sum(dim=(1, 2), keepdim=True)
        # Signs of what is not zero: to compare numbers and count the answers takes thrice as long.
        signs = F.hardshrink(shares, MIN_SHARE).sign()
        count = count + signs.abs().sum(dim=(1, 2), keepdim=True)
    return factor * peak * (squares / count.clamp_min(1)).sqrt()


def limited(features: Tensor, limit: Tensor | None) -> Tensor:
    """Let coordinates (B, rows, d_T) count up to a limit (B, 1, 1) at most, if there is one."""
    if limit is None:
        return features
    # Where all that was seen is zero, there is nothing to measure in, and nothing is limited.
    limit = torch.where(limit > 0, limit, torch.inf)
    most = MAX_LIMITS * limit
    ended = features.clamp(-most, most)
    powers = (ended / limit).square_().square_()
    # Twice one over a root is the root of a root, in half its time and a tenth of that of powers.
    return ended / powers.add_(1).rsqrt_().rsqrt_()
