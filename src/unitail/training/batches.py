"""A batch of a run: episodes, and the draw for them, one part for each process."""

from collections.abc import Sequence

import torch

from unitail.framework.episode import Episode
from unitail.nn.draw import Draw
from unitail.nn.episode_model import AnyModel
from unitail.nn.visibility import Visibility
from unitail.tasks.shapes import BatchPlan, EpisodeSource, draw_between


def draw_batch(
    source: EpisodeSource,
    plan: BatchPlan,
    model: AnyModel,
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


def draw_visibility(
    visibilities: Sequence[Visibility], generator: torch.Generator
) -> Visibility | None:
    """Draw who sees whom in a batch; None, the model's own, if there is nothing to choose from."""
    if not visibilities:
        return None
    return visibilities[draw_between((0, len(visibilities) - 1), generator)]
