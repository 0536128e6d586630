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
    """A support set after it was read: the cache of each layer for all later queries."""

    layers: tuple[SupportKeys, ...]


@dataclass(frozen=True)
class WaitingSupport:
    """A support set that can only be read together with the queries."""

    tokens: Tensor
    causal: bool


SupportMemory = CachedSupport | WaitingSupport


class TransformerBlock(ShardUnit):
    """z <- z + Attention(LN(z)); z <- z + MLP(LN(z))."""

    entry_points = ("read", "cache", "answer")

    def __init__(self, dim: int, heads: int, mlp_dim: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(dim, eps=epsilon)
        self.attention = Attention(dim, heads)
        self.mlp_norm = nn.LayerNorm(dim, eps=epsilon)
        self.mlp_in = nn.Linear(dim, mlp_dim)
        self.mlp_out = nn.Linear(mlp_dim, dim)

    def forward(self, tokens: Tensor, *, causal: bool) -> Tensor:
        """Update a sequence of tokens that attend to each other."""
        tokens = tokens + self.attention(self.attention_norm(tokens), causal=causal)
        return self._add_mlp(tokens)

    def read(self, support: Tensor) -> tuple[Tensor, SupportKeys]:
        """Update the support; return it, and the cache for queries."""
        attended, cache = self.attention.read(self.attention_norm(support))
        return self._add_mlp(support + attended), cache

    def cache(self, support: Tensor) -> SupportKeys:
        """Return the cache for queries alone, in the last block."""
        return self.attention.cache(self.attention_norm(support))

    def answer(self, query: Tensor, support: SupportKeys) -> Tensor:
        """Update queries, each of which attends to the support and itself."""
        query = query + self.attention.answer(self.attention_norm(query), support)
        return self._add_mlp(query)

    def _add_mlp(self, tokens: Tensor) -> Tensor:
        change: Tensor = self.mlp_out(F.gelu(self.mlp_in(self.mlp_norm(tokens))))
        return tokens + change


class Transformer(nn.Module):
    """A stack of blocks with a final LayerNorm (paper, appendix D.2).

    `epsilon` is that of every LayerNorm.
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
        """Draw small weights, such that all residual branches together have the scale of one."""
        branches = 2 * len(self.blocks)
        for block in self.stack:
            initialise_linear(block.attention.qkv, generator)
            initialise_linear(block.attention.out, generator, gain=branches**-0.5)
            initialise_linear(block.mlp_in, generator)
            initialise_linear(block.mlp_out, generator, gain=branches**-0.5)

    def read(self, support: Tensor, visibility: Visibility) -> SupportMemory:
        """Read the support (B, n, dim) as far as that does not depend on the queries."""
        if not visibility.isolates_queries:
            return WaitingSupport(support, causal=visibility is Visibility.CAUSAL)
        *blocks, last = self.stack
        layers = []
        for block in blocks:
            support, cache = block.read(support)
            layers.append(cache)
        return CachedSupport((*layers, last.cache(support)))

    def answer(self, memory: SupportMemory, query: Tensor) -> Tensor:
        """Return the final states of the queries, (B, m, dim)."""
        if isinstance(memory, CachedSupport):
            for block, cache in zip(self.stack, memory.layers, strict=True):
                query = block.answer(query, cache)
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
    """Return how many numbers a block has in memory at once for each token."""
    return 6 * dim + 2 * mlp_dim  # states, normalised, queries, keys, values, attended; the MLP


def initialise_linear(layer: nn.Linear, generator: torch.Generator, gain: float = 1.0) -> None:
    """Draw small normal weights for a linear layer, and set its bias to zero."""
    deviation = gain * INIT_GAIN / math.sqrt(layer.in_features)
    nn.init.normal_(layer.weight, std=deviation, generator=generator)
    nn.init.zeros_(layer.bias)
