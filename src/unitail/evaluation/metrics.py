"""How good the answers of an episode are."""

from torch import Tensor

from unitail.framework.task import zero_one_loss


def accuracy(log_probabilities: Tensor, class_indices: Tensor) -> Tensor:
    """Share of right answers in each episode: (B, m, K), (B, m) -> (B,)."""
    return 1 - zero_one_loss(log_probabilities, class_indices).mean(dim=-1)
