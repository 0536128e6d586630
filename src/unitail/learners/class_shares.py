r"""Adjusting answers to known class frequencies: to a prior, or to shares among the queries.

By Bayes' rule p(k | x) is proportional to p(x | k) s_k if classes occur as in the support, with
shares s_k, and to p(x | k) π_k if they occur with probabilities π_k. As p(x | k) is the same,
log p(k | x) + log(π_k / s_k), renormalised, is the answer under the prior π.

If it is known that exactly a share s_k of the m queries of one call is of class k, the answers that
agree with it and are nearest to the learner's p_ik (in relative entropy) are

    q_ik = softmax_k(log p_ik + b_k)    with b such that sum_i q_ik = m s_k,

found by Sinkhorn's iteration: b_k grows by the log of what class k lacks, until convergence. Like
any method in which queries inform each other, this makes an answer depend on the other queries.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unitail.errors import warn_user
from unitail.framework.episode import Support
from unitail.framework.learner import Inference, Paradigm, reseeded

MAX_ITERATIONS = 200
TOLERANCE = 1e-6
"""The iteration stops when no offset changes by this much."""
MAX_MISSING = 0.5
"""Number of queries by which a class may miss its share without a warning."""


def prior_offsets(class_indices: NDArray[np.int64], prior: Tensor) -> Tensor:
    """Return log(prior / share) of the classes, for supports (B, n) and a prior (K,): (B, K)."""
    shares = torch.from_numpy(np.stack([np.bincount(each) for each in class_indices]))
    offsets: Tensor = prior.log() - (shares / class_indices.shape[1]).log()
    return offsets


def impose_shares(log_probabilities: Tensor, shares: Tensor) -> Tensor:
    """Adjust log-probabilities (B, m, K) to positive class shares (K,) that sum to one."""
    target = (shares * log_probabilities.shape[1]).log()
    offsets = torch.zeros_like(log_probabilities[:, :1])
    for _ in range(MAX_ITERATIONS):
        expected = (log_probabilities + offsets).log_softmax(dim=-1).logsumexp(1, keepdim=True)
        change = target - expected
        offsets = offsets + change
        if float(change.abs().max()) < TOLERANCE:
            break
    else:  # answers that are all but certain may need longer
        missing = float((target.exp() - expected.exp()).abs().max())
        if missing > MAX_MISSING:
            warn_user(
                "The answers miss the given class shares: one class is off by"
                f" {missing:.1f} queries."
            )
    return (log_probabilities + offsets).log_softmax(dim=-1)


@dataclass(frozen=True)
class EqualShares:
    """Adjusts a learner's answers to equal class shares among the queries of each call."""

    learner: Inference

    @property
    def paradigm(self) -> Paradigm:
        """The paradigm of the underlying learner."""
        return self.learner.paradigm

    def with_seed(self, seed: int) -> "EqualShares":
        """Return the same with the learner reseeded, if it is randomised."""
        return EqualShares(reseeded(self.learner, seed))

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        """Answer queries given the support: log-probabilities (B, m, K)."""
        answers = self.learner.infer(support, query_features)
        shares = torch.full((support.ways,), 1 / support.ways)
        return impose_shares(answers, shares.to(answers))
