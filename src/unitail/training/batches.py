"""A batch of a run: episodes, and the draw for them, one part for each process."""

from typing import Any

import torch

from unitail.framework.episode import Episode
from unitail.nn.draw import Draw
from unitail.nn.episode_model import EpisodeModel
from unitail.tasks.batching import BatchPlan, EpisodeSource


def draw_batch(
    source: EpisodeSource,
    plan: BatchPlan,
    model: EpisodeModel[Any],
    generator: torch.Generator,
    part: slice,
    active_slots: int | None = None,
) -> tuple[Episode, Draw]:
    """Draw `part` of a planned batch and of its draw.

    The draw is made for the whole batch, so it is the same however many processes share it.
    """
    episode = source.sample(plan, generator, part)
    draw = model.draw_for(
        episodes=plan.episodes,
        ways=plan.ways,
        feature_dim=plan.feature_dim,
        generator=generator,
        active_slots=active_slots,
    )
    return episode, draw.part(part)
