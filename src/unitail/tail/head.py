"""Psi: scores for the dictionary's slots, of which only those in use compete (paper, 4.2)."""

import torch
from torch import Tensor, nn

from unitail.nn.transformer import initialise_linear


class Head(nn.Module):
    """s: one linear score for each slot; a class's score is that of its slot, s_rho(y)."""

    def __init__(self, hidden_dim: int, dictionary_size: int) -> None:
        super().__init__()
        self.slot_scores = nn.Linear(hidden_dim, dictionary_size)

    def initialise(self, generator: torch.Generator) -> None:
        """Start from small weights."""
        initialise_linear(self.slot_scores, generator)

    def forward(self, states: Tensor, injection: Tensor) -> Tensor:
        """Score classes: (B, m, hidden) states, (B, K) slots -> (B, m, K) scores."""
        scores: Tensor = self.slot_scores(states)  # (B, m, M)
        slots = injection.unsqueeze(1).expand(-1, scores.shape[1], -1)
        return scores.gather(2, slots)
