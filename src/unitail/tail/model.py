"""TAIL: the Transformer-based Algorithm-Implicit Learner (paper, section 4)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unitail.configuration import require
from unitail.errors import UserError
from unitail.framework.episode import Episode, Support, check_query_fits
from unitail.nn.transformer import SupportMemory, Transformer
from unitail.randomness import stream
from unitail.tail.config import TailConfig
from unitail.tail.draw import Draw
from unitail.tail.head import Head
from unitail.tail.labels import LabelDictionary, draw_injections
from unitail.tail.normalisation import FeatureScale
from unitail.tail.projection import ProjectionLaw
from unitail.tail.tokens import Tokens


@dataclass(frozen=True, eq=False)
class ReadSupport:
    """A support set after it was read: all that is needed to answer any number of queries."""

    support: Support
    draw: Draw
    scale: FeatureScale
    memory: SupportMemory


class Tail(nn.Module):
    r"""g_theta(S, x) = rho^-1(argmax_{j in rho(Y)} s_j(Upsilon(Z))).

    Z = ([pi(phi(x_i)) ; E(rho(y_i))]_i, [pi(phi(x)) ; c]), with the draw (pi, rho) an argument.

    Code beside paper: `projection` pi, `labels` E and c, `injection` rho, `tokens` Z,
    `transformer` Upsilon, `head` s and Psi. `forward` returns the scores s_rho(y) of the K classes.
    """

    def __init__(self, config: TailConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.projections = ProjectionLaw(
            kind=config.projection, reduction=config.reduction, projected_dim=config.projected_dim
        )
        self.labels = LabelDictionary(config.dictionary_size, config.label_dim)
        self.tokens = Tokens(config)
        self.transformer = Transformer(
            dim=config.hidden_dim, layers=config.layers, heads=config.heads, mlp_dim=config.mlp_dim
        )
        self.head = Head(config.hidden_dim, config.dictionary_size)
        generator = stream(seed, "weights")
        for part in (self.labels, self.tokens, self.transformer, self.head):
            part.initialise(generator)

    def draw(self, support: Support, generator: torch.Generator) -> Draw:
        """Draw (pi, rho) for each episode of `support`, on the generator's device."""
        return self.draw_for(
            episodes=support.num_episodes,
            ways=support.ways,
            feature_dim=support.feature_dim,
            generator=generator,
        )

    def draw_for(
        self,
        *,
        episodes: int,
        ways: int,
        feature_dim: int,
        generator: torch.Generator,
        active_slots: int | None = None,
    ) -> Draw:
        """Draw (pi, rho) for episodes of these sizes.

        `active_slots` restricts rho to the first slots, while the dictionary grows in training.
        """
        size = self.config.dictionary_size
        slots = size if active_slots is None else active_slots
        require(slots <= size, "active_slots", got=slots, allowed=f"at most {size}")
        return Draw(
            injection=draw_injections(episodes, ways, slots, generator),
            projection=self.projections.draw(episodes, feature_dim, generator),
        )

    def forward(self, episode: Episode, draw: Draw) -> Tensor:
        """Score the classes for all queries of a batch of episodes: (B, m, K)."""
        return self.answer(self.read(episode.support, draw), episode.query.features)

    def read(self, support: Support, draw: Draw) -> ReadSupport:
        """Read a support set once, as far as the visibility allows without the queries."""
        draw.check_fits(support, self.config.projected_dim)
        scale = FeatureScale.of(support.features, self.config.normalisation)
        projected = self._project(support.features, scale, draw)  # (B, n, d_data)
        labels = self.labels(support.class_indices, draw.injection)  # (B, n, d_label)
        memory = self.transformer.read(self.tokens(projected, labels), self.config.visibility)
        return ReadSupport(support, draw, scale, memory)

    def answer(
        self, read: ReadSupport, query_features: Tensor, chunk_size: int | None = None
    ) -> Tensor:
        """Score the classes for queries (B, m, d_T), `chunk_size` at a time: (B, m, K)."""
        check_query_fits(read.support, query_features)
        if chunk_size is None:
            return self._answer(read, query_features)
        if not self.config.visibility.isolates_queries:
            raise UserError(
                "queries that see each other cannot be answered in chunks",
                got=f"chunk_size={chunk_size} with visibility '{self.config.visibility}'",
                allowed="chunk_size=None, or visibility 'isolated'",
            )
        require(chunk_size >= 1, "chunk_size", got=chunk_size, allowed="1 or more")
        chunks = torch.split(query_features, chunk_size, dim=1)
        return torch.cat([self._answer(read, chunk) for chunk in chunks], dim=1)

    def _project(self, features: Tensor, scale: FeatureScale, draw: Draw) -> Tensor:
        """Scale in the features' own precision, then enter that of the model."""
        return draw.projection(scale(features)).to(self.labels.embeddings.dtype)

    def _answer(self, read: ReadSupport, query_features: Tensor) -> Tensor:
        projected = self._project(query_features, read.scale, read.draw)  # (B, m, d_data)
        tokens = self.tokens(projected, self.labels.query_marker)  # (B, m, hidden)
        states = self.transformer.answer(read.memory, tokens)  # (B, m, hidden)
        scores: Tensor = self.head(states, read.draw.injection)  # (B, m, K)
        return scores
