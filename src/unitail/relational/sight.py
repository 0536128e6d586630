r"""Where vectors are seen from, and what of each must be known to compare it with others.

Cosines seen from a centre are products of directions from there. That centres only shift vectors,
so that one product of all pairs gives the cosines from each, is no way to them: of a vector near a
centre, nothing would be left of a difference of products.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

MIN_UNIT = 64
"""A unit below this many roundings of 1 is none: nothing can be measured in it."""


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

    def from_centre(self, direction: Tensor) -> Tensor:
        """See directions from their centre (B, 1, d_T)."""
        return torch.addcmul(-direction, self.vectors, inverse(self.lengths))


@dataclass(frozen=True, eq=False)
class Sight:
    """Vectors, ready to be compared."""

    vectors: Tensor
    """From the mean: (B, t, d_T)."""
    turns: Tensor
    """Their directions from the origin, from the centre of those: (B, t, d_T)."""
    lengths: Tensor
    """Of vectors: (B, t, 1)."""
    origin_lengths: Tensor
    """(B, t, 1)."""
    shifted: Tensor
    """From the centre that is a guess, and from the origin: (2, B, t, d_T)."""
    closeness: Tensor
    """One over the lengths of those, or 0: (2, B, t, 1)."""

    @classmethod
    def of(
        cls, vectors: Tensor, to_mean: Tensor, direction: Tensor, rays: Rays | None = None
    ) -> Self:
        """See vectors that are centred by the mean and scaled; `rays` if they are known."""
        rays = rays or Rays.of(vectors, to_mean)
        shrunk = vectors + to_mean[Centre.SHRUNK]
        away = torch.linalg.vector_norm(shrunk, dim=-1, keepdim=True)
        return cls(
            vectors=vectors,
            turns=rays.from_centre(direction),
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

    def compare(self, seen: "Sight") -> tuple[Tensor, Tensor]:
        """Return cosines from each centre (centres, B, t, seen), and squared distances.

        What is seen is of length 1; lengths of the others are taken off the product, which has
        fewer numbers.
        """
        from_mean, from_shifted, from_direction = seen.units
        along = self.vectors @ from_mean.mT
        last = self.turns @ from_direction.mT
        last = last * inverse(torch.linalg.vector_norm(self.turns, dim=-1, keepdim=True))
        shifted = self.shifted @ from_shifted.mT * self.closeness
        mean = along * inverse(self.lengths)
        cosines = torch.cat([mean.unsqueeze(0), shifted, last.unsqueeze(0)])
        squares = self.lengths**2 + (seen.lengths**2).mT
        return cosines, (squares - 2 * along * seen.lengths.mT).clamp_min(0)


def look(vectors: Tensor, to_mean: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Return lengths of scaled vectors (B, t, d_T) and their directions, each from each centre.

    Each direction is of length 1 by itself, so that their Gram matrix stays one.
    """
    directions = vectors + to_mean  # (centres, B, t, d_T); in place from here on, for the caches
    lengths = torch.linalg.vector_norm(directions, dim=-1, keepdim=True)
    directions.mul_(inverse(lengths))
    last = directions[Centre.DIRECTION].sub_(direction)
    last.mul_(inverse(torch.linalg.vector_norm(last, dim=-1, keepdim=True)))
    return lengths, directions


def ratio(values: Tensor, unit: Tensor) -> Tensor:
    """Divide, and give zero where there is no unit to measure in."""
    return values * inverse(unit)


def inverse(unit: Tensor) -> Tensor:
    """Return one over a unit, and zero where there is none."""
    least = MIN_UNIT * torch.finfo(unit.dtype).eps
    return torch.where(unit > least, unit, torch.inf).reciprocal()
