"""A meta-trained model as a learner: the model, a seed, and an average over draws."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unitail.configuration import require
from unitail.framework.checks import check_finite
from unitail.framework.episode import Support
from unitail.framework.learner import Paradigm
from unitail.nn.episode_model import AnyModel
from unitail.nn.visibility import Visibility
from unitail.randomness import stream

TOKENS_AT_ONCE = 2**15
"""Queries are answered so many tokens at a time, if no chunk size is given."""


@dataclass(frozen=True, eq=False)
class InContextHypothesis:
    """f_S: a support set read once under each draw; it answers any number of queries."""

    model: AnyModel
    reads: tuple[Any, ...]
    """What the model made of the support under each draw."""
    chunk_size: int | None

    @torch.no_grad()
    def __call__(self, query_features: Tensor) -> Tensor:
        """Average the class probabilities over the draws: (B, m, d_T) -> log (B, m, K)."""
        support = self.reads[0].support
        features = query_features.to(support.features.device, support.features.dtype)
        check_finite(features, "query")
        isolated = self.reads[0].visibility.isolates_queries
        chunk = self._chunk(support) if isolated else None
        answers = [self.model.answer(read, features, chunk) for read in self.reads]
        log_probabilities = torch.stack(answers).log_softmax(dim=-1)
        return log_probabilities.logsumexp(dim=0) - math.log(len(answers))

    def _chunk(self, support: Support) -> int:
        """Return how many queries of each episode are answered at once."""
        tokens = support.num_episodes * self.model.tokens_per_query(support.num_support)
        return self.chunk_size or max(1, TOKENS_AT_ONCE // tokens)


class InContextLearner:
    """The learning algorithm that emerges from a meta-trained model.

    `fit` draws (pi, rho) `num_draws` times from `seed` and reads the support under each; the
    hypothesis averages the probabilities. The same seed and support give the same hypothesis on the
    same kind of device; the draws of an episode depend on its place in the batch.
    `visibility` says who sees whom, if not as the model has it.
    Queries are answered `chunk_size` of each episode at a time, or as many as memory allows, where
    the model isolates them; where it does not, an answer depends on what else is asked in the same
    call.
    """

    paradigm = Paradigm.IMPLICIT

    def __init__(
        self,
        model: AnyModel,
        *,
        num_draws: int = 1,
        seed: int = 0,
        chunk_size: int | None = None,
        visibility: Visibility | None = None,
    ) -> None:
        require(num_draws >= 1, "num_draws", got=num_draws, allowed="1 or more")
        fine = chunk_size is None or chunk_size >= 1
        require(fine, "chunk_size", got=chunk_size, allowed="1 or more, or None")
        self.model = model
        self.num_draws = num_draws
        self.seed = seed
        self.chunk_size = chunk_size
        self.visibility = visibility

    @torch.no_grad()
    def fit(self, support: Support) -> InContextHypothesis:
        """Read the support under each draw, on the model's device."""
        device = self.model.device
        support = support.to(device)
        support.check_values()
        generator = stream(self.seed, "draws", device=device)
        reads = tuple(
            self.model.read(support, self.model.draw(support, generator), self.visibility)
            for _ in range(self.num_draws)
        )
        return InContextHypothesis(self.model, reads, self.chunk_size)

    def with_seed(self, seed: int) -> "InContextLearner":
        """Return the same learner with other draws; measurements take other ones each time."""
        return InContextLearner(
            self.model,
            num_draws=self.num_draws,
            seed=seed,
            chunk_size=self.chunk_size,
            visibility=self.visibility,
        )

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        """Answer queries given the support: log-probabilities (B, m, K)."""
        return self.fit(support)(query_features)
