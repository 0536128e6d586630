r"""Episodes as another encoder, or a coarser question, might have given them.

Banks of two encoders are two kinds of geometry. A disguise makes more of them, episode by episode:

    x  ->  (x - m) diag(w) R + a m diag(w) R + noise,  then powers of coordinates, then unit length

with m the mean of the episode: the common offset is weighed anew by a, coordinates by w, a random R
makes vectors narrower, noise drowns what is weak. Classes are disguised too: g of them become one,
so that a class has several clusters, of which a small support shows only some. A learner that has
seen such tasks has to find out in context which relations to trust, and how far.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unitail.framework.episode import Episode
from unitail.randomness import PerEpisode, draw_between, draw_uniform
from unitail.tasks.assemble import assemble, take
from unitail.tasks.batches import Batch, EpisodeRanges, EpisodeSource

WIDTHS = (24, 1024)
"""The least and the most coordinates that R leaves, any order of magnitude as likely."""
MAX_MERGED = 4
"""Classes that become one, at most."""
OFFSETS = (0.1, 4.0)
"""a: between hardly an offset and a dominant one."""
MAX_WEIGHT = 1.0
"""Deviation of log w, at most."""
POWERS = (0.5, 1.5)
MAX_NOISE = 1.0
"""Length of the noise in units of the features' deviation, at most."""
CHANGE_SHARE = 0.4
"""How often each kind of change befalls a disguised batch or episode."""


@dataclass(frozen=True)
class Disguised:
    """A source some of whose batches are disguised."""

    source: EpisodeSource
    share: float
    """Of the batches."""

    def choose_batch(self, ranges: EpisodeRanges, generator: torch.Generator) -> Batch:
        """Let the source choose; perhaps draw a width and how many classes become one."""
        batch = self.source.choose_batch(ranges, generator)
        if draw_uniform(generator) >= self.share:
            return batch
        inner, merged = batch.shape, 1
        width = inner.feature_dim
        if draw_uniform(generator) < CHANGE_SHARE:
            merged = draw_between((1, max(1, min(MAX_MERGED, inner.ways // 2))), generator)
        if draw_uniform(generator) < CHANGE_SHARE:
            low, high = (math.log(end) for end in WIDTHS)
            width = min(width, int(math.exp(low + (high - low) * draw_uniform(generator))))
        shots = inner.shots
        if merged > 1:
            shots = draw_between((2, merged * inner.shots), generator)
        shape = replace(
            inner,
            feature_dim=width,
            ways=inner.ways // merged,
            shots=shots,
            queries=merged * inner.queries,
        )
        return DisguisedBatch(shape, batch.with_ways(shape.ways * merged), merged)


@dataclass(frozen=True, eq=False)
class DisguisedBatch(Batch):
    """Another batch with other features, and some of its classes merged into one."""

    inner: Batch
    merged: int
    """How many classes become one."""

    def sample(self, generator: torch.Generator, shard: slice | None = None) -> Episode:
        """Draw the inner batch and disguise what comes; see `Batch`."""
        episode, own = self.inner.sample(generator, shard), shard or slice(None)
        support, query = episode.support, episode.query
        assert query.class_indices is not None, "sources sample labelled queries"
        features = torch.cat([support.features, query.features], dim=1)
        features = self._change(features, generator, own)
        classes = torch.cat([support.class_indices, query.class_indices], dim=1) // self.merged
        rows = support.num_support
        shown = classes[:, :rows].argsort(dim=1, stable=True).gather(1, self._keep(generator)[own])
        # Which rows are kept does not depend on the inner order, which is random; so they are in
        # random order again once they are sorted by it.
        asked = torch.arange(rows, classes.shape[1], device=shown.device).expand(len(shown), -1)
        kept = torch.cat([shown.sort(dim=1).values, asked], dim=1)
        return assemble(
            take(features, kept),
            classes.gather(1, kept),
            ways=self.shape.ways,
            num_support=self.shape.num_support,
        )

    def _keep(self, generator: torch.Generator) -> Tensor:
        """Draw which of the support rows, sorted by class, are kept: (B, n), class by class."""
        shape, device = self.shape, generator.device
        each = self.inner.shape.num_support // shape.ways
        keys = torch.rand(shape.episodes, shape.ways, each, generator=generator, device=device)
        starts = each * torch.arange(shape.ways, device=device)
        return (starts[:, None] + keys.topk(shape.shots, dim=-1).indices).flatten(1)

    def _change(self, features: Tensor, generator: torch.Generator, own: slice) -> Tensor:
        """Change features (B, t, d_T) of the episodes `own`; what is drawn, is drawn for all."""
        numbers, width = PerEpisode(self.shape.episodes, generator), self.shape.feature_dim

        def sometimes(changed: Tensor, unchanged: Tensor | float) -> Tensor:
            return torch.where(numbers.uniform((0, 1))[own] < CHANGE_SHARE, changed, unchanged)

        mean = features.mean(dim=1, keepdim=True)
        offset = sometimes(numbers.log_uniform(OFFSETS)[own], 1.0)
        deviations = numbers.uniform((0, MAX_WEIGHT)) * numbers.normal(1, features.shape[2])
        weights = deviations[own].exp()
        features = (features + (offset - 1) * mean) * sometimes(weights, 1.0)
        if width < features.shape[2]:
            turn = torch.randn(
                features.shape[2], width, generator=generator, device=generator.device
            )
            features = features @ turn / width**0.5
        deviation = _length(features - features.mean(dim=1, keepdim=True))
        strength = numbers.uniform((0, MAX_NOISE))[own] * deviation
        noise = strength * numbers.normal(*features.shape[1:])[own]
        features = features + sometimes(noise, 0.0)
        size = _length(features)
        powers = numbers.uniform(POWERS)[own]
        features = sometimes(features.sign() * size * (features.abs() / size) ** powers, features)
        lengths = features.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(features.dtype).tiny)
        return sometimes(features / lengths, features)


def _length(features: Tensor) -> Tensor:
    """Return the root mean square of an episode's coordinates, (B, 1, 1)."""
    square = features.pow(2).mean(dim=(1, 2), keepdim=True)
    return square.sqrt().clamp_min(torch.finfo(features.dtype).tiny)
