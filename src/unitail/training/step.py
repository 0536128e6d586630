"""One training step: sample, forward, loss, backward, clip, update."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from unitail.framework.episode import Episode, Query
from unitail.nn.episode_model import AnyModel, EpisodeDraw, Visibility
from unitail.nn.slot_model import SlotModel
from unitail.randomness import draw_between, draw_uniform, pick, stream
from unitail.tasks.batches import Batch, BatchShape, EpisodeSource
from unitail.training.config import MatmulDtype, OptimiserKind, TrainingConfig
from unitail.training.processes import Processes
from unitail.training.recipe import Recipe
from unitail.training.schedules import active_slots, learning_rate

BETA1 = 0.9
"""Adam's decay rate of gradients."""


class TrainingStep:
    """Runs the steps of a run; a step's random numbers depend only on the seed and its number."""

    def __init__(
        self, recipe: Recipe, source: EpisodeSource, model: AnyModel, processes: Processes
    ) -> None:
        self.recipe = recipe
        self.source = source
        self.model = model
        self.device = processes.device
        self.rank, self.num_processes = processes.index, processes.count
        self.distributed = processes.distribute(model)
        if recipe.training.compile:
            self.distributed.compile(dynamic=False)  # all episodes have one shape
        self.optimiser = make_optimiser(self.distributed, recipe.training)

    def __call__(self, step: int) -> tuple[BatchShape, Tensor]:
        """Run one step; return the shape of its batch and its loss, still on the device.

        The loss is NaN if the gradient is not finite, because then the weights are not either.
        """
        config, ranges, device = self.recipe.training, self.recipe.episodes, self.device
        batch = self.source.choose_batch(ranges, stream(config.seed, "plan", step))
        generator = stream(config.seed, "batch", step, device=device)
        slots = active_slots(step, ranges.ways[1], self.model.config.max_ways, config)
        shard = batch.shape.shard(self.rank, self.num_processes)
        episode, draw = draw_batch(batch, self.model, generator, shard, slots)
        visibility = draw_visibility(config.visibilities, stream(config.seed, "visibility", step))
        episode, pool = draw_pool(episode, config.pools, stream(config.seed, "pool", step))
        if pool is not None:
            visibility = Visibility.ISOLATED

        half = config.precision is MatmulDtype.BFLOAT16
        with torch.autocast(device.type, torch.bfloat16, enabled=half), self._kernels():
            loss = query_loss(self.distributed(episode, draw, visibility, pool), episode.query)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self.distributed.parameters(), config.clip_norm)
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(step, config)
        self.optimiser.step()
        return batch.shape, torch.where(_whole(norm).isfinite(), loss.detach(), torch.nan)

    def _kernels(self) -> AbstractContextManager[None]:
        """Exclude cuDNN attention if shapes vary: it spends a second preparing for each shape."""
        if self.recipe.episodes.one_shape:
            return nullcontext()
        kernels = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
        return sdpa_kernel(kernels)


def draw_batch(
    batch: Batch,
    model: AnyModel,
    generator: torch.Generator,
    shard: slice,
    active_slots: int | None = None,
) -> tuple[Episode, EpisodeDraw]:
    """Draw the episodes of a shard, and the model's random draw for them.

    The draw is made for the whole batch, so it does not depend on the number of processes.
    """
    episode, shape = batch.sample(generator, shard), batch.shape
    draw_for = model.draw_for
    if isinstance(model, SlotModel):  # a growing dictionary has fewer slots at first
        draw_for = partial(model.draw_for, active_slots=active_slots)
    draw: EpisodeDraw = draw_for(
        episodes=shape.episodes,
        ways=shape.ways,
        feature_dim=shape.feature_dim,
        generator=generator,
    )
    return episode, draw.select(shard)


def draw_visibility(
    visibilities: Sequence[Visibility], generator: torch.Generator
) -> Visibility | None:
    """Draw the visibility of a batch; None, the model's default, if the list is empty."""
    return pick(visibilities, generator) if visibilities else None


def draw_pool(
    episode: Episode, share: float, generator: torch.Generator
) -> tuple[Episode, Tensor | None]:
    """In this share of batches, split off some queries as an unlabelled pool (B, u, d_T).

    Return the remaining episode and the pool, or the whole episode and None. Queries come in random
    order, so the first ones are taken; at least one query remains.
    """
    if draw_uniform(generator) >= share:
        return episode, None
    query = episode.query
    assert query.class_indices is not None, "sources sample labelled queries"
    count = draw_between((1, max(1, query.num_query - 1)), generator)
    remaining = replace(
        query, features=query.features[:, count:], class_indices=query.class_indices[:, count:]
    )
    return replace(episode, query=remaining), query.features[:, :count]


def query_loss(scores: Tensor, query: Query) -> Tensor:
    """Return the empirical risk on the queries, as cross-entropy (paper, 4.3): (B, m, K) -> ()."""
    assert query.class_indices is not None, "training queries have labels"
    return F.cross_entropy(scores.flatten(0, 1), query.class_indices.flatten())


def make_optimiser(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Build the optimiser that the recipe names."""
    kind = torch.optim.AdamW if config.optimiser is OptimiserKind.ADAMW else torch.optim.Adam
    return kind(
        model.parameters(),
        betas=(BETA1, config.beta2),
        weight_decay=config.weight_decay,
        fused=all(parameter.is_cuda for parameter in model.parameters()),
    )


def _whole(value: Tensor) -> Tensor:
    """Return a tensor that may be sharded over processes as an ordinary one."""
    return value.full_tensor() if isinstance(value, DTensor) else value
