"""Interfaces of episode sources: a source chooses a batch, and the batch samples its episodes.

The shape of a batch is drawn on the host, so it never waits for the device and does not depend on
how many processes share the batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, Self, runtime_checkable

import torch

from unitail.configuration import require_at_least
from unitail.errors import UserError, require
from unitail.framework.episode import Episode
from unitail.randomness import RangeLaw, choose, draw_between, draw_uniform, pick


class QueryShares(StrEnum):
    """How the queries of an episode are distributed over its classes."""

    BALANCED = "balanced"
    """The same number for each class: the paper's choice."""
    RANDOM = "random"
    """Shares drawn from a Dirichlet distribution for each episode."""
    ABSENT = "absent"
    """A random half of the classes (rounded down) has no queries; the others have equal shares."""


@dataclass(frozen=True, kw_only=True)
class BatchShape:
    """The number of episodes in a batch, and the shape they all have."""

    source: str
    """Name of the episode source, for messages."""
    feature_dim: int
    """d_T."""
    ways: int
    """K."""
    shots: int
    """N, the labelled examples of each class."""
    queries: int
    """Queries of each class, on average."""
    episodes: int
    """B, over all processes."""
    query_shares: QueryShares = QueryShares.BALANCED
    """How the queries are distributed over the classes."""
    concentration: float = 1.0
    """Concentration of the Dirichlet distribution of random shares."""

    @property
    def num_support(self) -> int:
        """n, the labelled examples in each episode."""
        return self.ways * self.shots

    @property
    def num_query(self) -> int:
        """m, the queries in each episode."""
        return self.ways * self.queries

    def shard(self, rank: int, processes: int) -> slice:
        """Return the slice of the batch's episodes that process `rank` handles."""
        if self.episodes % processes:
            raise UserError(
                "the episodes of a batch cannot be shared out evenly",
                got=f"{self.episodes} episodes for {processes} processes",
                allowed="a number of processes that divides the episodes",
                remedy="Set `multiple` of the episodes to a multiple of the processes.",
            )
        count = self.episodes // processes
        return slice(rank * count, (rank + 1) * count)


@dataclass(frozen=True, kw_only=True)
class EpisodeRanges:
    """The ranges of episode shapes that training draws from."""

    ways: tuple[int, int]
    """Smallest and largest number of classes of an episode; drawn for each batch."""
    shots: tuple[int, int]
    """Smallest and largest number of labelled examples per class; drawn for each batch."""
    queries: int
    """Queries of each class, on average."""
    tokens: int
    """Token budget of a batch: it holds as many episodes as fit (support and query tokens)."""
    multiple: int = 8
    """The number of episodes is a multiple of this, which the number of processes must divide."""
    query_shares: QueryShares = QueryShares.BALANCED
    """How the queries are distributed over the classes."""
    concentration: float = 1.0
    """Concentration of the Dirichlet distribution of random shares; smaller is more unequal."""
    concentrations: tuple[float, ...] = ()
    """If not empty, each batch draws its concentration from these (0.1: most classes absent)."""
    balanced: float = 0.0
    """If `query_shares` is random or absent, the fraction of batches that are balanced anyway."""
    spread: RangeLaw = RangeLaw.UNIFORM
    """Distribution of ways and shots over their ranges."""

    def __post_init__(self) -> None:
        for name, least in (("ways", 2), ("shots", 1)):
            bounds = getattr(self, name)
            require(
                len(bounds) == 2 and least <= bounds[0] <= bounds[1],
                name,
                got=bounds,
                allowed=f"[low, high] with {least} <= low <= high",
            )
        require_at_least(1, self, "queries", "tokens", "multiple")
        for name, each in (
            ("concentration", self.concentration),
            *(("concentrations", number) for number in self.concentrations),
        ):
            require(0 < each < float("inf"), name, got=each, allowed="a number above 0")
        require(0 <= self.balanced <= 1, "balanced", got=self.balanced, allowed="between 0 and 1")

    @classmethod
    def fixed(cls, *, episodes: int, ways: int, shots: int, queries: int) -> Self:
        """Return ranges with a single shape, and batches of this many episodes."""
        check_counts(episodes=episodes, shots=shots, queries=queries)
        return cls(
            ways=(ways, ways),
            shots=(shots, shots),
            queries=queries,
            tokens=episodes * ways * (shots + queries),
            multiple=1,
        )

    @property
    def one_shape(self) -> bool:
        """Whether all episodes have the same ways and shots."""
        return self.ways[0] == self.ways[1] and self.shots[0] == self.shots[1]

    def draw_shots(self, generator: torch.Generator) -> int:
        """Draw the shots of a batch."""
        return draw_between(self.shots, generator, self.spread)

    def draw_shape(
        self,
        generator: torch.Generator,
        *,
        shots: int,
        source: str,
        feature_dim: int,
        max_ways: int | None = None,
        max_support: int | None = None,
    ) -> BatchShape:
        """Draw the ways, at most `max_ways`, and fit as many episodes as the token budget allows.

        Shots are reduced if the support would otherwise exceed `max_support` examples.
        """
        low, high = self.ways
        highest = high if max_ways is None else min(high, max_ways)
        ways = draw_between((low, highest), generator, self.spread)
        shots = shots if max_support is None else max(1, min(shots, max_support // ways))
        fitting = self.tokens // (ways * (shots + self.queries))
        balanced = self.balanced > 0 and draw_uniform(generator) < self.balanced
        concentration = self.concentration
        if self.concentrations:
            concentration = pick(self.concentrations, generator)
        return BatchShape(
            source=source,
            feature_dim=feature_dim,
            ways=ways,
            shots=shots,
            queries=self.queries,
            episodes=max(1, fitting // self.multiple) * self.multiple,
            query_shares=QueryShares.BALANCED if balanced else self.query_shares,
            concentration=concentration,
        )


def check_counts(*, episodes: int, shots: int, queries: int) -> None:
    """Raise if any count is below 1."""
    for what, got in (("episodes", episodes), ("shots", shots), ("queries", queries)):
        if got < 1:
            raise UserError(f"{what} are too few", got=got, allowed="1 or more")


@dataclass(frozen=True, eq=False)
class Batch(ABC):
    """A batch of episodes that has a shape but has not been sampled yet."""

    shape: BatchShape

    @abstractmethod
    def sample(self, generator: torch.Generator, shard: slice | None = None) -> Episode:
        """Draw an instance of a fresh task for each episode, on the generator's device.

        Support and queries come in random order. Only the episodes in `shard` are returned. They
        do not depend on the shard, so the shards of all processes together make up the batch that
        a single process would draw. Nothing waits for the device.
        """

    def with_ways(self, ways: int) -> Self:
        """Return the same batch with another number of classes."""
        return replace(self, shape=replace(self.shape, ways=ways))


@runtime_checkable
class EpisodeSource(Protocol):
    """nu: a distribution over tasks, from which training draws batches of episodes."""

    def choose_batch(self, ranges: EpisodeRanges, generator: torch.Generator) -> Batch:
        """Choose the next batch; `generator` is on the CPU, so nothing waits for the device."""
        ...


@dataclass(frozen=True)
class MixedSource:
    """A weighted mixture of sources; each batch comes from one of them."""

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
        """Draw a source, and let it choose the batch."""
        return self.sources[choose(self.weights, generator)].choose_batch(ranges, generator)
