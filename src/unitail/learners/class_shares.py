r"""Answers to queries of which one knows how often each class occurs.

A learner says p_ik of query i and class k; one knows from elsewhere that a share s_k of all m
queries is of class k. The answers nearest to the learner's (least relative entropy) that agree are

    q_ik = softmax_k(log p_ik + b_k)    with b such that sum_i q_ik = m s_k,

found by Sinkhorn's iteration: b_k takes on what class k has too little, until nothing changes. Like
all that lets queries inform each other, this makes an answer depend on what else is asked.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unitail.framework.episode import Support
from unitail.framework.learner import Inference, Paradigm, reseeded

MAX_ITERATIONS = 200
TOLERANCE = 1e-6
"""Offsets that move by less than this stay."""


def impose_shares(log_probabilities: Tensor, shares: Tensor) -> Tensor:
    """Let log-probabilities (B, m, K) agree with shares (K,) above zero that add up to one."""
    wanted = (shares * log_probabilities.shape[1]).log()
    offsets = torch.zeros_like(log_probabilities[:, :1])
    for _ in range(MAX_ITERATIONS):
        expected = (log_probabilities + offsets).log_softmax(dim=-1).logsumexp(1, keepdim=True)
        change = wanted - expected
        offsets = offsets + change
        if float(change.abs().max()) < TOLERANCE:
            break
    return (log_probabilities + offsets).log_softmax(dim=-1)


@dataclass(frozen=True)
class EqualShares:
    """A learner that is told that all classes occur equally often among the queries of a call."""

    learner: Inference

    @property
    def paradigm(self) -> Paradigm:
        """As the learner's own."""
        return self.learner.paradigm

    def with_seed(self, seed: int) -> "EqualShares":
        """Return the same with other draws, if the learner has any."""
        return EqualShares(reseeded(self.learner, seed))

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        """Answer queries given the support: log-probabilities (B, m, K)."""
        answers = self.learner.infer(support, query_features)
        shares = torch.full((support.ways,), 1 / support.ways)
        return impose_shares(answers, shares.to(answers))
