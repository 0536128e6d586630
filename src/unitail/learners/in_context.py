"""A meta-trained model as a learner: the road from rows to answers, and an average over draws.

How much is worked on at once is decided here alone: a model says how many numbers some work keeps
in memory (`EpisodeModel.work`), and queries that do not fit are answered in chunks, which change
speed and memory, not answers.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from unitail.errors import InvalidConfig
from unitail.framework.episode import Support, check_finite
from unitail.framework.learner import Paradigm
from unitail.nn.episode_model import AnyModel, EpisodeDraw, FeatureScale, Visibility
from unitail.randomness import stream

MAX_NUMBERS = 2**25
"""Numbers in memory at once: 256 MB in double precision."""
MAX_ROWS = 4096
"""Queries that are answered at once, however small the model: they take memory themselves."""
SLOPES = 4
"""How many times the memory of an answer its slopes take."""
MAX_STATES = 2**21
"""Support rows times classes that are read at all: 2 to 6 GB with the shipped model."""


@dataclass(frozen=True, eq=False)
class Entrance:
    """How features of a support, and of all queries to it, enter a model."""

    device: torch.device
    dtype: torch.dtype
    scale: FeatureScale | None
    """What is done to them before; None where they enter as they are."""

    @classmethod
    def of(cls, model: AnyModel, support: Support) -> "Entrance":
        """Let the support decide."""
        weights = next(model.parameters())
        # Networks in half precision normalise features themselves, and need them better than that.
        dtype = torch.promote_types(weights.dtype, torch.float32)
        # The support and the model decide, never the queries: all rows take the same way, whatever
        # dtype they come in. In double precision nothing is lost and nothing needs a change.
        scale = None if dtype == torch.float64 else model.preconditioner(support)
        return cls(weights.device, dtype, scale)

    def __call__(self, features: Tensor, name: str) -> Tensor:
        """Scale in the precision that features and scale have, then enter the model's own."""
        check_finite(features, name)
        if self.scale is not None:  # what is scaled has an end that every dtype can hold
            return self.scale(features.to(self.scale.centre.device)).to(self.device, self.dtype)
        entered = features.to(self.device, self.dtype)
        if entered.dtype != features.dtype:
            check_finite(entered, name)  # beyond the range of single precision
        return entered


@dataclass(frozen=True, eq=False)
class InContextHypothesis:
    """f_S: a support set read once under each draw; it answers any number of queries."""

    model: AnyModel
    reads: tuple[Any, ...]
    """What the model made of the support under each draw."""
    enter: Entrance
    chunk_size: int | None
    num_read: int
    """The rows that queries look at: the support, and the pool where there is one."""

    @torch.no_grad()
    def __call__(self, query_features: Tensor) -> Tensor:
        """Average the class probabilities over the draws: (B, m, d_T) -> log (B, m, K)."""
        chunks = torch.split(query_features, self._chunk_size(query_features), dim=1)
        return torch.cat([self._answer(chunk) for chunk in chunks], dim=1)

    @torch.no_grad()
    def contributions(self, query_features: Tensor, classes: Tensor) -> Tensor:
        """Say what each labelled row adds to the scores of classes (B, m): (B, m, n).

        Over several draws it is the mean.
        """
        size = max(1, self._chunk_size(query_features) // SLOPES)
        pair = (query_features, classes)
        chunks = zip(*(torch.split(each, size, dim=1) for each in pair), strict=True)
        return torch.cat([self._contributions(*chunk) for chunk in chunks], dim=1)

    def _contributions(self, query_features: Tensor, classes: Tensor) -> Tensor:
        features = self.enter(query_features, "query")
        classes = classes.to(features.device)
        each = [self.model.contributions(read, features, classes).values for read in self.reads]
        return torch.stack(each).mean(dim=0)

    def _answer(self, query_features: Tensor) -> Tensor:
        features = self.enter(query_features, "query")
        answers = torch.stack([self.model.answer(read, features) for read in self.reads])
        return answers.log_softmax(dim=-1).logsumexp(dim=0) - math.log(len(self.reads))

    def _chunk_size(self, query_features: Tensor) -> int:
        """Return how many queries of each episode are answered at once."""
        support = self.reads[0].support
        if not self.reads[0].visibility.isolates_queries:
            return query_features.shape[1]
        return self.chunk_size or queries_at_once(
            self.model, self.num_read, support.ways, episodes=support.num_episodes
        )


class InContextLearner:
    """The learning algorithm that emerges from a meta-trained model.

    `fit` draws (pi, rho) `num_draws` times from `seed` and reads the support under each; the
    hypothesis averages the probabilities. The same seed and support give the same hypothesis on the
    same kind of device; the draws of an episode depend on its place in the batch.

    Features may have any floating-point dtype, support and queries each its own, and lie on any
    device: both are scaled and brought to the model in one way, which the support decides.

    `visibility` says who sees whom, if not as the model has it; anything that the network can
    compute is allowed, trained for or not. Queries are answered `chunk_size` of each episode at a
    time, or as many as memory allows, where they are isolated; where they are not, an answer
    depends on what else is asked in the same call.
    """

    def __init__(
        self,
        model: AnyModel,
        *,
        num_draws: int = 1,
        seed: int = 0,
        chunk_size: int | None = None,
        visibility: Visibility | None = None,
    ) -> None:
        if num_draws < 1:
            raise InvalidConfig("num_draws is out of range", got=num_draws, allowed="1 or more")
        if chunk_size is not None and chunk_size < 1:
            raise InvalidConfig(
                "chunk_size is out of range", got=chunk_size, allowed="1 or more, or None"
            )
        self.model = model
        self.num_draws = num_draws
        self.seed = seed
        self.chunk_size = chunk_size
        self.visibility = visibility

    @property
    def paradigm(self) -> Paradigm:
        """What the model says of itself."""
        return self.model.paradigm

    @torch.no_grad()
    def fit(self, support: Support, pool: Tensor | None = None) -> InContextHypothesis:
        """Read the support under each draw, on the model's device.

        `pool` (B, u, d_T) are unlabelled rows that are read with it, for models that take such:
        every query is then answered from both, and still by itself.
        """
        enter = Entrance.of(self.model, support)
        pool = None if pool is None else enter(pool, "pool")
        support = replace(
            support,
            features=enter(support.features, "support"),
            class_indices=support.class_indices.to(self.model.device),
        )
        support.check_classes()
        draws = self._draws(support)
        reads = tuple(self.model.read(support, draw, self.visibility, pool) for draw in draws)
        num_read = support.num_support + (0 if pool is None else pool.shape[1])
        return InContextHypothesis(self.model, reads, enter, self.chunk_size, num_read)

    def _draws(self, support: Support) -> list[EpisodeDraw]:
        """Draw as often as was asked; a model that is not random is read once."""
        if self.model.only_draw is not None:
            return [self.model.only_draw]
        generator = stream(self.seed, "draws", device=self.model.device)
        return [self.model.draw(support, generator) for _ in range(self.num_draws)]

    def with_seed(self, seed: int) -> "InContextLearner":
        """Return the same learner with other draws; measurements take other ones each time."""
        return InContextLearner(
            self.model,
            num_draws=self.num_draws,
            seed=seed,
            chunk_size=self.chunk_size,
            visibility=self.visibility,
        )

    def infer(self, support: Support, query_features: Tensor, pool: Tensor | None = None) -> Tensor:
        """Answer queries given the support, and a pool: log-probabilities (B, m, K)."""
        return self.fit(support, pool)(query_features)


def queries_at_once(model: AnyModel, num_support: int, ways: int, *, episodes: int = 1) -> int:
    """Return how many isolated queries of each episode are answered together."""
    each = episodes * model.work(num_support, 1, ways)
    return max(1, min(MAX_ROWS, MAX_NUMBERS // each))


def episodes_at_once(model: AnyModel, num_support: int, num_query: int, ways: int) -> int:
    """Return how many episodes are read and answered together."""
    rows = num_support + num_query
    return max(1, MAX_NUMBERS // model.work(rows, rows, ways))
