"""The relational model, and what it keeps of a support that was read.

What an example is depends only on how it relates to the others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unitail.framework.episode import Support
from unitail.framework.learner import Paradigm
from unitail.nn.episode_model import (
    Contributions,
    EpisodeModel,
    FeatureScale,
    Normalisation,
    ShardUnit,
    Visibility,
    at_least_float32,
)
from unitail.nn.projection import Projection, ProjectionKind, ProjectionLaw, WidthReduction
from unitail.nn.transformer import initialise_linear
from unitail.randomness import stream
from unitail.relational.block import EVERY_CLASS, ClassList, FusedBlock, Kept
from unitail.relational.class_lists import Few, most_hopeful
from unitail.relational.config import VISIBILITIES, FeaturesAs, RelationalConfig
from unitail.relational.influence import contributions
from unitail.relational.joint_share import joint_share, never_yields
from unitail.relational.regressions import NUM_CANDIDATES, NUM_OPERATORS, are_many, constants
from unitail.relational.relations import Among, Frame, Relations, relate
from unitail.relational.weighing import Weighing, Weights

UNKNOWN_DEVIATION = 0.5
"""Of the state that queries start from, before training."""

MAX_ORIGIN_DISTANCE = 1e3
"""In spreads of the features: from there on all of them lie in one direction."""

LISTED, MIN_LISTED_SHOTS = 32, 4
"""Where classes are many, labelled rows have states for this many of them, if classes have this
many labelled rows, on average; with two, lists cost half a point in 150 classes."""


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
class Seen:
    """The examples that are looked at; the first n of them are labelled."""

    frame: Frame
    labels: Tensor
    """One-hot, (B, n, K)."""
    size: Tensor
    """What blocks are told of the size of the episode: (B, context_dim)."""
    weights: Weights
    """How the first answer is made, and how far it may be corrected."""
    layers: tuple[Kept, ...] = ()
    """What the first blocks have kept of them, or all."""

    def list_classes(self, relations: Relations) -> ClassList:
        """Choose the classes that each has a state for, if all are labelled."""
        rows, ways = self.labels.shape[1:]
        if not are_many(rows, ways) or rows < MIN_LISTED_SHOTS * ways:
            return EVERY_CLASS
        classes = self.labels.argmax(dim=2)
        near = relations.nearest(classes, ways)
        hopes = most_hopeful(self.weights.first_answer(relations.candidates), near)
        return Few.best(hopes, LISTED, classes)


@dataclass(frozen=True, eq=False)
class ReadRelations:
    """A support set after it was read; if queries are to be seen too, it waits for them."""

    support: Support
    visibility: Visibility
    draw: RelationalDraw
    seen: Seen | None = None
    pooled: bool = False
    """Whether unlabelled rows were read with it, through the blocks for joint answers too."""
    alone: "ReadRelations | None" = None
    """The support read by itself, where joint answers yield to isolated ones."""
    joint_share: Tensor | None = None
    """How far what is said from more than the support counts beside that, (B, 1, 1)."""

    def weigh(self, alone: Tensor, joint: Tensor) -> Tensor:
        """Weigh what is said from the support by itself, and from more: (B, m, any)."""
        assert self.joint_share is not None
        return torch.lerp(alone, joint, self.joint_share.to(joint))


class Relational(EpisodeModel[RelationalDraw, ReadRelations]):
    """A state for every example and class, updated through relations between features.

    The first answer is that of regressions, weighed by the task's own evidence. The state of
    example i and class k starts from whether i has the label k (for queries: unknown), passes
    through the blocks, and is read off as a score that corrects the first answer. Answers are
    therefore

    - the same under any positive scale of the features, whatever the width;
    - the same under any orthogonal change of their coordinates, where features enter through
      relations alone and coordinates have no limit; and under any shift, where angles from the
      origin do not count;
    - renamed when classes are renamed: all classes are treated alike, and there is no table of
      them that could be too short;
    - the same in any order of the support.
    """

    config: RelationalConfig
    paradigm = Paradigm.MIXED  # scores are added to those of regressions
    visibilities = VISIBILITIES
    takes_pool = True
    compare = staticmethod(Among.of)
    """How all that is seen is compared; a model that is asked again and again may keep it."""

    def __init__(self, config: RelationalConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        width = config.channels
        self.label = nn.Linear(1, width)
        self.unknown = nn.Parameter(torch.empty(width))
        self.size = nn.Linear(4, config.context_dim)  # the numbers of `tell_size`
        self.blocks = nn.ModuleList(FusedBlock(config) for _ in range(config.layers))
        self.joint_blocks = nn.ModuleList(FusedBlock(config) for _ in range(config.joint_layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 1)
        self.weighing = Weighing(config.weighing_dim)
        self.law = ProjectionLaw(
            kind=ProjectionKind.PERMUTATION,
            reduction=WidthReduction.ORTHONORMAL,
            projected_dim=config.projected_dim,
        )
        both = config.features_as is FeaturesAs.BOTH
        self.entry = nn.Linear(config.projected_dim, width) if both else None
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
        return self.stack(jointly=True)

    def draw_for(
        self, *, episodes: int, ways: int, feature_dim: int, generator: torch.Generator
    ) -> RelationalDraw:
        """Draw pi, or nothing."""
        nothing = self.only_draw
        return nothing or RelationalDraw(self.law.draw(episodes, feature_dim, generator))

    @property
    def only_draw(self) -> RelationalDraw | None:
        """Nothing, where features are no tokens."""
        return RelationalDraw() if self.entry is None else None

    @property
    def trained_for(self) -> tuple[Visibility, ...]:
        """Return its own way first; if nothing is said, one with joint layers answers in both."""
        if self.trained_visibilities:
            return super().trained_for
        both = self.visibilities if self.config.joint_layers else ()
        return (self.visibility, *(each for each in both if each is not self.visibility))

    def preconditioner(self, support: Support) -> FeatureScale:
        """Return the support's scale; where angles from the origin count, it stays in sight."""
        scale, origin = FeatureScale.of(support.features, Normalisation.SUPPORT), self.config
        return scale.keeping_origin(MAX_ORIGIN_DISTANCE) if origin.angles_from_origin else scale

    def work(self, num_support: int, num_query: int, ways: int) -> int:
        """Count relations of each pair of rows, and what a block makes of each row and class."""
        config = self.config
        pair = config.relations + NUM_OPERATORS + 2 * config.heads
        state = 3 * config.channels + 2 * config.mlp_dim + 2 * NUM_CANDIDATES
        return num_query * (num_support * pair + ways * state)

    def _read(
        self, support: Support, draw: RelationalDraw, visibility: Visibility
    ) -> ReadRelations:
        if not visibility.isolates_queries:
            return self._beside_alone(ReadRelations(support, visibility, draw))
        seen, relations = self._look(support, support.features)
        listed = seen.list_classes(relations)
        vectors = seen.frame.geometry.vectors
        states = self._first_states(listed.take(seen.labels), vectors, draw)
        *stack, last = self.stack()
        if stack and self.entry is None:  # at first, all tokens of a class are alike
            tokens = self.known(constants([1, 0], self.unknown))  # of its own class, of any other
            first = stack[0].keep_alike(tokens, seen.labels, seen.size)
            seen = replace(seen, layers=(first,))
        states, layers = self._run(states, stack, relations, seen, listed)
        kept = last.keep(states, seen.labels, seen.size, listed)  # the support goes no further
        return ReadRelations(support, visibility, draw, replace(seen, layers=(*layers, kept)))

    def _read_pool(self, support: Support, draw: RelationalDraw, pool: Tensor) -> ReadRelations:
        """Let support and pool see each other as support and joint queries do."""
        features = torch.cat([at_least_float32(x) for x in (support.features, pool)], dim=1)
        seen, relations = self._look(support, features)
        states = self._first_states(seen.labels, seen.frame.geometry.vectors, draw)
        *stack, last = self.stack(jointly=True)
        states, layers = self._run(states, stack, relations, seen)
        seen = replace(seen, layers=(*layers, last.keep(states, seen.labels, seen.size)))
        pooled = ReadRelations(support, Visibility.ISOLATED, draw, seen, pooled=True)
        return self._beside_alone(pooled)

    def _beside_alone(self, read: ReadRelations) -> ReadRelations:
        """Read the support by itself, too, if answers from more than it may yield to that."""
        support = read.support
        size = support.num_support, support.ways, support.features.shape[2]
        if not self.config.joint_yields or never_yields(*size):
            return read
        alone = self._read(support, read.draw, Visibility.ISOLATED)
        assert alone.seen is not None
        return replace(read, alone=alone, joint_share=joint_share(alone.seen.frame))

    def _answer(self, read: ReadRelations, query_features: Tensor) -> Tensor:
        scores = self._answer_as_read(read, query_features)
        if read.alone is None:
            return scores
        return read.weigh(self._answer_as_read(read.alone, query_features), scores)

    def _answer_as_read(self, read: ReadRelations, query_features: Tensor) -> Tensor:
        if read.seen is not None:
            seen, stack, num_seen = read.seen, self.stack(jointly=read.pooled), 0
            relations = seen.frame.relate(query_features).to(self.unknown.dtype)
            # Where features are no tokens, only the number of vectors counts.
            vectors = seen.frame.geometry.place(query_features) if self.entry else query_features
        else:
            stack, num_seen = self.stack(jointly=True), read.support.num_support
            features = [at_least_float32(x) for x in (read.support.features, query_features)]
            seen, relations = self._look(read.support, torch.cat(features, dim=1))
            vectors = seen.frame.geometry.vectors
        states = self._first_states(seen.labels[:, :num_seen], vectors, read.draw)
        states, _ = self._run(states, stack, relations, seen)
        candidates = relations.candidates[:, :, num_seen:]
        return self._scores(states[:, num_seen:], candidates, seen.weights)

    def _contributions(
        self, read: ReadRelations, queries: Tensor, classes: Tensor
    ) -> Contributions:
        said = self._contributions_as_read(read, queries, classes)
        if read.alone is None:
            return said
        alone = self._contributions_as_read(read.alone, queries, classes)
        score = read.weigh(alone.score.unsqueeze(2), said.score.unsqueeze(2)).squeeze(2)
        return Contributions(read.weigh(alone.values, said.values), score)

    def _contributions_as_read(
        self, read: ReadRelations, queries: Tensor, classes: Tensor
    ) -> Contributions:
        seen = read.seen
        assert seen is not None, "it is asked for isolated queries"
        relations = seen.frame.relate(queries).to(self.unknown.dtype)
        vectors = seen.frame.geometry.place(queries) if self.entry else queries
        z = self._first_states(seen.labels[:, :0], vectors, read.draw)
        stack, nothing = self.stack(jointly=read.pooled), torch.zeros_like(relations.candidates)

        def correct(heard: Tensor) -> Tensor:
            states, _ = self._run(z, stack, replace(relations, heard=heard.to(z)), seen)
            return self._scores(states, nothing, seen.weights)

        return contributions(seen.frame, seen.weights, queries, classes, correct)

    def _look(self, support: Support, features: Tensor) -> tuple[Seen, Relations]:
        """Relate all that is seen, (B, t, d_T) with the support first, to each other.

        That is done in at least single precision, whatever the network works in.
        """
        n, ways = support.num_support, support.ways
        labels = F.one_hot(support.class_indices, ways)
        with torch.autocast(features.device.type, enabled=False):
            origin, limit = self.config.angles_from_origin, self.config.coordinate_limit
            frame, relations = relate(
                features, labels, origin=origin, limit=limit, compare=self.compare
            )
        missing = frame.regressions.missing
        weights = self.weighing(frame.evidence, n / ways, ways, missing=missing)
        size = self.tell_size(n, ways, features.shape[1] - n).expand(support.num_episodes, -1)
        seen = Seen(frame, labels.to(self.unknown.dtype), size, weights)
        return seen, relations.to(self.unknown.dtype)

    def _first_states(self, labels: Tensor, vectors: Tensor, draw: RelationalDraw) -> Tensor:
        """Return what is known before any block: (B, rows, K, width).

        The first rows are labelled, (B, n, K), the others are queries. Where features are tokens
        too, the scaled vectors (B, rows, d_T) are added, alike for all classes.
        """
        known, queries = labels.shape[1], vectors.shape[1] - labels.shape[1]
        unknown = self.unknown.expand(len(labels), queries, labels.shape[2], -1)
        states = torch.cat([self.known(labels), unknown], dim=1) if known else unknown
        if self.entry is None or draw.projection is None:
            return states
        tokens: Tensor = self.entry(draw.projection(vectors).to(self.unknown.dtype))
        return states + tokens.unsqueeze(2)

    def known(self, labels: Tensor) -> Tensor:
        """Return the first states of rows whose labels are known."""
        known: Tensor = self.label(labels.unsqueeze(-1))
        return known

    def tell_size(self, num_support: int, ways: int, seen_queries: int) -> Tensor:
        """Tell blocks how large an episode is: (context_dim,)."""
        numbers = (num_support, ways, num_support / ways, 1 + seen_queries)
        told: Tensor = self.size(constants([math.log(each) for each in numbers], self.unknown))
        return told

    def _run(
        self,
        states: Tensor,
        stack: Sequence[FusedBlock],
        relations: Relations,
        seen: Seen,
        listed: ClassList = EVERY_CLASS,
    ) -> tuple[Tensor, list[Kept]]:
        """Pass states (B, rows, K, width) through blocks; return what each kept of the seen, too.

        They look at what is kept of the seen already; in further blocks, at each other.
        """
        layers: list[Kept] = []
        for block, kept in zip_longest(stack, seen.layers):
            layers.append(kept or block.keep(states, seen.labels, seen.size, listed))
            states = block.update(states, layers[-1], relations, listed)
        return states, layers

    def _scores(self, states: Tensor, candidates: Tensor, weights: Weights) -> Tensor:
        """Correct the first answer by what the final states (B, m, K, width) say: (B, m, K)."""
        return weights.first_answer(candidates) + weights.strength * self.read_off(states)

    def read_off(self, states: Tensor) -> Tensor:
        """Return the correction that final states (..., width) say."""
        correction: Tensor = self.head(self.norm(states)).squeeze(-1)
        return correction

    def stack(self, *, jointly: bool = False) -> list[FusedBlock]:
        """Return the blocks in order, with those for joint answers before the last."""
        further = self.joint_blocks if jointly else ()
        return cast("list[FusedBlock]", [*self.blocks[:-1], *further, self.blocks[-1]])

    def _initialise(self, generator: torch.Generator) -> None:
        initialise_linear(self.label, generator)
        nn.init.normal_(self.unknown, std=UNKNOWN_DEVIATION, generator=generator)
        initialise_linear(self.size, generator)
        blocks = self.stack(jointly=True)
        for block in blocks:
            block.initialise(generator, len(blocks))
        initialise_linear(self.head, generator)
        self.weighing.initialise(generator)
        if self.entry is not None:
            initialise_linear(self.entry, generator)
