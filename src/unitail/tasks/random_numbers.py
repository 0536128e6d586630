"""Random numbers: one for a whole batch, drawn on the host, or one for each episode."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


class RangeLaw(StrEnum):
    """How integers are drawn from a range."""

    UNIFORM = "uniform"
    """All integers are equally likely."""
    LOGARITHMIC = "logarithmic"
    """All orders of magnitude are."""


def draw_between(
    bounds: tuple[int, int], generator: torch.Generator, law: RangeLaw = RangeLaw.UNIFORM
) -> int:
    """Draw an integer, both bounds included."""
    low, high = bounds
    if law is RangeLaw.UNIFORM:
        return int(torch.randint(low, high + 1, (), generator=generator, device=generator.device))
    return min(high, int(low * ((high + 1) / low) ** draw_uniform(generator)))


def draw_uniform(generator: torch.Generator) -> float:
    """Draw a number between 0 and 1."""
    return float(torch.rand((), generator=generator, device=generator.device))


def choose(weights: Sequence[float], generator: torch.Generator) -> int:
    """Draw an index with probabilities proportional to the weights."""
    law = torch.tensor(weights, dtype=torch.float64, device=generator.device)
    return int(torch.multinomial(law, 1, generator=generator))


def pick(values: Sequence[T], generator: torch.Generator) -> T:
    """Draw one of some values."""
    return values[draw_between((0, len(values) - 1), generator)]


@dataclass(frozen=True)
class PerEpisode:
    """Random numbers for each of B episodes, on the device of the generator."""

    episodes: int
    generator: torch.Generator

    def normal(self, rows: int, columns: int) -> Tensor:
        """Draw (B, rows, columns)."""
        shape, device = (self.episodes, rows, columns), self.generator.device
        return torch.randn(shape, generator=self.generator, device=device)

    def spread(self, rows: int, columns: int) -> Tensor:
        """Draw numbers between 0 and 1, (B, rows, columns)."""
        shape, device = (self.episodes, rows, columns), self.generator.device
        return torch.rand(shape, generator=self.generator, device=device)

    def uniform(self, ends: tuple[float, float]) -> Tensor:
        """Draw a number for each episode, (B, 1, 1)."""
        shape, device = (self.episodes, 1, 1), self.generator.device
        low, high = ends
        return low + (high - low) * torch.rand(shape, generator=self.generator, device=device)

    def log_uniform(self, ends: tuple[float, float]) -> Tensor:
        """Draw a number for each episode, all orders of magnitude alike: (B, 1, 1)."""
        return self.uniform((math.log(ends[0]), math.log(ends[1]))).exp()
