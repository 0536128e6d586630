"""Where episodes come from: a source chooses batches, and a batch samples itself.

The shape of a batch is drawn on the host: it never waits for the device, nor depends on how many
processes share the batch.
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
    """How the queries of an episode are shared out among its classes."""

    BALANCED = "balanced"
    """The same number of each class: the paper's choice."""
    RANDOM = "random"
    """Shares drawn anew for each episode from a Dirichlet distribution."""
    ABSENT = "absent"
    """Half of the classes, rounded down and drawn anew, have no query; all others are alike."""


@dataclass(frozen=True, kw_only=True)
class BatchShape:
    """The shape that all episodes of a batch have, and how many they are."""

    source: str
    """Where the episodes come from, for messages."""
    feature_dim: int
    """d_T."""
    ways: int
    """K."""
    shots: int
    """N, the labelled examples of each class."""
    queries: int
    """Queries of each class, on average."""
    episodes: int
    """B, in all processes together."""
    query_shares: QueryShares = QueryShares.BALANCED
    """How the queries are shared out among the classes."""
    concentration: float = 1.0
    """Of the Dirichlet distribution of random shares."""

    @property
    def num_support(self) -> int:
        """n, the labelled examples in each episode."""
        return self.ways * self.shots

    @property
    def num_query(self) -> int:
        """m, the questions in each episode."""
        return self.ways * self.queries

    def shard(self, rank: int, processes: int) -> slice:
        """Return the episodes that belong to process `rank` of all."""
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
    """The shapes of episodes that training draws from."""

    ways: tuple[int, int]
    """Least and most classes of an episode; each batch draws a number between them."""
    shots: tuple[int, int]
    """Least and most labelled examples of a class, likewise."""
    queries: int
    """Queries of each class, on average."""
    tokens: int
    """A batch holds as many episodes as fit into this many support and query tokens."""
    multiple: int = 8
    """The episodes of a batch are a multiple of this, which the number of processes divides."""
    query_shares: QueryShares = QueryShares.BALANCED
    """How the queries are shared out among the classes."""
    concentration: float = 1.0
    """Of the Dirichlet distribution of random shares; the smaller, the more unequal."""
    concentrations: tuple[float, ...] = ()
    """If there are any, each batch draws one of these instead: at 0.1 most classes are absent."""
    balanced: float = 0.0
    """Where `query_shares` is random: the share of the batches that are balanced nevertheless."""
    spread: RangeLaw = RangeLaw.UNIFORM
    """How ways and shots are drawn from their ranges."""

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
        """Return the ranges that hold one shape only, and batches of this many episodes."""
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
        """Draw the ways, at most `max_ways`, and take as many episodes as the tokens allow.

        There are fewer shots where all classes together would have more than `max_support`.
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
    """Refuse to draw none of something."""
    for what, got in (("episodes", episodes), ("shots", shots), ("queries", queries)):
        if got < 1:
            raise UserError(f"{what} are too few", got=got, allowed="1 or more")


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
