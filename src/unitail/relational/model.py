"""The relational model: what an example is depends only on how it relates to the others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unitail.framework.episode import Support
from unitail.nn.episode_model import EpisodeModel
from unitail.nn.normalisation import FeatureScale, Normalisation, at_least_float32
from unitail.nn.projection import Projection, ProjectionKind, ProjectionLaw, Reduction
from unitail.nn.sharding import ShardUnit
from unitail.nn.transformer import initialise_linear
from unitail.nn.visibility import Visibility
from unitail.randomness import stream
from unitail.relational.block import Kept, RelationalBlock
from unitail.relational.config import VISIBILITIES, FeaturesAs, RelationalConfig
from unitail.relational.relations import NUM_OPERATORS, Frame, Relations, relate

FIRST_GUESS = (0.0, 1.5, 1.5, 0.0, 0.0)
"""Weights of the operators in the scores before training: ridge regression, little smoothed."""

MAX_ORIGIN_DISTANCE = 1e3
"""From so many times the spread of features, all of them lie in one direction."""


@dataclass(frozen=True, eq=False)
class RelationalDraw:
    """pi, if features are tokens too; else there is nothing random."""

    projection: Projection | None = None

    def part(self, episodes: slice) -> Self:
        """Keep some episodes of the batch."""
        return type(self)(self.projection and self.projection.part(episodes))

    def to(self, device: torch.device | str) -> Self:
        """Move to a device."""
        return type(self)(self.projection and self.projection.to(device))


@dataclass(frozen=True, eq=False)
class ReadRelations:
    """A support set after it was read; if queries are to be seen, it waits for them."""

    support: Support
    visibility: Visibility
    draw: RelationalDraw
    labels: Tensor
    """One-hot, (B, n, K)."""
    frame: Frame | None = None
    layers: tuple[Kept, ...] = ()


class Relational(EpisodeModel[RelationalDraw, ReadRelations]):
    """A state for every example and class, updated through relations between features.

    The state of example i and class k starts from whether i has the label k (for queries: unknown),
    passes through the blocks, and is read off as a score, to which the operators' own answers are
    added. Answers are therefore

    - the same under any orthogonal change of the features' coordinates and any positive scale,
      whatever the width, where features enter through relations alone (the default); and under
      any shift, where angles from the origin do not count;
    - renamed when classes are renamed: all classes are treated alike, and there is no table of
      them that could be too short;
    - the same in any order of the support.
    """

    config: RelationalConfig
    visibilities = VISIBILITIES

    def __init__(self, config: RelationalConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        width = config.channels
        self.label = nn.Linear(1, width)
        self.unknown = nn.Parameter(torch.empty(width))
        self.size = nn.Linear(4, config.context_dim)
        self.blocks = nn.ModuleList(RelationalBlock(config) for _ in range(config.layers))
        self.joint_blocks = nn.ModuleList(
            RelationalBlock(config) for _ in range(config.joint_layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 1)
        self.guess = nn.Parameter(torch.tensor(FIRST_GUESS))
        self.law = ProjectionLaw(
            kind=ProjectionKind.PERMUTATION,
            reduction=Reduction.ORTHONORMAL,
            projected_dim=config.projected_dim,
        )
        both = config.features_as is FeaturesAs.BOTH
        self.entry = nn.Linear(config.projected_dim, width) if both else None
        assert len(FIRST_GUESS) == NUM_OPERATORS
        self._initialise(stream(seed, "weights"))

    @property
    def visibility(self) -> Visibility:
        """Who sees whom if nothing else is asked for."""
        return self.config.visibility

    @property
    def weights_may_idle(self) -> bool:
        """Whether there are blocks for joint answers alone."""
        return bool(self.joint_blocks)

    def shard_units(self) -> Sequence[ShardUnit]:
        """Return the blocks."""
        return self._stack(jointly=True)

    def draw_for(
        self,
        *,
        episodes: int,
        ways: int,
        feature_dim: int,
        generator: torch.Generator,
        active_slots: int | None = None,
    ) -> RelationalDraw:
        """Draw pi, or nothing."""
        if self.entry is None:
            return RelationalDraw()
        return RelationalDraw(self.law.draw(episodes, feature_dim, generator))

    @property
    def trained_for(self) -> tuple[Visibility, ...]:
        """Return the model's own way first; one with joint layers answers in both."""
        both = self.visibilities if self.config.joint_layers else ()
        return (self.visibility, *(each for each in both if each is not self.visibility))

    def preconditioner(self, support: Support) -> FeatureScale:
        """Return the support's scale; where angles from the origin count, it stays in sight."""
        scale = FeatureScale.of(support.features, Normalisation.SUPPORT)
        return (
            scale.keeping_origin(MAX_ORIGIN_DISTANCE) if self.config.angles_from_origin else scale
        )

    def work(self, num_support: int, num_query: int, ways: int) -> int:
        """Count relations of each pair of rows, and what a block makes of each row and class."""
        config = self.config
        pair = config.relations + NUM_OPERATORS + 2 * config.heads
        state = 3 * config.channels + 2 * config.mlp_dim
        return num_query * (num_support * pair + ways * state)

    def _read(
        self, support: Support, draw: RelationalDraw, visibility: Visibility
    ) -> ReadRelations:
        labels = F.one_hot(support.class_indices, support.ways).to(self.guess.dtype)
        if not visibility.isolates_queries:
            return ReadRelations(support, visibility, draw, labels)
        frame, relations = self._relate(support.features, support.num_support)
        states = self.label(labels.unsqueeze(-1))  # (B, n, K, width)
        states = states + self._coordinates(frame.places.vectors, draw)
        size = self._size(support, 0)
        layers: list[Kept] = []
        for block in self._stack():
            alike = not layers and self.entry is None  # at first, all tokens of a class are
            kept = (block.keep_alike if alike else block.keep)(states, labels, size)
            layers.append(kept)
            if len(layers) < len(self.blocks):  # after the last, nobody looks at the support
                states = block(states, kept, relations)
        return ReadRelations(support, visibility, draw, labels, frame, tuple(layers))

    def _answer(self, read: ReadRelations, query_features: Tensor) -> Tensor:
        if read.frame is None:
            return self._answer_jointly(read, query_features)
        relations = self._in_precision(read.frame.of_queries(query_features))
        states = self._unknown(query_features, read.support.ways)
        states = states + self._coordinates(read.frame.places.scale(query_features), read.draw)
        for block, kept in zip(self._stack(), read.layers, strict=True):
            states = block(states, kept, relations)
        return self._scores(states, relations.operators, read.labels)

    def _answer_jointly(self, read: ReadRelations, query_features: Tensor) -> Tensor:
        support, n = read.support, read.support.num_support
        features = [at_least_float32(each) for each in (support.features, query_features)]
        frame, relations = self._relate(torch.cat(features, dim=1), n)
        known = self.label(read.labels.unsqueeze(-1))
        states = torch.cat([known, self._unknown(query_features, support.ways)], dim=1)
        states = states + self._coordinates(frame.places.vectors, read.draw)
        size = self._size(support, query_features.shape[1])
        for block in self._stack(jointly=True):
            states = block(states, block.keep(states, read.labels, size), relations)
        return self._scores(states[:, n:], relations.operators[:, :, n:], read.labels)

    def _scores(self, states: Tensor, operators: Tensor, labels: Tensor) -> Tensor:
        """Read the scores off the final states (B, m, K, width): (B, m, K)."""
        centred = labels - 1 / labels.shape[-1]
        guess = (self.guess[:, None, None] * operators).sum(dim=1) @ centred
        scores: Tensor = self.head(self.norm(states)).squeeze(-1)
        return scores + guess

    def _relate(self, features: Tensor, num_labelled: int) -> tuple[Frame, Relations]:
        """Relate features in at least single precision, whatever the network works in."""
        with torch.autocast(features.device.type, enabled=False):
            origin = self.config.angles_from_origin
            frame, relations = relate(features, num_labelled, origin=origin)
        return frame, self._in_precision(relations)

    def _in_precision(self, relations: Relations) -> Relations:
        """Enter the precision of the model."""
        dtype = self.guess.dtype
        return Relations(relations.channels.to(dtype), relations.operators.to(dtype))

    def _unknown(self, query_features: Tensor, ways: int) -> Tensor:
        return self.unknown.expand(*query_features.shape[:2], ways, -1)

    def _coordinates(self, vectors: Tensor, draw: RelationalDraw) -> Tensor | float:
        """Turn scaled vectors into tokens, alike for all classes: (B, rows, 1, width)."""
        if self.entry is None or draw.projection is None:
            return 0.0
        tokens: Tensor = self.entry(draw.projection(vectors).to(self.guess.dtype))
        return tokens.unsqueeze(2)

    def _size(self, support: Support, seen_queries: int) -> Tensor:
        """Tell the network how many examples, classes and seen queries there are."""
        numbers = (support.num_support, support.ways, support.num_support / support.ways)
        logs = [*map(math.log, numbers), math.log1p(seen_queries)]
        size: Tensor = self.size(self.guess.new_tensor(logs))
        return size.expand(support.num_episodes, -1)

    def _stack(self, *, jointly: bool = False) -> list[RelationalBlock]:
        """Return the blocks in order, with those for joint answers before the last."""
        further = list(self.joint_blocks) if jointly else []
        return cast("list[RelationalBlock]", [*self.blocks[:-1], *further, self.blocks[-1]])

    def _initialise(self, generator: torch.Generator) -> None:
        initialise_linear(self.label, generator)
        nn.init.normal_(self.unknown, std=0.5, generator=generator)
        initialise_linear(self.size, generator)
        blocks = self._stack(jointly=True)
        for block in blocks:
            block.initialise(generator, len(blocks))
        initialise_linear(self.head, generator)
        if self.entry is not None:
            initialise_linear(self.entry, generator)
