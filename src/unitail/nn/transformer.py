"""Upsilon: a pre-norm transformer encoder without positions, in two steps: read, then answer."""

import math
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unitail.nn.attention import Attention, SupportKeys
from unitail.nn.episode_model import ShardUnit, Visibility

INIT_GAIN = 0.8
"""Weights start at a deviation of INIT_GAIN / sqrt(fan in): 0.02 at the paper's width of 1536."""


@dataclass(frozen=True)
class CachedSupport:
    """A support set that was read for good: what each layer keeps for the queries to come."""

    layers: tuple[SupportKeys, ...]


@dataclass(frozen=True)
class WaitingSupport:
    """A support set that can only be read together with the queries, and how."""

    tokens: Tensor
    causal: bool


SupportMemory = CachedSupport | WaitingSupport


class TransformerBlock(ShardUnit):
    """z <- z + Attention(LN(z)); z <- z + MLP(LN(z))."""

    entry_points = ("read", "keep", "answer")

    def __init__(self, dim: int, heads: int, mlp_dim: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(dim, eps=epsilon)
        self.attention = Attention(dim, heads)
        self.mlp_norm = nn.LayerNorm(dim, eps=epsilon)
        self.mlp_in = nn.Linear(dim, mlp_dim)
        self.mlp_out = nn.Linear(mlp_dim, dim)

    def forward(self, tokens: Tensor, *, causal: bool) -> Tensor:
        """Update a sequence in which tokens see each other."""
        tokens = tokens + self.attention(self.attention_norm(tokens), causal=causal)
        return self._think(tokens)

    def read(self, support: Tensor) -> tuple[Tensor, SupportKeys]:
        """Update the support, and keep what queries will need of it."""
        attended, kept = self.attention.read(self.attention_norm(support))
        return self._think(support + attended), kept

    def keep(self, support: Tensor) -> SupportKeys:
        """Keep what queries will need; the support goes no further."""
        return self.attention.keep(self.attention_norm(support))

    def answer(self, query: Tensor, support: SupportKeys) -> Tensor:
        """Update queries that see the support and themselves."""
        query = query + self.attention.answer(self.attention_norm(query), support)
        return self._think(query)

    def _think(self, tokens: Tensor) -> Tensor:
        thought: Tensor = self.mlp_out(F.gelu(self.mlp_in(self.mlp_norm(tokens))))
        return tokens + thought


class Transformer(nn.Module):
    """A stack of blocks with a final LayerNorm (paper, appendix D.2).

    `epsilon` is what every LayerNorm adds to the variance.
    """

    def __init__(
        self, *, dim: int, layers: int, heads: int, mlp_dim: int, epsilon: float = 1e-5
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            TransformerBlock(dim, heads, mlp_dim, epsilon) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(dim, eps=epsilon)

    def initialise(self, generator: torch.Generator) -> None:
        """Start from small weights; the residual branches together start at the scale of one."""
        branches = 2 * len(self.blocks)
        for block in self.stack:
            initialise_linear(block.attention.qkv, generator)
            initialise_linear(block.attention.out, generator, gain=branches**-0.5)
            initialise_linear(block.mlp_in, generator)
            initialise_linear(block.mlp_out, generator, gain=branches**-0.5)

    def read(self, support: Tensor, visibility: Visibility) -> SupportMemory:
        """Do all the work on the support (B, n, dim) that does not depend on the queries."""
        if not visibility.isolates_queries:
            return WaitingSupport(support, causal=visibility is Visibility.CAUSAL)
        *blocks, last = self.stack
        layers = []
        for block in blocks:
            support, kept = block.read(support)
            layers.append(kept)
        return CachedSupport((*layers, last.keep(support)))

    def answer(self, memory: SupportMemory, query: Tensor) -> Tensor:
        """Return the final states of the queries, (B, m, dim)."""
        if isinstance(memory, CachedSupport):
            for block, kept in zip(self.stack, memory.layers, strict=True):
                query = block.answer(query, kept)
        else:
            tokens = torch.cat([memory.tokens, query], dim=1)  # (B, n + m, dim)
            for block in self.stack:
                tokens = block(tokens, causal=memory.causal)
            query = tokens[:, memory.tokens.shape[1] :]
        states: Tensor = self.norm(query)
        return states

    @property
    def stack(self) -> list[TransformerBlock]:
        """The blocks in order."""
        return cast("list[TransformerBlock]", list(self.blocks))


def numbers_per_token(dim: int, mlp_dim: int) -> int:
    """Count what a block keeps in memory at once for a token."""
    return 6 * dim + 2 * mlp_dim  # states, normed, queries, keys, values and answers; the MLP


def initialise_linear(layer: nn.Linear, generator: torch.Generator, gain: float = 1.0) -> None:
    """Start a linear layer from small normal weights and no bias."""
    deviation = gain * INIT_GAIN / math.sqrt(layer.in_features)
    nn.init.normal_(layer.weight, std=deviation, generator=generator)
    nn.init.zeros_(layer.bias)
