"""What all meta-trained networks have in common: slots for classes, and randomness from outside."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from unitail.configuration import require
from unitail.errors import TooManyExamples, UserError
from unitail.framework.episode import Episode, Support, check_query_fits
from unitail.nn.draw import Draw, draw_injections
from unitail.nn.normalisation import FeatureScale, Normalisation
from unitail.nn.projection import Projection

Memory = TypeVar("Memory")


class ModelConfig(Protocol):
    """Everything that decides which function a model computes, but for its weights."""

    @property
    def most_ways(self) -> int:
        """M, the number of slots for classes."""
        ...

    @property
    def most_support(self) -> int | None:
        """The most examples that the model can read, if there is a limit."""
        ...

    @property
    def normalisation(self) -> Normalisation:
        """How features are scaled before the projection."""
        ...


class Projections(Protocol):
    """A distribution of projections pi."""

    @property
    def projected_dim(self) -> int:
        """d_data, the width that projections lead to."""
        ...

    def draw(self, episodes: int, feature_dim: int, generator: torch.Generator) -> Projection:
        """Draw a projection for each of `episodes` episodes of width `feature_dim`."""
        ...


@dataclass(frozen=True, eq=False)
class ReadSupport(Generic[Memory]):
    """A support set after it was read: all that is needed to answer any number of queries."""

    support: Support
    draw: Draw
    scale: FeatureScale
    memory: Memory


class EpisodeModel(nn.Module, ABC, Generic[Memory]):
    """g_theta(S, x), deterministic given a draw (pi, rho).

    Features are normalised by the support's statistics and projected by pi; rho sends the K classes
    to K of M slots. A model says what it remembers of the support so seen (`remember`), and how it
    scores the slots for queries (`score_slots`); the K slots in use compete.
    """

    config: ModelConfig
    projections: Projections

    def __init__(self, config: ModelConfig, projections: Projections) -> None:
        super().__init__()
        self.config = config
        self.projections = projections

    @abstractmethod
    def remember(self, features: Tensor, slots: Tensor) -> Memory:
        """Do the work on support features (B, n, d_data) and slots (B, n) that needs no query."""

    @abstractmethod
    def score_slots(self, memory: Memory, queries: Tensor) -> Tensor:
        """Score all slots for queries (B, m, d_data): (B, m, M)."""

    @property
    def isolates_queries(self) -> bool:
        """Whether an answer is the same whatever else is asked."""
        return True

    def tokens_per_query(self, num_support: int) -> int:
        """Count the tokens that the network reads for one more query."""
        return 1

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def draw(self, support: Support, generator: torch.Generator) -> Draw:
        """Draw (pi, rho) for each episode of `support`, on the generator's device."""
        return self.draw_for(
            episodes=support.num_episodes,
            ways=support.ways,
            feature_dim=support.feature_dim,
            generator=generator,
        )

    def draw_for(
        self,
        *,
        episodes: int,
        ways: int,
        feature_dim: int,
        generator: torch.Generator,
        active_slots: int | None = None,
    ) -> Draw:
        """Draw (pi, rho) for episodes of these sizes.

        `active_slots` restricts rho to the first slots, while the dictionary grows in training.
        """
        size = self.config.most_ways
        slots = size if active_slots is None else active_slots
        require(slots <= size, "active_slots", got=slots, allowed=f"at most {size}")
        return Draw(
            injection=draw_injections(episodes, ways, slots, generator),
            projection=self.projections.draw(episodes, feature_dim, generator),
        )

    def forward(self, episode: Episode, draw: Draw) -> Tensor:
        """Score the classes for all queries of a batch of episodes: (B, m, K)."""
        return self.answer(self.read(episode.support, draw), episode.query.features)

    def read(self, support: Support, draw: Draw) -> ReadSupport[Memory]:
        """Read a support set once, as far as the model can without the queries."""
        draw.check_fits(support, self.projections.projected_dim)
        self._check_size(support)
        scale = FeatureScale.of(support.features, self.config.normalisation)
        features = self._project(support.features, scale, draw)  # (B, n, d_data)
        slots = draw.injection.gather(1, support.class_indices)  # rho(y), (B, n)
        return ReadSupport(support, draw, scale, self.remember(features, slots))

    def answer(
        self, read: ReadSupport[Memory], query_features: Tensor, chunk_size: int | None = None
    ) -> Tensor:
        """Score the classes for queries (B, m, d_T), `chunk_size` at a time: (B, m, K)."""
        check_query_fits(read.support, query_features)
        if chunk_size is None:
            return self._answer(read, query_features)
        if not self.isolates_queries:
            raise UserError(
                "queries that see each other cannot be answered in chunks",
                got=f"chunk_size={chunk_size} with a model whose queries see each other",
                allowed="chunk_size=None, or visibility 'isolated'",
            )
        require(chunk_size >= 1, "chunk_size", got=chunk_size, allowed="1 or more")
        chunks = torch.split(query_features, chunk_size, dim=1)
        return torch.cat([self._answer(read, chunk) for chunk in chunks], dim=1)

    def _answer(self, read: ReadSupport[Memory], query_features: Tensor) -> Tensor:
        queries = self._project(query_features, read.scale, read.draw)  # (B, m, d_data)
        return class_scores(self.score_slots(read.memory, queries), read.draw.injection)

    def _project(self, features: Tensor, scale: FeatureScale, draw: Draw) -> Tensor:
        """Scale in the features' own precision, then enter that of the model."""
        return draw.projection(scale(features)).to(next(self.parameters()).dtype)

    def _check_size(self, support: Support) -> None:
        most = self.config.most_support
        if most is not None and support.num_support > most:
            raise TooManyExamples(
                "the support has more examples than the model can read",
                got=f"{support.num_support} examples",
                allowed=f"at most {most}",
            )


def class_scores(slot_scores: Tensor, injection: Tensor) -> Tensor:
    """Psi: pick s_rho(y), the scores of the slots in use: (B, m, M), (B, K) -> (B, m, K)."""
    slots = injection.unsqueeze(1).expand(-1, slot_scores.shape[1], -1)
    return slot_scores.gather(2, slots)
