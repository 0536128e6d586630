"""SNAIL: causal convolutions to gather an episode, causal attention to look things up in it.

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
    start_label_columns,
    with_blank_labels,
    with_labels,
)
from unitail.configuration import require_at_least, take_words
from unitail.errors import require
from unitail.nn.episode_model import Normalisation, Visibility
from unitail.nn.projection import FixedWidth
from unitail.nn.slot_model import SlotModel, in_working_precision
from unitail.nn.transformer import INIT_GAIN
from unitail.randomness import stream

KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""All but cuDNN's, whose backward pass failed in this network (torch 2.11, bfloat16, H200)."""


@dataclass(frozen=True, kw_only=True)
class SnailConfig:
    """Everything that decides which function a SNAIL model computes, but for its weights.

    The defaults are the published ones for few-shot classification, but for the normalisation.
    """

    feature_dim: int = 1280
    """d_T, the one width of features that the model accepts."""
    classes: int = 5
    """The most classes a task can have: the width of the one-hot labels."""
    most_support: int = 25
    """n, the most examples; with the query T = n + 1 tokens, which set the convolutions' number.

    Not called `max_support`, as model folders and recipes have it by this name.
    """
    key_dims: tuple[int, ...] = (64, 256, 512)
    """The width of queries and keys in each attention block."""
    value_dims: tuple[int, ...] = (32, 128, 256)
    """The width of values in each attention block."""
    filters: int = 128
    """What each dense block adds to the states."""
    normalisation: Normalisation = Normalisation.SUPPORT
    """How features are scaled, as TAIL's are; published: none."""

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
    def max_support(self) -> int:
        """The most examples that the model can read."""
        return self.most_support

    @property
    def max_ways(self) -> int:
        """The width of the one-hot labels."""
        return self.classes

    @property
    def dilations(self) -> tuple[int, ...]:
        """1, 2, 4, ...: ceil(log2 T) of them, with which the last token sees all T tokens."""
        return tuple(2**index for index in range(self.most_support.bit_length()))


class CausalAttention(nn.Module):
    """x <- [x ; softmax(q k^T / sqrt(key_dim)) v]: position t sees the keys 1 .. t."""

    def __init__(self, width: int, key_dim: int, value_dim: int) -> None:
        super().__init__()
        self.parts = (key_dim, key_dim, value_dim)
        self.qkv = nn.Linear(width, sum(self.parts))

    def forward(self, states: Tensor) -> Tensor:
        """Look up what earlier positions hold: (S, T, width) -> (S, T, width + value_dim)."""
        q, k, v = self.qkv(states).unsqueeze(1).split(self.parts, dim=-1)  # (S, 1, T, part) each
        with sdpa_kernel(KERNELS):
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.cat([states, seen.squeeze(1)], dim=-1)


class DenseBlock(nn.Module):
    """x <- [x ; tanh(f) * sigmoid(g)], where (f, g)_t = W x_t + V x_(t - dilation) + b.

    That is two convolutions with kernel 2, as the products they are made of: states keep the layout
    that attention wants. Positions before the first are zero.
    """

    def __init__(self, width: int, filters: int, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.now = nn.Linear(width, 2 * filters)
        self.earlier = nn.Linear(width, 2 * filters, bias=False)

    def forward(self, states: Tensor) -> Tensor:
        """Join each position with an earlier one: (S, T, width) -> (S, T, width + filters)."""
        moved = F.pad(self.earlier(states), (0, 0, self.dilation, 0))[:, : states.shape[1]]
        signal, gate = (self.now(states) + moved).chunk(2, dim=-1)  # (S, T, filters) each
        return torch.cat([states, signal.tanh() * gate.sigmoid()], dim=-1)


class Snail(SlotModel[Tensor]):
    """Attention -> TC -> Attention -> TC -> Attention -> linear, read at the query, which is last.

    A token is [x ; one-hot slot], with zeros in the query's place of the label; TC, a temporal
    convolution, is a stack of dense blocks. Each query is asked in a sequence of its own.

    The published model has sequences of one length T, shorter ones padded on the left. Padding that
    attention does not see and that convolutions see as zeros is no padding at all, as a causal
    convolution has zeros before the first token in any case: sequences are read at their length.
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
        """Count the query and its copy of the support."""
        tokens = num_query * (num_support + 1)
        return tokens * 2 * self.head.in_features  # each layer copies what it adds to

    def remember(self, features: Tensor, slots: Tensor, visibility: Visibility) -> Tensor:
        """Make the support's tokens; all else waits for a query."""
        tokens = with_labels(features, slots, self.config.classes)  # (B, n, d_T + classes)
        return in_working_precision(tokens)

    def score_slots(self, memory: Tensor, queries: Tensor) -> Tensor:
        """Read a sequence for each query: (B, m, d_T) -> (B, m, classes)."""
        tokens = with_blank_labels(queries, self.config.classes)  # (B, m, d_T + classes)
        copies, last = copy_for_queries(memory, in_working_precision(tokens))
        states = self.layers(torch.cat([copies, last], dim=1))  # (B * m, n + 1, width)
        return gather_answers(self.head(states[:, -1]), len(queries))

    def _initialise(self, generator: torch.Generator) -> None:
        """Start from small normal weights and no biases.

        All layers see the tokens, which their predecessors only add to.
        """
        tokens = self.config.feature_dim + self.config.classes
        for weight in self.parameters():
            if weight.ndim == 1:
                nn.init.zeros_(weight)
            else:
                deviation = INIT_GAIN / math.sqrt(weight.shape[1])
                nn.init.normal_(weight, std=deviation, generator=generator)
                start_label_columns(weight, slice(self.config.feature_dim, tokens), generator)
