"""Relations between feature vectors: all that the relational model sees of them.

Attention sees channels r_c(i, j): each says in its own way how alike vectors i and j are, or
whether they are one and the same; learned weights add them up to scores. The order is that of the
weights: new channels come last. Regression is in `kernel_ridge.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unitail.relational.geometry import Centre, Comparison, Geometry
from unitail.relational.kernel_ridge import leave_one_out, solve, stack_kernels

STRETCH = 4.0
"""Cosines are small numbers; attention scores are not."""
DISTANCE_STRETCH = 2.0
"""A squared distance as long as the mean one takes this much off a score."""
MAX_CHANNEL = 8.0
"""Beyond this a distance counts no more."""

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
    """How some vectors (rows) relate to others (columns)."""

    channels: Tensor
    """(B, channels, rows, seen): the seen are those whose tokens may be looked at."""
    operators: Tensor
    """(B, operators, rows, n): the n labelled vectors."""

    def to(self, dtype: torch.dtype) -> "Relations":
        """Enter the precision of a network."""
        return Relations(self.channels.to(dtype), self.operators.to(dtype))


@dataclass(frozen=True, eq=False)
class Frame:
    """The vectors that all others are related to.

    The first n of the seen vectors are labelled. Isolated queries see the support, and statistics
    are the support's; joint ones see all vectors, and statistics are those of all.
    """

    geometry: Geometry
    num_labelled: int
    origin: bool
    """Whether angles from the origin count."""
    solutions: Tensor
    """P for each operator: (B, operators, n, n)."""

    def relate(self, features: Tensor) -> Relations:
        """Relate other vectors (B, m, d_T) to the seen ones."""
        compared = self.geometry.compare(features)
        return Relations(
            channels=stack_channels(compared, origin=self.origin),
            operators=stack_kernels(compared, self.num_labelled) @ self.solutions,
        )


def relate(features: Tensor, num_labelled: int, *, origin: bool) -> tuple[Frame, Relations]:
    """Relate vectors (B, seen, d_T), of which the first are labelled, to each other.

    No label counts for the vector that has it.
    """
    geometry, compared = Geometry.of(features, origin=origin)
    kernels = stack_kernels(compared, num_labelled)  # (B, operators, seen, n)
    solutions = solve(kernels[:, :, :num_labelled])
    others = kernels[:, :, num_labelled:] @ solutions
    relations = Relations(
        channels=stack_channels(compared, origin=origin),
        operators=torch.cat([leave_one_out(solutions), others], dim=2),
    )
    return Frame(geometry, num_labelled, origin, solutions), relations
