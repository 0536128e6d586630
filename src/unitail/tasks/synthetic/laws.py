"""What laws of synthetic tasks have in common: checks of their ranges, and draws from them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unitail.configuration import require
from unitail.framework.episode import Episode
from unitail.tasks.assemble import assemble, random_order
from unitail.tasks.shapes import BatchPlan, draw_between


def check_sizes(**sizes: Sequence[int]) -> None:
    """Refuse choices that are none, or have one below 1."""
    for name, values in sizes.items():
        fine = bool(values) and min(values) >= 1
        require(fine, name, got=values, allowed="one or more numbers of 1 or more")


def check_range(name: str, ends: tuple[float, float]) -> None:
    """Refuse what is no range of positive numbers."""
    fine = len(ends) == 2 and 0 < ends[0] <= ends[1] < math.inf
    require(fine, name, got=ends, allowed="two numbers, 0 < least <= greatest")


def pick(values: Sequence[int], generator: torch.Generator) -> int:
    """Draw one of some numbers."""
    return values[draw_between((0, len(values) - 1), generator)]


@dataclass(frozen=True)
class Draws:
    """Random numbers for each of B episodes, on the device of the generator."""

    episodes: int
    generator: torch.Generator

    def normal(self, rows: int, columns: int) -> Tensor:
        """Draw (B, rows, columns)."""
        shape, device = (self.episodes, rows, columns), self.generator.device
        return torch.randn(shape, generator=self.generator, device=device)

    def uniform(self, ends: tuple[float, float]) -> Tensor:
        """Draw a number for each episode, (B, 1, 1)."""
        shape, device = (self.episodes, 1, 1), self.generator.device
        low, high = ends
        return low + (high - low) * torch.rand(shape, generator=self.generator, device=device)

    def log_uniform(self, ends: tuple[float, float]) -> Tensor:
        """Draw a number for each episode, all orders of magnitude alike: (B, 1, 1)."""
        return self.uniform((math.log(ends[0]), math.log(ends[1]))).exp()


def episodes_of(
    plan: BatchPlan,
    features: Tensor,
    classes: Tensor,
    generator: torch.Generator,
    part: slice | None,
) -> Episode:
    """Build a part of the episodes from all features (B, n + m, d_T) and classes (B, n + m).

    All are drawn and computed before, since products of other sizes may round in another way.
    Support and queries are put in random order.
    """
    own = part or slice(None)
    order = random_order(plan.episodes, plan.num_support, plan.num_query, generator)[own]
    places = order.unsqueeze(2).expand(-1, -1, features.shape[2])
    return assemble(
        features[own].gather(1, places),
        classes[own].gather(1, order),
        ways=plan.ways,
        num_support=plan.num_support,
    )
