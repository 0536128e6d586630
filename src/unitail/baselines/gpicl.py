"""GPICL: a causal transformer with learned positions, on randomly projected features.

Kirsch, Harrison, Sohl-Dickstein and Metz, *General-Purpose In-Context Learning by Meta-Learning
Transformers*, 2024, with the changes of the TAIL paper's appendix D.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unitail.baselines.sequences import (
    copy_for_queries,
    gather_answers,
    initialise_label_columns,
    with_blank_labels,
    with_labels,
)
from unitail.configuration import require_at_least, take_words
from unitail.errors import require
from unitail.nn.episode_model import Normalisation, ShardUnit, Visibility
from unitail.nn.random_projection import LinearMap
from unitail.nn.slot_model import SlotModel, in_working_precision
from unitail.nn.transformer import (
    Transformer,
    WaitingSupport,
    initialise_linear,
    numbers_per_token,
)
from unitail.randomness import stream

POSITION_DEVIATION = 0.02
"""Standard deviation of positions at initialisation: small, so that they hardly matter at first."""


@dataclass(frozen=True, kw_only=True)
class GpiclConfig:
    """All that determines the function of a GPICL model besides its weights.

    The transformer is that of the published replica.
    """

    projected_dim: int = 256
    """Width that features of any width are projected to."""
    classes: int = 5
    """Largest number of classes in a task: the width of the one-hot labels."""
    hidden_dim: int = 256
    """Width of the transformer."""
    layers: int = 4
    """Number of transformer blocks."""
    heads: int = 8
    """Attention heads in each block."""
    mlp_dim: int = 1024
    """Hidden width of a block's MLP."""
    positions: int = 256
    """Number of learned positions; a sequence of n examples uses the first n + 1."""
    normalisation: Normalisation = Normalisation.SUPPORT
    """How features are scaled before the projection, the same as in TAIL."""

    def __post_init__(self) -> None:
        take_words(self, normalisation=Normalisation)
        require_at_least(1, self, "projected_dim", "layers", "heads", "mlp_dim")
        require_at_least(2, self, "classes", "positions")
        require(
            self.hidden_dim >= 1 and self.hidden_dim % self.heads == 0,
            "hidden_dim",
            got=self.hidden_dim,
            allowed=f"a multiple of the {self.heads} heads",
        )

    @property
    def num_layers(self) -> int:
        """Number of transformer layers."""
        return self.layers

    @property
    def max_ways(self) -> int:
        """The width of the one-hot labels."""
        return self.classes

    @property
    def max_support(self) -> int:
        """Largest number of support examples; one position is for the query."""
        return self.positions - 1


@dataclass(frozen=True)
class GaussianLaw:
    """x -> x W with independent W_ij ~ N(0, 1 / d_T) for any width, drawn for each episode.

    This preserves the root mean square of coordinates.
    """

    projected_dim: int

    def draw(self, episodes: int, feature_dim: int, generator: torch.Generator) -> LinearMap:
        """Draw a matrix for each of `episodes` episodes of width `feature_dim`."""
        shape = (episodes, feature_dim, self.projected_dim)
        matrix = torch.randn(shape, generator=generator, device=generator.device)
        return LinearMap(matrix * feature_dim**-0.5)


class Gpicl(SlotModel[Tensor]):
    """head(Transformer(A z_1 + p_1, .., A z_n + p_n, A z + p_(n+1))) at the last position.

    z_i = [pi(x_i) ; one-hot slot], with zeros for the label of the query. Each token has its own
    label, where the original has that of the token before, so that each query of a support can have
    a sequence of its own. Every token sees itself and all before it.
    """

    config: GpiclConfig

    def __init__(self, config: GpiclConfig, *, seed: int = 0) -> None:
        super().__init__(config, GaussianLaw(config.projected_dim))
        self.entry = nn.Linear(config.projected_dim + config.classes, config.hidden_dim)
        self.positions = nn.Parameter(torch.empty(config.positions, config.hidden_dim))
        self.transformer = Transformer(
            dim=config.hidden_dim, layers=config.layers, heads=config.heads, mlp_dim=config.mlp_dim
        )
        self.head = nn.Linear(config.hidden_dim, config.classes)
        self._initialise(stream(seed, "weights"))

    def work(self, num_support: int, num_query: int, ways: int) -> int:
        """Count the tokens of each query and of its copy of the support."""
        tokens = num_query * (num_support + 1)
        return tokens * numbers_per_token(self.config.hidden_dim, self.config.mlp_dim)

    def shard_units(self) -> Sequence[ShardUnit]:
        """Return the transformer's blocks."""
        return self.transformer.stack

    def remember(self, features: Tensor, slots: Tensor, visibility: Visibility) -> Tensor:
        """Make the support's tokens; the transformer needs a query."""
        tokens = self.entry(with_labels(features, slots, self.config.classes))  # (B, n, hidden)
        return in_working_precision(tokens + self.positions[: features.shape[1]])

    def score_slots(self, memory: Tensor, queries: Tensor) -> Tensor:
        """Score all slots, with a sequence for each query: (B, m, d_data) -> (B, m, classes)."""
        tokens = self.entry(with_blank_labels(queries, self.config.classes))  # (B, m, hidden)
        tokens = in_working_precision(tokens + self.positions[memory.shape[1]])
        copies, last = copy_for_queries(memory, tokens)
        states = self.transformer.answer(WaitingSupport(copies, causal=True), last)
        return gather_answers(self.head(states.squeeze(1)), len(queries))

    def _initialise(self, generator: torch.Generator) -> None:
        initialise_linear(self.entry, generator)
        initialise_label_columns(
            self.entry.weight, slice(self.config.projected_dim, None), generator
        )
        nn.init.normal_(self.positions, std=POSITION_DEVIATION, generator=generator)
        self.transformer.initialise(generator)
        initialise_linear(self.head, generator)
