"""TAIL: the Transformer-based Algorithm-Implicit Learner (paper, section 4)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unitail.nn.episode_model import ShardUnit, Visibility
from unitail.nn.random_projection import ProjectionLaw
from unitail.nn.slot_model import SlotModel, in_working_precision
from unitail.nn.transformer import (
    SupportMemory,
    Transformer,
    initialise_linear,
    numbers_per_token,
)
from unitail.randomness import stream
from unitail.tail.config import TailConfig


class LabelDictionary(nn.Module):
    """E: M learnable vectors (paper, 4.2), and the marker c that replaces a query's label."""

    def __init__(self, dictionary_size: int, label_dim: int) -> None:
        super().__init__()
        self.embeddings = nn.Parameter(torch.empty(dictionary_size, label_dim))
        self.query_marker = nn.Parameter(torch.empty(label_dim))

    def initialise(self, generator: torch.Generator) -> None:
        """Draw independent normal vectors, at the scale of normalised features."""
        nn.init.normal_(self.embeddings, generator=generator)
        nn.init.normal_(self.query_marker, generator=generator)

    def forward(self, slots: Tensor) -> Tensor:
        """Embed slots, E(rho(y)): (B, n) -> (B, n, d_label)."""
        return self.embeddings[slots]


class Tokens(nn.Module):
    """z = [pi(phi(x)) ; label part], then a linear layer if the transformer's width differs."""

    def __init__(self, config: TailConfig) -> None:
        super().__init__()
        same = config.token_dim == config.hidden_dim
        self.entry = nn.Identity() if same else nn.Linear(config.token_dim, config.hidden_dim)

    def initialise(self, generator: torch.Generator) -> None:
        """Initialise the input layer, if there is one."""
        if isinstance(self.entry, nn.Linear):
            initialise_linear(self.entry, generator)

    def forward(self, projected: Tensor, label_part: Tensor) -> Tensor:
        """Concatenate features (B, rows, d_data) and labels (B, rows, d_label) or (d_label,)."""
        label_part = label_part.expand(*projected.shape[:2], -1)
        tokens: Tensor = self.entry(torch.cat([projected, label_part], dim=-1))
        return in_working_precision(tokens)  # (B, rows, hidden)


class Tail(SlotModel[SupportMemory]):
    r"""g_theta(S, x) = rho^-1(argmax_{j in rho(Y)} s_j(Upsilon(Z))).

    Z = ([pi(phi(x_i)) ; E(rho(y_i))]_i, [pi(phi(x)) ; c]), with the draw (pi, rho) an argument.

    In the code `projections` is the distribution of pi, `labels` is E and c, `tokens` makes Z,
    `transformer` is Upsilon and `head` is s. `forward` returns the scores s_rho(y) of K classes.
    """

    config: TailConfig
    visibilities = tuple(Visibility)

    def __init__(self, config: TailConfig, *, seed: int = 0) -> None:
        law = ProjectionLaw(
            kind=config.projection, reduction=config.reduction, projected_dim=config.projected_dim
        )
        super().__init__(config, law)
        self.labels = LabelDictionary(config.dictionary_size, config.label_dim)
        self.tokens = Tokens(config)
        self.transformer = Transformer(
            dim=config.hidden_dim, layers=config.layers, heads=config.heads, mlp_dim=config.mlp_dim
        )
        self.head = nn.Linear(config.hidden_dim, config.dictionary_size)
        generator = stream(seed, "weights")
        for part in (self.labels, self.tokens, self.transformer):
            part.initialise(generator)
        initialise_linear(self.head, generator)

    @property
    def visibility(self) -> Visibility:
        """The visibility of the configuration, which is that of training."""
        return self.config.visibility

    def shard_units(self) -> Sequence[ShardUnit]:
        """Return the transformer's blocks."""
        return self.transformer.stack

    def work(self, num_support: int, num_query: int, ways: int) -> int:
        """Count a token for each query; with fused attention, pairs take no memory."""
        return num_query * numbers_per_token(self.config.hidden_dim, self.config.mlp_dim)

    def remember(self, features: Tensor, slots: Tensor, visibility: Visibility) -> SupportMemory:
        """Read the support's tokens as far as the visibility allows without the queries."""
        tokens = self.tokens(features, self.labels(slots))  # (B, n, hidden)
        return self.transformer.read(tokens, visibility)

    def score_slots(self, memory: SupportMemory, queries: Tensor) -> Tensor:
        """Score all slots for queries: (B, m, d_data) -> (B, m, M)."""
        tokens = self.tokens(queries, self.labels.query_marker)  # (B, m, hidden)
        scores: Tensor = self.head(self.transformer.answer(memory, tokens))  # (B, m, M)
        return scores
