"""What meta-training minimises."""

import torch.nn.functional as F
from torch import Tensor

from unitail.framework.episode import Query


def query_loss(scores: Tensor, query: Query) -> Tensor:
    """Return the empirical risk on the queries, as cross-entropy (paper, 4.3): (B, m, K) -> ()."""
    assert query.class_indices is not None, "training queries have labels"
    return F.cross_entropy(scores.flatten(0, 1), query.class_indices.flatten())
