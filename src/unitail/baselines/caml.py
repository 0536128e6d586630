"""CAML: a transformer without positions or causal mask, on features joined with fixed label codes.

Fifty, Duan, Junkins, Amid, Leskovec, Ré and Thrun, *Context-Aware Meta-Learning*, 2023.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unitail.baselines.sequences import copy_for_queries, gather_answers
from unitail.configuration import require_at_least, take_words
from unitail.errors import require
from unitail.nn.episode_model import Normalisation, ShardUnit, Visibility
from unitail.nn.random_projection import FixedWidth
from unitail.nn.slot_model import SlotModel, in_working_precision
from unitail.nn.transformer import INIT_GAIN, Transformer, WaitingSupport, numbers_per_token
from unitail.randomness import stream

EPSILON = 1e-6
"""Epsilon of every LayerNorm, as published."""


@dataclass(frozen=True, kw_only=True)
class CamlConfig:
    """All that determines the function of a CAML model besides its weights.

    The defaults are the published ones for this feature width, except for the normalisation.
    """

    feature_dim: int = 1280
    """d_T, the only feature width that the model accepts."""
    classes: int = 5
    """C, the largest number of classes in a task: the number of label codes."""
    label_dim: int = 256
    """Width of a label code."""
    layers: int = 24
    """Number of transformer blocks."""
    heads: int = 16
    """Attention heads in each block."""
    mlp_dim: int = 4096
    """Hidden width of a block's MLP."""
    normalisation: Normalisation = Normalisation.SUPPORT
    """How features are scaled, the same as in TAIL; published: none."""

    def __post_init__(self) -> None:
        take_words(self, normalisation=Normalisation)
        require_at_least(1, self, "feature_dim", "label_dim", "layers", "heads", "mlp_dim")
        require(
            2 <= self.classes <= self.label_dim,
            "classes",
            got=self.classes,
            allowed=f"2 to label_dim, {self.label_dim}",
        )
        require(
            self.hidden_dim % self.heads == 0,
            "feature_dim",
            got=self.feature_dim,
            allowed=f"with label_dim, {self.label_dim}, a multiple of the {self.heads} heads",
        )

    @property
    def hidden_dim(self) -> int:
        """The width of a token and of the transformer."""
        return self.feature_dim + self.label_dim

    @property
    def num_layers(self) -> int:
        """Number of transformer layers."""
        return self.layers

    @property
    def max_ways(self) -> int:
        """C."""
        return self.classes

    @property
    def max_support(self) -> None:
        """There are no positions, so there is no limit."""
        return


def elmes(classes: int, label_dim: int, generator: torch.Generator) -> Tensor:
    """Return C vectors of length one with pairwise cosine -1 / (C - 1): (C, label_dim).

    The rows of sqrt(C / (C - 1)) (I - 11^T / C) are such an equal length and maximally equiangular
    set (ELMES); a random orthonormal basis maps them to label_dim dimensions.
    """
    normal = torch.randn(label_dim, classes, generator=generator, dtype=torch.float64)
    basis = torch.linalg.qr(normal).Q  # (label_dim, C)
    centring = torch.eye(classes, dtype=torch.float64) - 1 / classes
    codes: Tensor = math.sqrt(classes / (classes - 1)) * centring @ basis.T
    return codes.to(torch.get_default_dtype())


class Caml(SlotModel[Tensor]):
    """head(Transformer([x ; unknown], [x_1 ; scale e_y1], .., [x_n ; scale e_yn])) at the query.

    e is a fixed ELMES; its scale and the `unknown` label of queries are learned. Each query has a
    sequence of its own, in which all tokens see each other. The published code puts the query
    first, and ours last, which is the same without positions.
    """

    config: CamlConfig
    codes: Tensor

    def __init__(self, config: CamlConfig, *, seed: int = 0) -> None:
        super().__init__(config, FixedWidth(config.feature_dim))
        generator = stream(seed, "weights")
        self.register_buffer("codes", elmes(config.classes, config.label_dim, generator))
        self.scale = nn.Parameter(torch.tensor([_first_scale(config)]))
        self.unknown = nn.Parameter(torch.zeros(config.label_dim))
        self.transformer = Transformer(
            dim=config.hidden_dim,
            layers=config.layers,
            heads=config.heads,
            mlp_dim=config.mlp_dim,
            epsilon=EPSILON,
        )
        self.head = nn.Linear(config.hidden_dim, config.classes, bias=False)
        self.transformer.initialise(generator)
        deviation = INIT_GAIN / math.sqrt(config.hidden_dim)
        nn.init.normal_(self.head.weight, std=deviation, generator=generator)

    def work(self, num_support: int, num_query: int, ways: int) -> int:
        """Count the tokens of each query and of its copy of the support."""
        tokens = num_query * (num_support + 1)
        return tokens * numbers_per_token(self.config.hidden_dim, self.config.mlp_dim)

    def shard_units(self) -> Sequence[ShardUnit]:
        """Return the transformer's blocks."""
        return self.transformer.stack

    def remember(self, features: Tensor, slots: Tensor, visibility: Visibility) -> Tensor:
        """Make the support's tokens; the transformer needs a query."""
        return _tokens(features, self.scale * self.codes[slots])  # (B, n, hidden)

    def score_slots(self, memory: Tensor, queries: Tensor) -> Tensor:
        """Score all slots, with a sequence for each query: (B, m, d_T) -> (B, m, C)."""
        tokens = _tokens(queries, self.unknown.expand(*queries.shape[:2], -1))  # (B, m, hidden)
        copies, query = copy_for_queries(memory, tokens)
        states = self.transformer.answer(WaitingSupport(copies, causal=False), query)
        return gather_answers(self.head(states.squeeze(1)), len(queries))


def _first_scale(config: CamlConfig) -> float:
    """Return 1 for raw features, as published; otherwise a scale at which code coordinates are 1.

    Beside normalised features, codes of length one would be too small: the model learns much later.
    """
    raw = config.normalisation is Normalisation.NONE
    return 1.0 if raw else math.sqrt(config.label_dim)


def _tokens(features: Tensor, label_part: Tensor) -> Tensor:
    return in_working_precision(torch.cat([features, label_part], dim=-1))
