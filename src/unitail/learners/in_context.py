"""A meta-trained model as a learner: scaling, chunks of queries, and the average over draws.

How many queries of a call are answered at once is decided here: a model reports how many numbers an
operation keeps in memory (`EpisodeModel.work`), and queries that do not fit are answered in chunks.
Chunks affect speed and memory, not answers. How many episodes or rows a call holds is up to the
caller, such as `evaluation/episodes.py`.
"""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from unitail.errors import InvalidConfig
from unitail.framework.episode import Support, check_finite
from unitail.framework.learner import Paradigm
from unitail.nn.episode_model import (
    GRADIENT_MEMORY,
    AnyModel,
    EpisodeDraw,
    FeatureScale,
    Visibility,
)
from unitail.randomness import stream

MAX_NUMBERS = 2**25
"""Largest count of numbers in memory at once: 256 MB in double precision."""
MAX_ROWS = 4096
"""Largest number of queries answered at once, as queries themselves take memory."""
MAX_STATES = 2**21
"""Largest number of support rows times classes: 2 to 6 GB with the shipped model."""


@dataclass(frozen=True, eq=False)
class InputConversion:
    """Scales features of a support and its queries, and converts them to the model's dtype."""

    device: torch.device
    dtype: torch.dtype
    scale: FeatureScale | None
    """Scaling applied first; None if features are used unscaled."""

    @classmethod
    def of(cls, model: AnyModel, chunks: Sequence[Tensor]) -> "InputConversion":
        """Choose dtype and scaling for a support in chunks of rows, each (B, rows, d_T)."""
        weights = next(model.parameters())
        # Networks in half precision normalise features themselves, and need them more precise.
        dtype = torch.promote_types(weights.dtype, torch.float32)
        # The support and the model decide, never the queries, so all rows are processed alike,
        # whatever their dtype. Double precision loses nothing and needs no scaling.
        scale = None if dtype == torch.float64 else model.preconditioner(chunks)
        return cls(weights.device, dtype, scale)

    def __call__(self, features: Tensor, name: str) -> Tensor:
        """Scale in the precision of the features, then convert to the model's dtype and device."""
        check_finite(features, name)
        if self.scale is not None:  # scaled values are bounded, so any dtype can represent them
            return self.scale(features.to(self.scale.centre.device)).to(self.device, self.dtype)
        converted = features.to(self.device, self.dtype)
        if converted.dtype != features.dtype:
            check_finite(converted, name)  # single precision may overflow
        return converted


@dataclass(frozen=True, eq=False)
class InContextHypothesis:
    """f_S: a support set read once under each draw; answers any number of queries."""

    model: AnyModel
    reads: tuple[Any, ...]
    """The model's reading of the support under each draw."""
    convert: InputConversion
    chunk_size: int | None
    num_read: int
    """Number of rows that queries look at: the support, and the pool if there is one."""

    @torch.no_grad()
    def __call__(self, query_features: Tensor) -> Tensor:
        """Average the class probabilities over the draws: (B, m, d_T) -> log (B, m, K)."""
        chunks = torch.split(query_features, self._chunk_size(query_features), dim=1)
        return torch.cat([self._answer(chunk) for chunk in chunks], dim=1)

    @torch.no_grad()
    def contributions(self, query_features: Tensor, classes: Tensor) -> Tensor:
        """Return each labelled row's contribution to the scores of classes (B, m): (B, m, n).

        Contributions are averaged over draws.
        """
        size = max(1, self._chunk_size(query_features) // GRADIENT_MEMORY)
        pair = (query_features, classes)
        chunks = zip(*(torch.split(tensor, size, dim=1) for tensor in pair), strict=True)
        return torch.cat([self._contributions(*chunk) for chunk in chunks], dim=1)

    def _contributions(self, query_features: Tensor, classes: Tensor) -> Tensor:
        features = self.convert(query_features, "query")
        classes = classes.to(features.device)
        values = [self.model.contributions(read, features, classes) for read in self.reads]
        return torch.stack(values).mean(dim=0)

    def _answer(self, query_features: Tensor) -> Tensor:
        features = self.convert(query_features, "query")
        answers = torch.stack([self.model.answer(read, features) for read in self.reads])
        return answers.log_softmax(dim=-1).logsumexp(dim=0) - math.log(len(self.reads))

    def _chunk_size(self, query_features: Tensor) -> int:
        """Return the number of queries of each episode that are answered at once."""
        support = self.reads[0].support
        if not self.reads[0].visibility.isolates_queries:
            return query_features.shape[1]
        return self.chunk_size or queries_at_once(
            self.model, self.num_read, support.ways, episodes=support.num_episodes
        )


@dataclass(frozen=True, eq=False)
class InContextLearner:
    """The learning algorithm that emerges from a meta-trained model.

    `fit` draws (pi, rho) `num_draws` times from `seed` and reads the support under each; the
    hypothesis averages the probabilities. The same seed and support give the same hypothesis on the
    same kind of device; the draws of an episode depend on its place in the batch.

    Features may have any floating-point dtype, support and queries each their own, and may be on
    any device: both are scaled and converted in the same way, which the support decides.
    """

    model: AnyModel
    _: KW_ONLY
    num_draws: int = 1
    seed: int = 0
    chunk_size: int | None = None
    """Number of isolated queries of each episode to answer at once; None: what memory allows."""
    visibility: Visibility | None = None
    """Replaces the model's own; anything that the network can compute is allowed, whether it was
    trained for it or not. If queries are not isolated, all queries of a call are answered together,
    and an answer depends on the others."""

    def __post_init__(self) -> None:
        if self.num_draws < 1:
            raise InvalidConfig(
                "num_draws is out of range", got=self.num_draws, allowed="1 or more"
            )
        if self.chunk_size is not None and self.chunk_size < 1:
            raise InvalidConfig(
                "chunk_size is out of range", got=self.chunk_size, allowed="1 or more, or None"
            )

    @property
    def paradigm(self) -> Paradigm:
        """The paradigm of the model."""
        return self.model.paradigm

    @torch.no_grad()
    def fit(self, support: Support, pool: Tensor | None = None) -> InContextHypothesis:
        """Read the support under each draw, on the model's device.

        `pool` (B, u, d_T) are unlabelled rows that are read with the support, for models that take
        a pool: each query is then answered from both, independently of other queries.
        """
        convert = InputConversion.of(self.model, [support.features])
        pool = None if pool is None else convert(pool, "pool")
        support = replace(
            support,
            features=convert(support.features, "support"),
            class_indices=support.class_indices.to(self.model.device),
        )
        support.check_classes()
        draws = self._draws(support)
        reads = tuple(self.model.read(support, draw, self.visibility, pool) for draw in draws)
        num_read = support.num_support + (0 if pool is None else pool.shape[1])
        return InContextHypothesis(self.model, reads, convert, self.chunk_size, num_read)

    def _draws(self, support: Support) -> list[EpisodeDraw]:
        """Return `num_draws` draws, or the only one of a model that is not random."""
        if self.model.only_draw is not None:
            return [self.model.only_draw]
        generator = stream(self.seed, "draws", device=self.model.device)
        return [self.model.draw(support, generator) for _ in range(self.num_draws)]

    def with_seed(self, seed: int) -> "InContextLearner":
        """Return the same learner with other draws; see `framework.learner.reseeded`."""
        return replace(self, seed=seed)

    def infer(self, support: Support, query_features: Tensor, pool: Tensor | None = None) -> Tensor:
        """Return log-probabilities (B, m, K) of queries, given a support and optionally a pool."""
        return self.fit(support, pool)(query_features)


def queries_at_once(model: AnyModel, num_support: int, ways: int, *, episodes: int = 1) -> int:
    """Return the number of isolated queries of each episode that are answered together."""
    per_query = episodes * model.work(num_support, 1, ways)
    return max(1, min(MAX_ROWS, MAX_NUMBERS // per_query))


def episodes_at_once(model: AnyModel, num_support: int, num_query: int, ways: int) -> int:
    """Return the number of episodes that are read and answered together."""
    rows = num_support + num_query
    return max(1, MAX_NUMBERS // model.work(rows, rows, ways))
