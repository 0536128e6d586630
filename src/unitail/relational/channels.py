"""Channels r_c(i, j): what attention sees of two vectors i and j.

Each says in its own way how alike they are, or whether they are one and the same; attention adds
them up, with learned weights, to its scores. The order is that of the weights: new ones come last.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from unitail.relational.geometry import Centre, Comparison

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
