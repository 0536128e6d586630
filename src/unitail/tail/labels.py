"""Labels as slots of a learnable dictionary (paper, 4.2)."""

import torch
from torch import Tensor, nn


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

    def forward(self, slots: Tensor) -> Tensor:
        """Embed slots, E(rho(y)): (B, n) -> (B, n, d_label)."""
        return self.embeddings[slots]
