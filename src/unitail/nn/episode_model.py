"""What all meta-trained networks have in common: support first, queries second, nothing random."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from unitail.configuration import require
from unitail.errors import InvalidConfig, TooManyExamples, UserError
from unitail.framework.episode import Episode, Support, check_query_fits
from unitail.nn.sharding import ShardUnit
from unitail.nn.visibility import Visibility


class ModelConfig(Protocol):
    """Everything that decides which function a model computes, but for its weights."""

    @property
    def most_ways(self) -> int | None:
        """The most classes that the model can tell apart, if there is a limit."""
        ...

    @property
    def most_support(self) -> int | None:
        """The most examples that the model can read, if there is a limit."""
        ...


class EpisodeDraw(Protocol):
    """All the randomness of a batch of episodes, as a value."""

    def part(self, episodes: slice) -> Self:
        """Keep some episodes of the batch, as one of several processes does."""
        ...

    def to(self, device: torch.device | str) -> Self:
        """Move to a device."""
        ...


class ReadEpisodes(Protocol):
    """A support set after it was read: all that is needed to answer any number of queries."""

    @property
    def support(self) -> Support:
        """What was read."""
        ...

    @property
    def visibility(self) -> Visibility:
        """Who will see whom."""
        ...


Drawn = TypeVar("Drawn", bound=EpisodeDraw)
Read = TypeVar("Read", bound=ReadEpisodes)


class EpisodeModel(nn.Module, ABC, Generic[Drawn, Read]):
    """g_theta(S, x), deterministic given a draw."""

    config: ModelConfig
    visibilities: ClassVar[tuple[Visibility, ...]] = (Visibility.ISOLATED,)
    """Who may see whom in this kind of model."""

    @abstractmethod
    def draw_for(
        self,
        *,
        episodes: int,
        ways: int,
        feature_dim: int,
        generator: torch.Generator,
        active_slots: int | None = None,
    ) -> Drawn:
        """Draw for episodes of these sizes, on the generator's device.

        `active_slots` restricts models with slots for classes to the first of them.
        """

    @abstractmethod
    def _read(self, support: Support, draw: Drawn, visibility: Visibility) -> Read:
        """Read a support that was checked."""

    @abstractmethod
    def _answer(self, read: Read, query_features: Tensor) -> Tensor:
        """Score the classes for queries (B, m, d_T) that were checked: (B, m, K)."""

    @property
    def visibility(self) -> Visibility:
        """Who sees whom if nothing else is asked for."""
        return Visibility.ISOLATED

    @property
    def weights_may_idle(self) -> bool:
        """Whether some weights are for some visibilities only."""
        return False

    def shard_units(self) -> Sequence[ShardUnit]:
        """Return the layers that several processes may hold in shards, each gathered when used."""
        return ()

    def tokens_per_query(self, num_support: int) -> int:
        """Count the tokens that the network reads for one more query."""
        return 1

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def draw(self, support: Support, generator: torch.Generator) -> Drawn:
        """Draw for each episode of `support`, on the generator's device."""
        return self.draw_for(
            episodes=support.num_episodes,
            ways=support.ways,
            feature_dim=support.feature_dim,
            generator=generator,
        )

    def forward(
        self, episode: Episode, draw: Drawn, visibility: Visibility | None = None
    ) -> Tensor:
        """Score the classes for all queries of a batch of episodes: (B, m, K)."""
        return self.answer(self.read(episode.support, draw, visibility), episode.query.features)

    def read(self, support: Support, draw: Drawn, visibility: Visibility | None = None) -> Read:
        """Read a support set once, as far as the visibility allows without the queries."""
        most = self.config.most_support
        if most is not None and support.num_support > most:
            raise TooManyExamples(
                "the support has more examples than the model can read",
                got=f"{support.num_support} examples",
                allowed=f"at most {most}",
            )
        visibility = visibility or self.visibility
        if visibility not in self.visibilities:
            raise InvalidConfig(
                "the model has not this visibility",
                got=visibility,
                allowed=", ".join(self.visibilities),
            )
        return self._read(support, draw, visibility)

    def answer(self, read: Read, query_features: Tensor, chunk_size: int | None = None) -> Tensor:
        """Score the classes for queries (B, m, d_T), `chunk_size` at a time: (B, m, K)."""
        check_query_fits(read.support, query_features)
        if chunk_size is None:
            return self._answer(read, query_features)
        if not read.visibility.isolates_queries:
            raise UserError(
                "queries that see each other cannot be answered in chunks",
                got=f"chunk_size={chunk_size} with visibility '{read.visibility}'",
                allowed="chunk_size=None, or visibility 'isolated'",
            )
        require(chunk_size >= 1, "chunk_size", got=chunk_size, allowed="1 or more")
        chunks = torch.split(query_features, chunk_size, dim=1)
        return torch.cat([self._answer(read, chunk) for chunk in chunks], dim=1)


AnyModel = EpisodeModel[Any, Any]
"""A model of whatever kind."""
