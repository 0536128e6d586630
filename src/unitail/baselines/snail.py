"""SNAIL: causal convolutions aggregate an episode, and causal attention retrieves from it.

Mishra, Rohaninejad, Chen and Abbeel, *A Simple Neural Attentive Meta-Learner*, 2018.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from unitail.baselines.sequences import (
    copy_for_queries,
    gather_answers,
    initialise_label_columns,
    with_blank_labels,
    with_labels,
)
from unitail.configuration import require_at_least, take_words
from unitail.errors import require
from unitail.nn.episode_model import Normalisation, Visibility
from unitail.nn.random_projection import FixedWidth
from unitail.nn.slot_model import SlotModel, in_working_precision
from unitail.nn.transformer import INIT_GAIN
from unitail.randomness import stream

KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""All kernels but cuDNN's, whose backward pass failed here (torch 2.11, bfloat16, H200)."""


@dataclass(frozen=True, kw_only=True)
class SnailConfig:
    """All that determines the function of a SNAIL model besides its weights.

    The defaults are the published ones for few-shot classification, except for the normalisation.
    """

    feature_dim: int = 1280
    """d_T, the only feature width that the model accepts."""
    classes: int = 5
    """Largest number of classes in a task: the width of the one-hot labels."""
    most_support: int = 25
    """n, the largest number of examples. With the query there are T = n + 1 tokens, which determine
    the number of convolutions. Model folders and recipes use this name, so it is not `max_support`.
    """
    key_dims: tuple[int, ...] = (64, 256, 512)
    """Width of queries and keys in each attention block."""
    value_dims: tuple[int, ...] = (32, 128, 256)
    """Width of values in each attention block."""
    filters: int = 128
    """Width that each dense block adds to the states."""
    normalisation: Normalisation = Normalisation.SUPPORT
    """How features are scaled, the same as in TAIL; published: none."""

    def __post_init__(self) -> None:
        take_words(self, normalisation=Normalisation)
        require_at_least(1, self, "feature_dim", "most_support", "filters")
        require_at_least(2, self, "classes")
        for name in ("key_dims", "value_dims"):
            got = getattr(self, name)
            allowed = "one or more widths of 1 or more"
            require(bool(got) and min(got) >= 1, name, got=got, allowed=allowed)
        require(
            len(self.key_dims) == len(self.value_dims),
            "value_dims",
            got=self.value_dims,
            allowed=f"{len(self.key_dims)} widths, as key_dims has",
        )

    @property
    def num_layers(self) -> int:
        """Number of attention blocks."""
        return len(self.key_dims)

    @property
    def max_support(self) -> int:
        """Largest number of support examples."""
        return self.most_support

    @property
    def max_ways(self) -> int:
        """The width of the one-hot labels."""
        return self.classes

    @property
    def dilations(self) -> tuple[int, ...]:
        """1, 2, 4, ...: ceil(log2 T) dilations, so that the last token sees all T tokens."""
        return tuple(2**index for index in range(self.most_support.bit_length()))


class CausalAttention(nn.Module):
    """x <- [x ; softmax(q k^T / sqrt(key_dim)) v], where position t sees the keys 1 .. t."""

    def __init__(self, width: int, key_dim: int, value_dim: int) -> None:
        super().__init__()
        self.parts = (key_dim, key_dim, value_dim)
        self.qkv = nn.Linear(width, sum(self.parts))

    def forward(self, states: Tensor) -> Tensor:
        """Append attention over earlier positions: (S, T, width) -> (S, T, width + value_dim)."""
        q, k, v = self.qkv(states).unsqueeze(1).split(self.parts, dim=-1)  # (S, 1, T, part) each
        with sdpa_kernel(KERNELS):
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.cat([states, seen.squeeze(1)], dim=-1)


class DenseBlock(nn.Module):
    """x <- [x ; tanh(f) * sigmoid(g)], where (f, g)_t = W x_t + V x_(t - dilation) + b.

    These are two convolutions with kernel size 2, written as matrix products, so that states keep
    the layout that attention needs. Positions before the first are zero.
    """

    def __init__(self, width: int, filters: int, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.now = nn.Linear(width, 2 * filters)
        self.earlier = nn.Linear(width, 2 * filters, bias=False)

    def forward(self, states: Tensor) -> Tensor:
        """Append filters of two positions each: (S, T, width) -> (S, T, width + filters)."""
        moved = F.pad(self.earlier(states), (0, 0, self.dilation, 0))[:, : states.shape[1]]
        signal, gate = (self.now(states) + moved).chunk(2, dim=-1)  # (S, T, filters) each
        return torch.cat([states, signal.tanh() * gate.sigmoid()], dim=-1)


class Snail(SlotModel[Tensor]):
    """Attention -> TC -> Attention -> TC -> Attention -> linear, read at the query, which is last.

    A token is [x ; one-hot slot], with zeros for the label of the query. TC, a temporal
    convolution, is a stack of dense blocks. Each query has a sequence of its own.

    The published model pads sequences on the left to one length T. If attention masks the padding
    and convolutions see zeros, padding has no effect, as a causal convolution has zeros before the
    first token anyway. So sequences are not padded.
    """

    config: SnailConfig

    def __init__(self, config: SnailConfig, *, seed: int = 0) -> None:
        super().__init__(config, FixedWidth(config.feature_dim))
        width = config.feature_dim + config.classes
        layers: list[nn.Module] = []
        for index, dims in enumerate(zip(config.key_dims, config.value_dims, strict=True)):
            for dilation in config.dilations if index else ():
                layers.append(DenseBlock(width, config.filters, dilation))
                width += config.filters
            layers.append(CausalAttention(width, *dims))
            width += dims[1]
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(width, config.classes)
        self._initialise(stream(seed, "weights"))

    def work(self, num_support: int, num_query: int, ways: int) -> int:
        """Count the tokens of each query and of its copy of the support."""
        tokens = num_query * (num_support + 1)
        return tokens * 2 * self.head.in_features  # each layer copies its input

    def remember(self, features: Tensor, slots: Tensor, visibility: Visibility) -> Tensor:
        """Make the support's tokens; the layers need a query."""
        tokens = with_labels(features, slots, self.config.classes)  # (B, n, d_T + classes)
        return in_working_precision(tokens)

    def score_slots(self, memory: Tensor, queries: Tensor) -> Tensor:
        """Score all slots, with a sequence for each query: (B, m, d_T) -> (B, m, classes)."""
        tokens = with_blank_labels(queries, self.config.classes)  # (B, m, d_T + classes)
        copies, last = copy_for_queries(memory, in_working_precision(tokens))
        states = self.layers(torch.cat([copies, last], dim=1))  # (B * m, n + 1, width)
        return gather_answers(self.head(states[:, -1]), len(queries))

    def _initialise(self, generator: torch.Generator) -> None:
        """Draw small normal weights; biases are zero.

        Layers only append to the tokens, so every layer has columns for the labels.
        """
        tokens = self.config.feature_dim + self.config.classes
        for weight in self.parameters():
            if weight.ndim == 1:
                nn.init.zeros_(weight)
            else:
                deviation = INIT_GAIN / math.sqrt(weight.shape[1])
                nn.init.normal_(weight, std=deviation, generator=generator)
                initialise_label_columns(weight, slice(self.config.feature_dim, tokens), generator)
