r"""Augment episodes so that they look as if they came from another encoder or coarser classes.

Banks of two encoders have only two kinds of geometry. A disguise creates more, one per episode:

    x  ->  (x - m) diag(w) R + a m diag(w) R + noise,  then powers of coordinates, then unit length

with m the mean of the episode: a rescales the common offset, w the coordinates, a random projection
R makes vectors narrower, and noise hides weak signals. Classes are disguised too: g of them are
merged into one, which then has several clusters, and a small support shows only some of them. A
learner trained on such tasks has to infer in context which relations to trust, and how far.
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
"""Smallest and largest output width of R, log-uniform."""
MAX_MERGED = 4
"""Largest number of classes merged into one."""
OFFSET_FACTORS = (0.1, 4.0)
"""Range of a, from almost no offset to a dominant one."""
MAX_WEIGHT = 1.0
"""Largest standard deviation of log w."""
POWERS = (0.5, 1.5)
MAX_NOISE = 1.0
"""Largest size of the noise, in units of the features' standard deviation."""
CHANGE_SHARE = 0.4
"""Probability of each kind of change in a disguised batch or episode."""


@dataclass(frozen=True)
class Disguised:
    """A source that disguises some of another source's batches."""

    source: EpisodeSource
    share: float
    """Fraction of the batches that are disguised."""

    def choose_batch(self, ranges: EpisodeRanges, generator: torch.Generator) -> Batch:
        """Choose a batch; perhaps draw a smaller width and a number of classes to merge."""
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
    """A batch whose features are transformed and whose classes are merged."""

    inner: Batch
    merged: int
    """Number of classes merged into one."""

    def sample(self, generator: torch.Generator, shard: slice | None = None) -> Episode:
        """Draw the inner batch and disguise it; see `Batch`."""
        episode, selected = self.inner.sample(generator, shard), shard or slice(None)
        support, query = episode.support, episode.query
        assert query.class_indices is not None, "sources sample labelled queries"
        features = torch.cat([support.features, query.features], dim=1)
        features = self._change(features, generator, selected)
        classes = torch.cat([support.class_indices, query.class_indices], dim=1) // self.merged
        rows = support.num_support
        by_class = classes[:, :rows].argsort(dim=1, stable=True)
        labelled = by_class.gather(1, self._keep(generator)[selected])
        # Which rows are kept does not depend on their order in the inner episode, which is random.
        # So sorting the kept rows by row number leaves them in random order.
        queries = torch.arange(rows, classes.shape[1], device=labelled.device)
        queries = queries.expand(len(labelled), -1)
        kept = torch.cat([labelled.sort(dim=1).values, queries], dim=1)
        return assemble(
            take(features, kept),
            classes.gather(1, kept),
            ways=self.shape.ways,
            num_support=self.shape.num_support,
        )

    def _keep(self, generator: torch.Generator) -> Tensor:
        """Draw which support rows to keep, as indices into the rows sorted by class: (B, n)."""
        shape, device = self.shape, generator.device
        per_class = self.inner.shape.num_support // shape.ways
        keys = torch.rand(shape.episodes, shape.ways, per_class, generator=generator, device=device)
        starts = per_class * torch.arange(shape.ways, device=device)
        return (starts[:, None] + keys.topk(shape.shots, dim=-1).indices).flatten(1)

    def _change(self, features: Tensor, generator: torch.Generator, selected: slice) -> Tensor:
        """Transform features (B, t, d_T) of the selected episodes.

        Random numbers are drawn for all episodes of the batch, selected or not.
        """
        numbers, width = PerEpisode(self.shape.episodes, generator), self.shape.feature_dim

        def sometimes(changed: Tensor, unchanged: Tensor | float) -> Tensor:
            applied = numbers.uniform((0, 1))[selected] < CHANGE_SHARE
            return torch.where(applied, changed, unchanged)

        mean = features.mean(dim=1, keepdim=True)
        offset = sometimes(numbers.log_uniform(OFFSET_FACTORS)[selected], 1.0)
        deviations = numbers.uniform((0, MAX_WEIGHT)) * numbers.normal(1, features.shape[2])
        weights = deviations[selected].exp()
        features = (features + (offset - 1) * mean) * sometimes(weights, 1.0)
        if width < features.shape[2]:
            projection = torch.randn(
                features.shape[2], width, generator=generator, device=generator.device
            )
            features = features @ projection / width**0.5
        deviation = _length(features - features.mean(dim=1, keepdim=True))
        strength = numbers.uniform((0, MAX_NOISE))[selected] * deviation
        noise = strength * numbers.normal(*features.shape[1:])[selected]
        features = features + sometimes(noise, 0.0)
        size = _length(features)
        powers = numbers.uniform(POWERS)[selected]
        features = sometimes(features.sign() * size * (features.abs() / size) ** powers, features)
        lengths = features.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(features.dtype).tiny)
        return sometimes(features / lengths, features)


def _length(features: Tensor) -> Tensor:
    """Return the root mean square of an episode's coordinates, (B, 1, 1)."""
    square = features.pow(2).mean(dim=(1, 2), keepdim=True)
    return square.sqrt().clamp_min(torch.finfo(features.dtype).tiny)
