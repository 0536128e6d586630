"""From ranges of ways and shots to batches: what is drawn on the host before any episode.

The shape of a batch never waits for the device, nor depends on how many processes share it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, Self

import torch

from unitail.configuration import require
from unitail.errors import UserError
from unitail.framework.episode import Episode
from unitail.tasks.assemble import check_counts


class QueryShares(StrEnum):
    """How the queries of an episode are shared out among its classes."""

    BALANCED = "balanced"
    """The same number of each class: the paper's choice."""
    RANDOM = "random"
    """Shares drawn anew for each episode from a Dirichlet distribution."""


class Spread(StrEnum):
    """How numbers are drawn from a range."""

    UNIFORM = "uniform"
    """All numbers are equally likely."""
    LOGARITHMIC = "logarithmic"
    """All orders of magnitude are."""


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
    balanced: float = 0.0
    """The part of the batches whose queries are balanced, although shares are random."""
    spread: Spread = Spread.UNIFORM
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
        for name in ("queries", "tokens", "multiple"):
            require(getattr(self, name) >= 1, name, got=getattr(self, name), allowed="1 or more")
        _check_concentration(self.concentration)
        require(0 <= self.balanced <= 1, "balanced", got=self.balanced, allowed="between 0 and 1")

    @classmethod
    def fixed(cls, *, episodes: int, ways: int, shots: int, queries: int) -> Self:
        """Return the ranges that hold one shape only, and batches of so many episodes."""
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

    def draw_plan(
        self,
        generator: torch.Generator,
        *,
        shots: int,
        source: str,
        feature_dim: int,
        group: int = 0,
        most_ways: int | None = None,
    ) -> "BatchPlan":
        """Draw the ways, at most `most_ways`, and take as many episodes as the tokens allow."""
        low, high = self.ways
        highest = high if most_ways is None else min(high, most_ways)
        ways = draw_between((low, highest), generator, self.spread)
        fitting = self.tokens // (ways * (shots + self.queries))
        return BatchPlan(
            source=source,
            group=group,
            feature_dim=feature_dim,
            ways=ways,
            shots=shots,
            queries=self.queries,
            episodes=max(1, fitting // self.multiple) * self.multiple,
            query_shares=self._draw_query_shares(generator),
            concentration=self.concentration,
        )

    def _draw_query_shares(self, generator: torch.Generator) -> QueryShares:
        """Draw whether the queries of a batch are balanced after all."""
        if self.balanced and float(torch.rand((), generator=generator)) < self.balanced:
            return QueryShares.BALANCED
        return self.query_shares


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """What a batch of episodes will be; all of its episodes have this shape."""

    source: str
    """Where the episodes come from, for messages."""
    group: int = 0
    """Which of the source's alternatives the batch is made of."""
    route: tuple[int, ...] = ()
    """Which source of a mixture the plan is for, outermost mixture first."""
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
    inner: "BatchPlan | None" = None
    """What the source inside a wrapper is to draw, if the wrapper changes the shape."""

    def __post_init__(self) -> None:
        check_counts(episodes=self.episodes, shots=self.shots, queries=self.queries)
        if self.ways < 2:
            raise UserError("ways are too few", got=self.ways, allowed="2 or more")
        _check_concentration(self.concentration)

    @property
    def num_support(self) -> int:
        """n, the labelled examples in each episode."""
        return self.ways * self.shots

    @property
    def num_query(self) -> int:
        """m, the questions in each episode."""
        return self.ways * self.queries

    def part(self, rank: int, processes: int) -> slice:
        """Return the episodes that belong to process `rank` of so many."""
        if self.episodes % processes:
            raise UserError(
                "the episodes of a batch cannot be shared out evenly",
                got=f"{self.episodes} episodes for {processes} processes",
                allowed="a number of processes that divides the episodes",
                remedy="Set `multiple` of the episodes to a multiple of the processes.",
            )
        count = self.episodes // processes
        return slice(rank * count, (rank + 1) * count)


class EpisodeSource(Protocol):
    """nu: a distribution of tasks, from which training draws batches of episodes."""

    def plan(self, ranges: EpisodeRanges, generator: torch.Generator) -> BatchPlan:
        """Draw what the next batch will be; `generator` is on the CPU, so nothing waits."""
        ...

    def sample(
        self, plan: BatchPlan, generator: torch.Generator, part: slice | None = None
    ) -> Episode:
        """Draw an instance of a fresh task for each episode, on the device of the generator.

        Of the planned episodes only those in `part` are returned. They are the same whatever the
        other parts are, so that the parts of all processes make up the batch of a single one.
        """
        ...


@dataclass(frozen=True)
class MixedSource:
    """One of several sources for each batch, drawn with these weights."""

    sources: Sequence[EpisodeSource]
    weights: Sequence[float]

    def __post_init__(self) -> None:
        fine = len(self.weights) == len(self.sources) > 0
        allowed = f"one for each of {len(self.sources)} sources"
        require(fine, "weights", got=f"{len(self.weights)} weights", allowed=allowed)
        fine = all(0 <= weight < float("inf") for weight in self.weights) and sum(self.weights) > 0
        require(fine, "weights", got=self.weights, allowed="numbers of 0 or more, not all 0")

    def plan(self, ranges: EpisodeRanges, generator: torch.Generator) -> BatchPlan:
        """Draw a source, and let it plan."""
        chosen = choose(self.weights, generator)
        plan = self.sources[chosen].plan(ranges, generator)
        return replace(plan, route=(chosen, *plan.route))

    def sample(
        self, plan: BatchPlan, generator: torch.Generator, part: slice | None = None
    ) -> Episode:
        """Let the source that planned the batch draw it."""
        if not plan.route:
            raise UserError(
                "the plan does not say which source of the mixture it is for",
                got=f"a plan for {plan.source!r} without a route",
                allowed="a plan of this mixture",
                remedy="Plan with the mixture, or sample from the source itself.",
            )
        chosen, *rest = plan.route
        return self.sources[chosen].sample(replace(plan, route=tuple(rest)), generator, part)


def draw_between(
    bounds: tuple[int, int], generator: torch.Generator, spread: Spread = Spread.UNIFORM
) -> int:
    """Draw a whole number, both bounds included."""
    low, high = bounds
    if spread is Spread.UNIFORM:
        return int(torch.randint(low, high + 1, (), generator=generator, device=generator.device))
    share = float(torch.rand((), generator=generator, device=generator.device))
    return min(high, int(low * ((high + 1) / low) ** share))


def choose(weights: Sequence[float], generator: torch.Generator) -> int:
    """Draw an index with probabilities proportional to the weights."""
    law = torch.tensor(weights, dtype=torch.float64, device=generator.device)
    return int(torch.multinomial(law, 1, generator=generator))


def _check_concentration(concentration: float) -> None:
    fine = 0 < concentration < float("inf")
    require(fine, "concentration", got=concentration, allowed="a number above 0")
