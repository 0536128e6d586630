r"""Synthetic tasks whose features are means over many parts, as those of texts and sounds are.

An encoder that averages over words, frames or patches returns a mean of part vectors, most of which
carry no information about the class. Parts are drawn like words in the model of Arora et al., *A
Latent Variable Model Approach to PMI-based Word Embeddings* (2016):

    p(v | i) ~ f_v exp(s <c_i, u_v>),    x_i = mean over the parts v of i of (A u_v + b + e_v)

with frequencies f_v that follow Zipf's law, positions u_v of parts in a low-dimensional space, a
topic c_i that wanders around that of the class, and part vectors that map u_v through a random A
and add a common offset b and noise e_v, fixed for each part.
"""

from dataclasses import dataclass
from functools import partial
from itertools import product

import torch
from torch import Tensor

from unitail.errors import require
from unitail.randomness import PerEpisode, pick
from unitail.tasks.assemble import draw_classes, take
from unitail.tasks.batches import BatchShape, EpisodeRanges
from unitail.tasks.synthetic.laws import SyntheticBatch, check_range, check_sizes

MAX_RARITY = 1.2
"""Largest exponent of Zipf's law."""
OFFSET_SIZES = (0.1, 4.0)
"""Range of the size of b relative to A u, log-uniform."""
MAX_PART_NOISE = 1.0
"""Largest size of e relative to A u."""
MAX_WANDERING = 0.7
"""Largest distance of an example's topic from its class topic, in units of a topic's size."""


@dataclass(frozen=True, kw_only=True)
class RandomBagTasks:
    """nu: averaged bags of parts; every episode draws its own parts, frequencies and topics."""

    feature_dims: tuple[int, ...] = (32, 64, 128, 256)
    """Feature widths d_T; one is drawn for each batch."""
    topic_dims: tuple[int, ...] = (4, 8, 16, 32)
    """Widths of the topic space; one is drawn for each batch."""
    sizes: tuple[int, ...] = (4, 8, 16, 32, 64)
    """Numbers of parts per bag; one is drawn for each batch."""
    parts: int = 400
    """Number of distinct parts in an episode."""
    sharpness: tuple[float, float] = (0.3, 3.0)
    """Range of s, log-uniform: how strongly a topic determines which parts are drawn."""

    def __post_init__(self) -> None:
        check_sizes(feature_dims=self.feature_dims, topic_dims=self.topic_dims, sizes=self.sizes)
        require(self.parts >= 2, "parts", got=self.parts, allowed="2 or more")
        check_range("sharpness", self.sharpness)

    def choose_batch(self, ranges: EpisodeRanges, generator: torch.Generator) -> SyntheticBatch:
        """Draw the widths, the size of bags and the shape of a batch."""
        shots = ranges.draw_shots(generator)
        topic_dim, size = pick(tuple(product(self.topic_dims, self.sizes)), generator)
        width = pick(self.feature_dims, generator)
        shape = ranges.draw_shape(generator, shots=shots, source="random bags", feature_dim=width)
        return SyntheticBatch(shape, partial(self._draw, topic_dim, size))

    def _draw(
        self, topic_dim: int, size: int, shape: BatchShape, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Draw features (B, n + m, d_T) and classes (B, n + m) of fresh tasks."""
        width, numbers = shape.feature_dim, PerEpisode(shape.episodes, generator)
        classes = draw_classes(shape, generator)
        places = numbers.normal(self.parts, topic_dim)  # u: (B, parts, topic_dim)
        counts = self._draw_bags(classes, places, size, shape.ways, numbers)
        projection = numbers.normal(topic_dim, width) / topic_dim**0.5  # A
        offset = numbers.log_uniform(OFFSET_SIZES) * numbers.normal(1, width)
        part_noise = numbers.uniform((0, MAX_PART_NOISE)) * numbers.normal(self.parts, width)
        vectors = places @ projection + offset + part_noise  # (B, parts, d_T)
        return counts @ vectors / size, classes

    def _draw_bags(
        self, classes: Tensor, places: Tensor, size: int, ways: int, numbers: PerEpisode
    ) -> Tensor:
        """Draw how often each part occurs in each example: (B, n + m, parts)."""
        width = places.shape[-1]
        ranks = torch.arange(1, self.parts + 1, device=places.device)
        rarity = -numbers.uniform((0, MAX_RARITY)) * ranks.log()  # (B, 1, parts)
        topics = numbers.normal(ways, width)  # (B, K, width)
        wandering = numbers.uniform((0, MAX_WANDERING)) * numbers.normal(classes.shape[1], width)
        topics = (take(topics, classes) + wandering) / width**0.5  # (B, n + m, width)
        sharpness = numbers.log_uniform(self.sharpness)
        probabilities = (rarity + sharpness * topics @ places.mT).softmax(dim=-1)
        drawn = torch.multinomial(
            probabilities.flatten(0, 1), size, replacement=True, generator=numbers.generator
        ).view(*classes.shape, size)
        ones = torch.ones_like(drawn, dtype=probabilities.dtype)
        return torch.zeros_like(probabilities).scatter_add_(2, drawn, ones)
