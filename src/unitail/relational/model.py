"""The relational model: reads a support once and answers queries from it.

An example enters only through its relations to the others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unitail.framework.episode import Support
from unitail.framework.learner import Paradigm
from unitail.nn.episode_model import (
    EpisodeModel,
    FeatureScale,
    NoDraw,
    Normalisation,
    ShardUnit,
    Visibility,
    at_least_float32,
)
from unitail.nn.transformer import initialise_linear
from unitail.randomness import stream
from unitail.relational.block import EVERY_CLASS, ClassList, FusedBlock, LayerCache
from unitail.relational.class_lists import FewClasses, most_promising
from unitail.relational.config import VISIBILITIES, RelationalConfig
from unitail.relational.influence import contributions
from unitail.relational.joint_share import joint_share, share_by_size
from unitail.relational.regressions import (
    NUM_CANDIDATES,
    NUM_OPERATORS,
    CandidateWeights,
    are_many,
    constants,
)
from unitail.relational.relations import Frame, LabelFreeFit, Relations, relate
from unitail.relational.weighing import Weighing

UNKNOWN_DEVIATION = 0.5
"""Standard deviation at initialisation of the state that queries start from."""

MAX_ORIGIN_DISTANCE = 1e3
"""Largest distance of the origin from the mean, in units of the features' scale. Seen from farther
away, all features would lie in one direction."""

LISTED, MIN_LISTED_SHOTS = 32, 4
"""Where classes are many, labelled rows have states for this many of them only, if classes have
this many labelled rows on average; with two, lists cost half a point of accuracy in 150 classes."""


@dataclass(frozen=True, eq=False)
class Seen:
    """The examples that tokens may attend to; the first n of them are labelled."""

    frame: Frame
    labels: Tensor
    """One-hot, (B, n, K)."""
    size: Tensor
    """Embedding of the size of the episode, for the blocks: (B, context_dim)."""
    weights: CandidateWeights
    """Weights of the candidates in the first answer, and the strength of its correction."""
    layers: tuple[LayerCache, ...] = ()
    """Caches of all blocks, or of the first ones."""

    def list_classes(self, relations: Relations) -> ClassList:
        """Choose the classes for which each example has a state; all examples must be labelled."""
        rows, ways = self.labels.shape[1:]
        if not are_many(rows, ways) or rows < MIN_LISTED_SHOTS * ways:
            return EVERY_CLASS
        classes = self.labels.argmax(dim=2)
        near = relations.nearest(classes, ways)
        scores = most_promising(self.weights.first_answer(relations.candidates), near)
        return FewClasses.best(scores, LISTED, classes)


@dataclass(frozen=True, eq=False)
class ReadRelations:
    """A support set after it was read, or, for joint queries, one that is to be read with them."""

    support: Support
    visibility: Visibility
    seen: Seen | None = None
    pooled: bool = False
    """Whether a pool was read with it, which also uses the blocks for joint answers."""
    isolated: "ReadRelations | None" = None
    """The support read by itself, where joint answers yield to isolated ones."""
    joint_share: Tensor | None = None
    """Weight of joint answers against isolated ones, (B, 1, 1)."""

    def blend(self, isolated: Tensor, joint: Tensor) -> Tensor:
        """Interpolate between isolated and joint values (B, m, any) by `joint_share`."""
        assert self.joint_share is not None
        return torch.lerp(isolated, joint, self.joint_share.to(joint))


class Relational(EpisodeModel[NoDraw, ReadRelations]):
    """A state for every example and class, updated through relations between features.

    The first answer combines regressions, weighted by the task's own evidence. The state of example
    i and class k starts from whether i has the label k (for queries: unknown), passes through the
    blocks, and becomes a score that corrects the first answer. Answers are therefore

    - invariant to any positive scale of the features, at any width;
    - invariant to orthogonal changes of coordinates, where coordinates have no limit;
    - invariant to shifts, where angles at the origin do not count;
    - equivariant to renaming classes: all are treated alike, and no table limits their number;
    - invariant to the order of the support.
    """

    config: RelationalConfig
    paradigm = Paradigm.MIXED  # scores are added to those of regressions
    visibilities = VISIBILITIES
    takes_pool = True
    takes_large_supports = True
    compare = staticmethod(LabelFreeFit.of)
    """Computes the label-free part of a fit; a subclass or an instance may cache it."""

    def __init__(self, config: RelationalConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        width = config.channels
        self.label = nn.Linear(1, width)
        self.unknown = nn.Parameter(torch.empty(width))
        self.size = nn.Linear(4, config.context_dim)  # the inputs of `embed_size`
        self.blocks = nn.ModuleList(FusedBlock(config) for _ in range(config.layers))
        self.joint_blocks = nn.ModuleList(FusedBlock(config) for _ in range(config.joint_layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 1)
        self.weighing = Weighing(config.weighing_dim)
        self._initialise(stream(seed, "weights"))

    @property
    def visibility(self) -> Visibility:
        """The visibility that is used by default."""
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
    ) -> NoDraw:
        """Return the only draw, as nothing is random."""
        return self.only_draw

    @property
    def only_draw(self) -> NoDraw:
        """The empty draw."""
        return NoDraw()

    @property
    def trained_for(self) -> tuple[Visibility, ...]:
        """The default visibility first. Without a record of training, joint layers imply both."""
        if self.trained_visibilities:
            return super().trained_for
        both = self.visibilities if self.config.joint_layers else ()
        return (self.visibility, *(each for each in both if each is not self.visibility))

    def preconditioner(self, chunks: Sequence[Tensor]) -> FeatureScale:
        """Return the support's scale, which keeps the origin where angles at the origin count."""
        scale = FeatureScale.of_chunks(chunks, Normalisation.SUPPORT)
        keep = self.config.angles_from_origin
        return scale.keeping_origin(MAX_ORIGIN_DISTANCE) if keep else scale

    def work(self, num_support: int, num_query: int, ways: int) -> int:
        """Count the relations of pairs of rows, and the activations per row and class."""
        config = self.config
        pair = config.relations + NUM_OPERATORS + 2 * config.heads
        state = 3 * config.channels + 2 * config.mlp_dim + 2 * NUM_CANDIDATES
        return num_query * (num_support * pair + ways * state)

    def _read(self, support: Support, draw: NoDraw, visibility: Visibility) -> ReadRelations:
        if visibility.isolates_queries:
            return self._read_isolated(support)
        return self._with_isolated(ReadRelations(support, visibility))

    def _read_isolated(self, support: Support) -> ReadRelations:
        seen, relations = self._relate(support, support.features)
        class_list = seen.list_classes(relations)
        states = self.label_states(class_list.to_states(seen.labels))
        *stack, last = self.stack()
        if stack:  # for speed: initial states depend on the label alone
            tokens = self.label_states(constants([1, 0], self.unknown))  # own class, any other
            first = stack[0].cache_two_states(tokens, seen.labels, seen.size)
            seen = replace(seen, layers=(first,))
        states, layers = self._run_blocks(states, stack, relations, seen, class_list)
        # After the last block the support's states are not needed, so it only fills its cache.
        last_layer = last.cache(states, seen.labels, seen.size, class_list)
        seen = replace(seen, layers=(*layers, last_layer))
        return ReadRelations(support, Visibility.ISOLATED, seen)

    def _read_pool(self, support: Support, draw: NoDraw, pool: Tensor) -> ReadRelations:
        """Read support and pool together, like a support and joint queries."""
        if self._share_by_size(support) == 0:
            return self._read_isolated(support)
        features = torch.cat([at_least_float32(x) for x in (support.features, pool)], dim=1)
        seen, relations = self._relate(support, features)
        states = self._initial_states(seen.labels, pool.shape[1])
        *stack, last = self.stack(jointly=True)
        states, layers = self._run_blocks(states, stack, relations, seen)
        seen = replace(seen, layers=(*layers, last.cache(states, seen.labels, seen.size)))
        pooled = ReadRelations(support, Visibility.ISOLATED, seen, pooled=True)
        return self._with_isolated(pooled)

    def _with_isolated(self, read: ReadRelations) -> ReadRelations:
        """Also read the support by itself, if joint answers may yield to isolated ones."""
        share = self._share_by_size(read.support)
        if share == 1:
            return read
        isolated = self._read_isolated(read.support)
        if share == 0:
            return isolated
        assert isolated.seen is not None
        return replace(read, isolated=isolated, joint_share=joint_share(isolated.seen.frame))

    def _share_by_size(self, support: Support) -> float | None:
        """Return the weight of joint answers where it depends on no labelled row, else None."""
        size = support.num_support, support.ways, support.feature_dim
        return share_by_size(*size) if self.config.joint_yields else 1.0

    def _answer(self, read: ReadRelations, query_features: Tensor) -> Tensor:
        scores = self._answer_from(read, query_features)
        if read.isolated is None:
            return scores
        return read.blend(self._answer_from(read.isolated, query_features), scores)

    def _answer_from(self, read: ReadRelations, query_features: Tensor) -> Tensor:
        if read.seen is not None:
            seen, stack, num_seen = read.seen, self.stack(jointly=read.pooled), 0
            relations = seen.frame.relate(query_features).to(self.unknown.dtype)
        else:
            stack, num_seen = self.stack(jointly=True), read.support.num_support
            features = [at_least_float32(x) for x in (read.support.features, query_features)]
            seen, relations = self._relate(read.support, torch.cat(features, dim=1))
        states = self._initial_states(seen.labels[:, :num_seen], query_features.shape[1])
        states, _ = self._run_blocks(states, stack, relations, seen)
        candidates = relations.candidates[:, :, num_seen:]
        return self._scores(states[:, num_seen:], candidates, seen.weights)

    def _contributions(self, read: ReadRelations, queries: Tensor, classes: Tensor) -> Tensor:
        joint = self._contributions_from(read, queries, classes)
        if read.isolated is None:
            return joint
        return read.blend(self._contributions_from(read.isolated, queries, classes), joint)

    def _contributions_from(self, read: ReadRelations, queries: Tensor, classes: Tensor) -> Tensor:
        seen = read.seen
        assert seen is not None, "contributions are for isolated queries"
        relations = seen.frame.relate(queries).to(self.unknown.dtype)
        z = self._initial_states(seen.labels[:, :0], queries.shape[1])
        stack, zeros = self.stack(jointly=read.pooled), torch.zeros_like(relations.candidates)

        def correct(seen_scale: Tensor) -> Tensor:
            states, _ = self._run_blocks(
                z, stack, replace(relations, seen_scale=seen_scale.to(z)), seen
            )
            return self._scores(states, zeros, seen.weights)

        return contributions(seen.frame, seen.weights, queries, classes, correct)

    def _relate(self, support: Support, features: Tensor) -> tuple[Seen, Relations]:
        """Relate the seen vectors (B, t, d_T), the support first, to each other.

        This needs at least single precision, so autocast is off.
        """
        n, ways = support.num_support, support.ways
        labels = F.one_hot(support.class_indices, ways)
        with torch.autocast(features.device.type, enabled=False):
            settings = self.config.geometry
            frame, relations = relate(features, labels, settings, compare=self.compare)
        missing = frame.regressions.missing
        weights = self.weighing(frame.evidence, n / ways, ways, missing=missing)
        size = self.embed_size(n, ways, features.shape[1] - n).expand(support.num_episodes, -1)
        seen = Seen(frame, labels.to(self.unknown.dtype), size, weights)
        return seen, relations.to(self.unknown.dtype)

    def _initial_states(self, labels: Tensor, queries: int) -> Tensor:
        """Return the states before any block: (B, n + queries, K, width).

        The first rows have labels (B, n, K), the others are queries.
        """
        unknown = self.unknown.expand(len(labels), queries, labels.shape[2], -1)
        return (
            torch.cat([self.label_states(labels), unknown], dim=1) if labels.shape[1] else unknown
        )

    def label_states(self, labels: Tensor) -> Tensor:
        """Return the initial states of labelled rows, from their labels."""
        states: Tensor = self.label(labels.unsqueeze(-1))
        return states

    def embed_size(self, num_support: int, ways: int, seen_queries: int) -> Tensor:
        """Return an embedding of the size of an episode, for the blocks: (context_dim,)."""
        numbers = (num_support, ways, num_support / ways, 1 + seen_queries)
        embedding: Tensor = self.size(constants([math.log(each) for each in numbers], self.unknown))
        return embedding

    def _run_blocks(
        self,
        states: Tensor,
        stack: Sequence[FusedBlock],
        relations: Relations,
        seen: Seen,
        class_list: ClassList = EVERY_CLASS,
    ) -> tuple[Tensor, list[LayerCache]]:
        """Pass states (B, rows, K, width) through blocks; return them and the cache of each block.

        States attend to the caches in `seen`; in blocks without one, to each other.
        """
        layers: list[LayerCache] = []
        for block, cache in zip_longest(stack, seen.layers):
            layers.append(cache or block.cache(states, seen.labels, seen.size, class_list))
            states = block.update(states, layers[-1], relations, class_list)
        return states, layers

    def _scores(self, states: Tensor, candidates: Tensor, weights: CandidateWeights) -> Tensor:
        """Add the correction from final states (B, m, K, width) to the first answer: (B, m, K)."""
        return weights.first_answer(candidates) + weights.strength * self.correction(states)

    def correction(self, states: Tensor) -> Tensor:
        """Return the correction of scores from final states (..., width)."""
        correction: Tensor = self.head(self.norm(states)).squeeze(-1)
        return correction

    def stack(self, *, jointly: bool = False) -> list[FusedBlock]:
        """Return the blocks in order, with those for joint answers before the last."""
        *first, last = self.blocks  # a slice of a `ModuleList` would build another one
        further = self.joint_blocks if jointly else ()
        return cast("list[FusedBlock]", [*first, *further, last])

    def _initialise(self, generator: torch.Generator) -> None:
        initialise_linear(self.label, generator)
        nn.init.normal_(self.unknown, std=UNKNOWN_DEVIATION, generator=generator)
        initialise_linear(self.size, generator)
        blocks = self.stack(jointly=True)
        for block in blocks:
            block.initialise(generator, len(blocks))
        initialise_linear(self.head, generator)
        self.weighing.initialise(generator)
