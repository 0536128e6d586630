r"""Synthetic tasks whose features are means over many parts, as those of texts and sounds are.

An encoder that averages over words, frames or patches gives a mean of part vectors, most of which
say nothing about the class. Parts are drawn as words are in the model of Arora and others, *A
Latent Variable Model Approach to PMI-based Word Embeddings* (2016):

    p(v | i) ~ f_v exp(s <c_i, u_v>),    x_i = mean over the parts v of i of (A u_v + b + e_v)

with frequencies f_v that fall off as Zipf's law says, places u_v of parts in a space of few
dimensions, a topic c_i that wanders around that of the class, and part vectors that are u_v seen
through a random map A, with a common offset b and noise e_v that is the part's own.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import torch
from torch import Tensor

from unitail.configuration import require
from unitail.framework.episode import Episode
from unitail.tasks.query_shares import draw_classes
from unitail.tasks.shapes import BatchPlan, EpisodeRanges, draw_between
from unitail.tasks.synthetic.laws import Draws, check_range, check_sizes, episodes_of, pick

MOST_RARE = 1.2
"""The greatest exponent of Zipf's law."""
OFFSETS = (0.1, 4.0)
"""The size of b beside that of A u, log-uniform."""
MOST_NOISE = 1.0
"""The greatest size of e, likewise."""
MOST_WANDERING = 0.7
"""How far the topic of an example is from that of its class, at most, in units of a topic."""


@dataclass(frozen=True, kw_only=True)
class RandomBagTasks:
    """nu: bags of parts, averaged; every episode has its own parts, frequencies and topics."""

    feature_dims: tuple[int, ...] = (32, 64, 128, 256)
    """The feature widths d_T; one is drawn for each batch."""
    topic_dims: tuple[int, ...] = (4, 8, 16, 32)
    """The widths of the space of topics; one is drawn for each batch."""
    sizes: tuple[int, ...] = (4, 8, 16, 32, 64)
    """The numbers of parts of a bag; one is drawn for each batch."""
    parts: int = 400
    """The different parts of an episode."""
    sharpness: tuple[float, float] = (0.3, 3.0)
    """s, the least and the greatest, log-uniform: how much a topic decides about the parts."""

    def __post_init__(self) -> None:
        check_sizes(feature_dims=self.feature_dims, topic_dims=self.topic_dims, sizes=self.sizes)
        require(self.parts >= 2, "parts", got=self.parts, allowed="2 or more")
        check_range("sharpness", self.sharpness)

    @cached_property
    def kinds(self) -> tuple[tuple[int, int], ...]:
        """All widths of topics with all sizes of bags; a plan's `group` is the number of one."""
        return tuple(product(self.topic_dims, self.sizes))

    def plan(self, ranges: EpisodeRanges, generator: torch.Generator) -> BatchPlan:
        """Draw the width, the kind of bags and the shape of a batch."""
        return ranges.draw_plan(
            generator,
            shots=ranges.draw_shots(generator),
            source="random bags",
            group=draw_between((0, len(self.kinds) - 1), generator),
            feature_dim=pick(self.feature_dims, generator),
        )

    def sample(
        self, plan: BatchPlan, generator: torch.Generator, part: slice | None = None
    ) -> Episode:
        """Draw an instance of each of as many fresh tasks as planned; see `EpisodeSource`."""
        topic_dim, size = self.kinds[plan.group]
        classes = draw_classes(plan, generator)  # (B, n + m)
        draws = Draws(plan.episodes, generator)
        places = draws.normal(self.parts, topic_dim)  # u: (B, parts, topic_dim)
        counts = self._draw_bags(classes, places, size, plan.ways, draws)
        seen_as = draws.normal(topic_dim, plan.feature_dim) / topic_dim**0.5  # A
        offset = draws.log_uniform(OFFSETS) * draws.normal(1, plan.feature_dim)
        own = draws.uniform((0, MOST_NOISE)) * draws.normal(self.parts, plan.feature_dim)
        vectors = places @ seen_as + offset + own  # (B, parts, d_T)
        features = counts @ vectors / size
        return episodes_of(plan, features, classes, generator, part)

    def _draw_bags(
        self, classes: Tensor, places: Tensor, size: int, ways: int, draws: Draws
    ) -> Tensor:
        """Draw how often each part is in each example: (B, n + m, parts)."""
        width = places.shape[-1]
        ranks = torch.arange(1, self.parts + 1, device=places.device)
        rarity = -draws.uniform((0, MOST_RARE)) * ranks.log()  # (B, 1, parts)
        topics = draws.normal(ways, width)  # (B, K, width)
        index = classes.unsqueeze(2).expand(-1, -1, width)
        wandering = draws.uniform((0, MOST_WANDERING)) * draws.normal(classes.shape[1], width)
        topics = (topics.gather(1, index) + wandering) / width**0.5  # (B, n + m, width)
        sharpness = draws.log_uniform(self.sharpness)
        chances = (rarity + sharpness * topics @ places.mT).softmax(dim=-1)
        drawn = torch.multinomial(
            chances.flatten(0, 1), size, replacement=True, generator=draws.generator
        ).view(*classes.shape, size)
        once = torch.ones_like(drawn, dtype=chances.dtype)
        return torch.zeros_like(chances).scatter_add_(2, drawn, once)
