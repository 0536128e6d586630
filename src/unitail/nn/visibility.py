"""Who sees whom: one named policy, stored with every model."""

from enum import StrEnum

import torch
from torch import Tensor


class Visibility(StrEnum):
    """Which tokens a token may look at. The sequence is the n support tokens, then the m queries.

    The paper writes g(S, x) with one query, yet puts all queries into one sequence; these are the
    readings of that, and they are different learners.
    """

    ISOLATED = "isolated"
    """A support token sees the support; a query sees the support and itself. g(S, x), exactly."""
    JOINT = "joint"
    """Every token sees every token: an answer depends on the other queries (transduction)."""
    CAUSAL = "causal"
    """A token sees itself and what precedes it: the paper's ablation."""

    @property
    def isolates_queries(self) -> bool:
        """Whether an answer is the same whatever else is asked."""
        return self is Visibility.ISOLATED

    def matrix(self, num_support: int, num_query: int) -> Tensor:
        """Return the definition: (n + m, n + m), true where the row's token sees the column's.

        The network never builds this matrix (it is quadratic in m); tests hold it to it.
        """
        size = num_support + num_query
        if self is Visibility.JOINT:
            return torch.ones(size, size, dtype=torch.bool)
        if self is Visibility.CAUSAL:
            return torch.ones(size, size, dtype=torch.bool).tril()
        sees_support = (torch.arange(size) < num_support).expand(size, size)
        return sees_support | torch.eye(size, dtype=torch.bool)
