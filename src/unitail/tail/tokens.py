"""Z: the tokens that the transformer reads (paper, 4.2)."""

import torch
from torch import Tensor, nn

from unitail.nn.precision import in_working_precision
from unitail.nn.transformer import initialise_linear
from unitail.tail.config import TailConfig


class Tokens(nn.Module):
    """z = [pi(phi(x)) ; label part], then a linear layer if the transformer is not that wide."""

    def __init__(self, config: TailConfig) -> None:
        super().__init__()
        same = config.token_dim == config.hidden_dim
        self.entry = nn.Identity() if same else nn.Linear(config.token_dim, config.hidden_dim)

    def initialise(self, generator: torch.Generator) -> None:
        """Start the input layer, where there is one."""
        if isinstance(self.entry, nn.Linear):
            initialise_linear(self.entry, generator)

    def forward(self, projected: Tensor, label_part: Tensor) -> Tensor:
        """Join (B, rows, d_data) features with (B, rows, d_label) or (d_label,) label parts."""
        label_part = label_part.expand(*projected.shape[:2], -1)
        tokens: Tensor = self.entry(torch.cat([projected, label_part], dim=-1))
        return in_working_precision(tokens)  # (B, rows, hidden)
