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

from unitail.framework.episode import Episode, Query, Support
from unitail.tasks.shapes import BatchPlan, EpisodeRanges, EpisodeSource, draw_between

WIDTHS = (24, 1024)
"""The least and the most coordinates that R leaves, any order of magnitude as likely."""
MOST_MERGED = 4
"""Classes that become one, at most."""
OFFSETS = (0.1, 4.0)
"""a: between hardly an offset and a dominant one."""
MOST_WEIGHT = 1.0
"""Deviation of log w, at most."""
POWERS = (0.5, 1.5)
MOST_NOISE = 1.0
"""Length of the noise in units of the features' deviation, at most."""
SOMETIMES = 0.4
"""How often each kind of change befalls a disguised batch or episode."""


@dataclass(frozen=True)
class Disguised:
    """A source some of whose batches are disguised."""

    source: EpisodeSource
    share: float
    """Of the batches."""

    def plan(self, ranges: EpisodeRanges, generator: torch.Generator) -> BatchPlan:
        """Let the source plan; perhaps draw a width and how many classes become one."""
        plan = self.source.plan(ranges, generator)
        if _draw(generator) >= self.share:
            return plan
        merged, width = 1, plan.feature_dim
        if _draw(generator) < SOMETIMES:
            merged = draw_between((1, max(1, min(MOST_MERGED, plan.ways // 2))), generator)
        if _draw(generator) < SOMETIMES:
            low, high = (math.log(end) for end in WIDTHS)
            width = min(width, int(math.exp(low + (high - low) * _draw(generator))))
        return replace(
            plan,
            inner=replace(plan, ways=plan.ways // merged * merged),
            feature_dim=width,
            ways=plan.ways // merged,
            shots=draw_between((2, merged * plan.shots), generator) if merged > 1 else plan.shots,
            queries=merged * plan.queries,
        )

    def sample(
        self, plan: BatchPlan, generator: torch.Generator, part: slice | None = None
    ) -> Episode:
        """Draw from the source and disguise what comes; see `EpisodeSource`."""
        if plan.inner is None:
            return self.source.sample(plan, generator, part)
        episode = self.source.sample(plan.inner, generator, part)
        own = part or slice(None)
        features = torch.cat([episode.support.features, episode.query.features], dim=1)
        features = _disguise(features, plan, generator, own)
        rows = plan.inner.num_support
        merged = plan.inner.ways // plan.ways
        shown, asked = episode.support.class_indices // merged, episode.query.class_indices
        kept = _keep_shots(plan, generator)[own]  # (B, n)
        # Which rows are kept has nothing to do with the order of the source, which thus stays
        # random once the kept rows are sorted by it.
        kept = shown.argsort(dim=1, stable=True).gather(1, kept).sort(dim=1).values
        support = features[:, :rows].gather(1, kept.unsqueeze(-1).expand(-1, -1, plan.feature_dim))
        return Episode(
            support=Support(features=support, class_indices=shown.gather(1, kept), ways=plan.ways),
            query=Query(
                features=features[:, rows:],
                class_indices=None if asked is None else asked // merged,
            ),
        )


def _keep_shots(plan: BatchPlan, generator: torch.Generator) -> Tensor:
    """Draw which of the rows, sorted by class, merged classes keep: (B, n), class by class."""
    assert plan.inner is not None
    each = plan.inner.num_support // plan.ways
    keys = torch.rand(plan.episodes, plan.ways, each, generator=generator, device=generator.device)
    places = keys.topk(plan.shots, dim=-1).indices
    starts = each * torch.arange(plan.ways, device=places.device)
    return (starts[:, None] + places).flatten(1)


def _disguise(features: Tensor, plan: BatchPlan, generator: torch.Generator, own: slice) -> Tensor:
    """Change features (B, t, d_T) of the episodes `own`; what is drawn, is drawn for all."""
    count, device = plan.episodes, generator.device

    def uniform(low: float, high: float) -> Tensor:
        drawn = torch.rand(count, 1, 1, generator=generator, device=device)[own]
        return low + (high - low) * drawn

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device=device)

    def sometimes(changed: Tensor, unchanged: Tensor | float) -> Tensor:
        return torch.where(uniform(0, 1) < SOMETIMES, changed, unchanged)

    mean = features.mean(dim=1, keepdim=True)
    offset = sometimes(torch.exp(uniform(*map(math.log, OFFSETS))), 1.0)
    weights = torch.exp(uniform(0, MOST_WEIGHT) * normal(count, 1, features.shape[-1])[own])
    features = (features + (offset - 1) * mean) * sometimes(weights, 1.0)
    if plan.feature_dim < features.shape[-1]:
        features = features @ normal(features.shape[-1], plan.feature_dim) / plan.feature_dim**0.5
    deviation = _length(features - features.mean(dim=1, keepdim=True))
    noise = uniform(0, MOST_NOISE) * deviation * normal(count, *features.shape[1:])[own]
    features = features + sometimes(noise, 0.0)
    size = _length(features)
    powers = features.sign() * size * (features.abs() / size) ** uniform(*POWERS)
    features = sometimes(powers, features)
    lengths = features.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(features.dtype).tiny)
    return sometimes(features / lengths, features)


def _length(features: Tensor) -> Tensor:
    """Return the root mean square of an episode's coordinates, (B, 1, 1)."""
    square = features.pow(2).mean(dim=(1, 2), keepdim=True)
    return square.sqrt().clamp_min(torch.finfo(features.dtype).tiny)


def _draw(generator: torch.Generator) -> float:
    return float(torch.rand((), generator=generator, device=generator.device))
