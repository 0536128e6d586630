"""Answers for classes that come more or less often than in the support.

By Bayes p(k | x) is proportional to p(x | k) s_k if classes come as in the support, with shares
s_k, and to p(x | k) π_k if they come with probabilities π_k. The same p(x | k) stands in both, so
log p(k | x) + log(π_k / s_k), normalised again, is the answer under the prior π.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def with_prior(answers: Tensor, class_indices: NDArray[np.int64], prior: Tensor | None) -> Tensor:
    """Move answers (B, m, K) from the classes' shares in supports (B, n) to a prior (K,)."""
    if prior is None:
        return answers
    shares = torch.from_numpy(np.stack([np.bincount(each) for each in class_indices]))
    offsets = prior.log() - (shares / class_indices.shape[1]).log()
    adjusted: Tensor = answers.double() + offsets.unsqueeze(1).to(answers.device)
    return adjusted
