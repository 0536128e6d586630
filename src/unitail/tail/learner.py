"""TAIL as a learner: a trained model, a seed, and an average over draws."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unitail.configuration import require
from unitail.framework.checks import check_finite
from unitail.framework.episode import Support
from unitail.framework.learner import Paradigm
from unitail.randomness import stream
from unitail.tail.model import ReadSupport, Tail


@dataclass(frozen=True, eq=False)
class TailHypothesis:
    """f_S: a support set read once under each draw; it answers any number of queries."""

    model: Tail
    reads: tuple[ReadSupport, ...]
    chunk_size: int

    @torch.no_grad()
    def __call__(self, query_features: Tensor) -> Tensor:
        """Average the class probabilities over the draws: (B, m, d_T) -> log (B, m, K)."""
        support = self.reads[0].support.features
        features = query_features.to(support.device, support.dtype)
        check_finite(features, "query")
        isolated = self.model.config.visibility.isolates_queries
        answers = [
            self.model.answer(read, features, self.chunk_size if isolated else None)
            for read in self.reads
        ]
        log_probabilities = torch.stack(answers).log_softmax(dim=-1)
        return log_probabilities.logsumexp(dim=0) - math.log(len(answers))


class TailLearner:
    """The learning algorithm that emerges from a TAIL model.

    `fit` draws (pi, rho) `num_draws` times from `seed` and reads the support under each; the
    hypothesis averages the probabilities. The same seed and support give the same hypothesis; the
    draws of an episode depend on its place in the batch.
    Queries are answered `chunk_size` at a time, where the model's visibility isolates them; under
    other visibilities an answer depends on what else is asked in the same call.
    """

    paradigm = Paradigm.IMPLICIT

    def __init__(
        self, model: Tail, *, num_draws: int = 1, seed: int = 0, chunk_size: int = 1024
    ) -> None:
        require(num_draws >= 1, "num_draws", got=num_draws, allowed="1 or more")
        require(chunk_size >= 1, "chunk_size", got=chunk_size, allowed="1 or more")
        self.model = model
        self.num_draws = num_draws
        self.seed = seed
        self.chunk_size = chunk_size

    @torch.no_grad()
    def fit(self, support: Support) -> TailHypothesis:
        """Read the support under each draw, on the model's device."""
        device = self.model.labels.embeddings.device
        support = support.to(device)
        support.check_values()
        generator = stream(self.seed, "draws")
        reads = tuple(
            self.model.read(support, self.model.draw(support, generator).to(device))
            for _ in range(self.num_draws)
        )
        return TailHypothesis(self.model, reads, self.chunk_size)

    def with_seed(self, seed: int) -> "TailLearner":
        """Return the same learner with other draws; measurements take other ones each time."""
        return TailLearner(
            self.model, num_draws=self.num_draws, seed=seed, chunk_size=self.chunk_size
        )

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        """Answer queries given the support: log-probabilities (B, m, K)."""
        return self.fit(support)(query_features)
