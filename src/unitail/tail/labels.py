"""Labels as slots of a learnable dictionary (paper, 4.2)."""

import torch
from torch import Tensor, nn

from unitail.errors import TooManyClasses
from unitail.randomness import random_injections


class LabelDictionary(nn.Module):
    """E: M learnable vectors, and the marker c that stands in a query's label place."""

    def __init__(self, dictionary_size: int, label_dim: int) -> None:
        super().__init__()
        self.embeddings = nn.Parameter(torch.empty(dictionary_size, label_dim))
        self.query_marker = nn.Parameter(torch.empty(label_dim))

    def initialise(self, generator: torch.Generator) -> None:
        """Start from independent normal vectors, at the scale of normalised features."""
        nn.init.normal_(self.embeddings, generator=generator)
        nn.init.normal_(self.query_marker, generator=generator)

    def forward(self, class_indices: Tensor, injection: Tensor) -> Tensor:
        """Embed labels, E(rho(y)): (B, n) class indices, (B, K) slots -> (B, n, d_label)."""
        return self.embeddings[injection.gather(1, class_indices)]


def draw_injections(
    episodes: int, ways: int, active_slots: int, generator: torch.Generator
) -> Tensor:
    """Draw rho, a uniform injection of the K classes into the first `active_slots`: (B, K) slots.

    A dictionary that grows during training is one whose active slots become more.
    """
    if ways > active_slots:
        raise TooManyClasses(
            "the task has more classes than the label dictionary has slots",
            got=f"{ways} classes",
            allowed=f"at most {active_slots}",
        )
    return random_injections(episodes, ways, active_slots, generator)
