"""The base class of networks with projected features and a slot per class: TAIL and baselines.

All of their randomness is a value, the `Draw` for a batch of episodes.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor

from unitail.errors import DrawMismatch, TooManyClasses, require
from unitail.framework.episode import Support
from unitail.nn.episode_model import EpisodeModel, FeatureScale, Normalisation, Visibility
from unitail.nn.random_projection import Projection
from unitail.randomness import random_injections

Memory = TypeVar("Memory")


class SlotConfig(Protocol):
    """A configuration with slots for classes."""

    @property
    def max_ways(self) -> int:
        """M, the number of slots for classes."""
        ...

    @property
    def max_support(self) -> int | None:
        """Largest number of support examples, or None without a limit."""
        ...

    @property
    def num_layers(self) -> int:
        """Number of layers, each of which has weights of its own."""
        ...

    @property
    def normalisation(self) -> Normalisation:
        """How features are scaled before the projection."""
        ...


class Projections(Protocol):
    """A distribution that projections pi are drawn from."""

    @property
    def projected_dim(self) -> int:
        """d_data, the output width of projections."""
        ...

    def draw(self, episodes: int, feature_dim: int, generator: torch.Generator) -> Projection:
        """Draw a projection for each of `episodes` episodes of width `feature_dim`."""
        ...


@dataclass(frozen=True, eq=False)
class Draw:
    """(pi, rho) for each episode of a batch; given a draw, a model is deterministic."""

    projection: Projection
    """pi, features into R^d_data."""
    injection: Tensor
    """rho, the dictionary slot of each class: (B, K)."""

    def select(self, episodes: slice) -> Self:
        """Return the draw of some episodes of the batch, for one of several processes."""
        return type(self)(self.projection.select(episodes), self.injection[episodes])

    def to(self, device: torch.device | str) -> Self:
        """Move to a device."""
        return type(self)(self.projection.to(device), self.injection.to(device))

    def check_fits(self, support: Support, projected_dim: int) -> None:
        """Refuse a support of another shape, or a model with another d_data."""
        if self.projection.projected_dim != projected_dim:
            raise DrawMismatch(
                "the draw was made for another model",
                got=f"a projection to width {self.projection.projected_dim}",
                allowed=f"the model's projected_dim, {projected_dim}",
            )
        for what, made_for, got in (
            ("feature width", self.projection.feature_dim, support.feature_dim),
            ("number of classes", self.injection.shape[1], support.ways),
            ("number of episodes", self.injection.shape[0], support.num_episodes),
        ):
            if made_for != got:
                raise DrawMismatch(
                    f"the draw was made for another {what}",
                    got=f"a support with {got}",
                    allowed=f"{made_for}, as the draw was made for",
                )


@dataclass(frozen=True, eq=False)
class ReadSlots(Generic[Memory]):
    """A support set after it was read by a model with slots."""

    support: Support
    visibility: Visibility
    draw: Draw
    scale: FeatureScale
    memory: Memory


class SlotModel(EpisodeModel[Draw, ReadSlots[Memory]], Generic[Memory]):
    """A model of features that are normalised by the support's statistics and projected by pi.

    rho maps the K classes to K of M slots. A subclass reads the support into a memory (`remember`),
    and scores all slots for queries (`score_slots`); answers are a softmax over the K in use.
    """

    config: SlotConfig

    def __init__(self, config: SlotConfig, projections: Projections) -> None:
        super().__init__()
        self.config = config
        self.projections = projections

    @abstractmethod
    def remember(self, features: Tensor, slots: Tensor, visibility: Visibility) -> Memory:
        """Read support features (B, n, d_data) and slots (B, n), as far as no query is needed."""

    @abstractmethod
    def score_slots(self, memory: Memory, queries: Tensor) -> Tensor:
        """Score all slots for queries (B, m, d_data): (B, m, M)."""

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

        `active_slots` limits rho to the first slots, for a dictionary that grows in training.
        """
        size = self.config.max_ways
        slots = size if active_slots is None else active_slots
        require(slots <= size, "active_slots", got=slots, allowed=f"at most {size}")
        return Draw(
            injection=draw_injections(episodes, ways, slots, generator),
            projection=self.projections.draw(episodes, feature_dim, generator),
        )

    def preconditioner(self, chunks: Sequence[Tensor]) -> FeatureScale | None:
        """Return the support's scale, if the model normalises by it anyway."""
        if self.config.normalisation is Normalisation.NONE:
            return None
        return FeatureScale.of_chunks(chunks, self.config.normalisation)

    def _read(self, support: Support, draw: Draw, visibility: Visibility) -> ReadSlots[Memory]:
        draw.check_fits(support, self.projections.projected_dim)
        width = self.projections.projected_dim
        scale = FeatureScale.of(support.features, self.config.normalisation, width)
        features = self._project(support.features, scale, draw)  # (B, n, d_data)
        slots = draw.injection.gather(1, support.class_indices)  # rho(y), (B, n)
        memory = self.remember(features, slots, visibility)
        return ReadSlots(support, visibility, draw, scale, memory)

    def _answer(self, read: ReadSlots[Memory], query_features: Tensor) -> Tensor:
        queries = self._project(query_features, read.scale, read.draw)  # (B, m, d_data)
        return class_scores(self.score_slots(read.memory, queries), read.draw.injection)

    def _project(self, features: Tensor, scale: FeatureScale, draw: Draw) -> Tensor:
        """Scale in the dtype of the features, then convert to that of the model."""
        return draw.projection(scale(features)).to(next(self.parameters()).dtype)


def draw_injections(
    episodes: int, ways: int, active_slots: int, generator: torch.Generator
) -> Tensor:
    """Draw rho, a uniform injection of the K classes into the first `active_slots`: (B, K) slots.

    A dictionary grows during training by an increase of `active_slots`.
    """
    if ways > active_slots:
        raise TooManyClasses(
            "the task has more classes than the model has slots",
            got=f"{ways} classes",
            allowed=f"at most {active_slots}",
        )
    return random_injections(episodes, ways, active_slots, generator)


def class_scores(slot_scores: Tensor, injection: Tensor) -> Tensor:
    """Psi: select s_rho(y), the scores of the slots in use: (B, m, M), (B, K) -> (B, m, K)."""
    slots = injection.unsqueeze(1).expand(-1, slot_scores.shape[1], -1)
    return slot_scores.gather(2, slots)


def in_working_precision(tokens: Tensor) -> Tensor:
    """Convert tokens to autocast's dtype where autocast is on.

    The residual stream, or states that grow by concatenation, then stay in the shorter dtype, which
    halves the memory traffic between matrix products. Features have been normalised before.
    """
    # `is_autocast_enabled` fails on the meta device. (`is_autocast_available` would detect this,
    # but some versions of torch.compile cannot trace it.)
    device = tokens.device.type
    if not tokens.is_meta and torch.is_autocast_enabled(device):
        return tokens.to(torch.get_autocast_dtype(device))
    return tokens
