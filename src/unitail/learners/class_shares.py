r"""Answers where one knows how often each class occurs: as a prior, or among the queries.

By Bayes p(k | x) is proportional to p(x | k) s_k if classes come as in the support, with shares
s_k, and to p(x | k) π_k if they come with probabilities π_k. The same p(x | k) stands in both, so
log p(k | x) + log(π_k / s_k), normalised again, is the answer under the prior π.

If it is known that exactly a share s_k of the m queries of one call is of class k, the answers
nearest to the learner's p_ik (least relative entropy) that agree are

    q_ik = softmax_k(log p_ik + b_k)    with b such that sum_i q_ik = m s_k,

found by Sinkhorn's iteration: b_k takes on what class k has too little, until nothing changes. Like
all that lets queries inform each other, this makes an answer depend on what else is asked.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unitail.framework.episode import Support
from unitail.framework.learner import Inference, Paradigm, reseeded

MAX_ITERATIONS = 200
TOLERANCE = 1e-6
"""Offsets that move by less than this stay."""


def prior_offsets(class_indices: NDArray[np.int64], prior: Tensor) -> Tensor:
    """Return what leads from the classes' shares in supports (B, n) to a prior (K,): (B, K)."""
    shares = torch.from_numpy(np.stack([np.bincount(each) for each in class_indices]))
    offsets: Tensor = prior.log() - (shares / class_indices.shape[1]).log()
    return offsets


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
