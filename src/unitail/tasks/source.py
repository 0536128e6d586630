"""Where episodes come from: a source chooses batches, and a batch samples itself."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self, runtime_checkable

import torch

from unitail.configuration import require
from unitail.framework.episode import Episode
from unitail.tasks.random_numbers import choose
from unitail.tasks.shapes import BatchShape, EpisodeRanges


@dataclass(frozen=True, eq=False)
class Batch(ABC):
    """What a batch of episodes will be, before any of them is drawn."""

    shape: BatchShape

    @abstractmethod
    def sample(self, generator: torch.Generator, shard: slice | None = None) -> Episode:
        """Draw an instance of a fresh task for each episode, on the device of the generator.

        Support and queries come in random order. Only the episodes in `shard` are returned. They
        are the same whatever the others are, so that the shards of all processes make up the batch
        of a single one. Nothing waits for the device.
        """

    def with_ways(self, ways: int) -> Self:
        """Return the same batch with another number of classes."""
        return replace(self, shape=replace(self.shape, ways=ways))


@runtime_checkable
class EpisodeSource(Protocol):
    """nu: a distribution of tasks, from which training draws batches of episodes."""

    def choose_batch(self, ranges: EpisodeRanges, generator: torch.Generator) -> Batch:
        """Draw what the next batch will be; `generator` is on the CPU, so nothing waits."""
        ...


@dataclass(frozen=True)
class MixedSource:
    """One of several sources for each batch, drawn with these weights."""

    sources: Sequence[EpisodeSource]
    weights: Sequence[float]

    def __post_init__(self) -> None:
        require(
            len(self.weights) == len(self.sources) > 0,
            "weights",
            got=f"{len(self.weights)} weights",
            allowed=f"one for each of {len(self.sources)} sources",
        )
        positive = all(0 <= each < float("inf") for each in self.weights) and sum(self.weights) > 0
        require(positive, "weights", got=self.weights, allowed="numbers of 0 or more, not all 0")

    def choose_batch(self, ranges: EpisodeRanges, generator: torch.Generator) -> Batch:
        """Draw a source, and let it choose."""
        return self.sources[choose(self.weights, generator)].choose_batch(ranges, generator)
