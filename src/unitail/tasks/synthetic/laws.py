"""Shared code of synthetic task distributions: range checks and their batches."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unitail.errors import require
from unitail.framework.episode import Episode
from unitail.tasks.assemble import assemble, random_order, take
from unitail.tasks.batches import Batch, BatchShape

REFERENCE_WIDTH = 8
"""Width at which the noise around a class centre has size 1."""

Law = Callable[[BatchShape, torch.Generator], tuple[Tensor, Tensor]]
"""Draws features (B, n + m, d_T) and classes (B, n + m), support first, in class order."""


@dataclass(frozen=True, eq=False)
class SyntheticBatch(Batch):
    """A batch of instances of fresh tasks drawn from a law."""

    law: Law

    def sample(self, generator: torch.Generator, shard: slice | None = None) -> Episode:
        """Draw all episodes, then select: matrices of other sizes may round differently."""
        shape, selected = self.shape, shard or slice(None)
        features, classes = self.law(shape, generator)
        order = random_order(shape.episodes, shape.num_support, shape.num_query, generator)
        order = order[selected]
        return assemble(
            take(features[selected], order),
            classes[selected].gather(1, order),
            ways=shape.ways,
            num_support=shape.num_support,
        )


def noise_size(width: int) -> float:
    """Return the size of the noise around class centres in this many dimensions.

    The squared distance of two centres grows as the width d, its error from few shots as noise² √d.
    Noise that grows as d^(1/4) balances them; otherwise wide tasks would all be trivial.
    """
    size: float = (width / REFERENCE_WIDTH) ** 0.25
    return size


def check_sizes(**sizes: Sequence[int]) -> None:
    """Raise if a sequence is empty or has a number below 1."""
    for name, values in sizes.items():
        valid = bool(values) and min(values) >= 1
        require(valid, name, got=values, allowed="one or more numbers of 1 or more")


def check_range(name: str, ends: tuple[float, float]) -> None:
    """Raise unless the ends form a range of positive numbers."""
    valid = len(ends) == 2 and 0 < ends[0] <= ends[1] < math.inf
    require(valid, name, got=ends, allowed="two numbers, 0 < least <= greatest")
