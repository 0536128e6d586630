"""The meta-training loop: sample, draw, forward, loss, backward, clip, step."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from unitail.framework.episode import Episode
from unitail.framework.task import TaskSampler
from unitail.randomness import stream
from unitail.tail.model import Tail
from unitail.training.config import TrainingConfig
from unitail.training.objective import query_loss
from unitail.training.schedules import active_slots, learning_rate


@dataclass(frozen=True)
class StepReport:
    """What a training step did."""

    step: int
    """Steps done so far, this one included."""
    episodes: int
    """Episodes in this step."""
    ways: int
    """Classes in each of its episodes; chance has a loss of log(ways)."""
    loss: float
    """Mean cross-entropy of its queries."""


def meta_train(
    model: Tail,
    tasks: TaskSampler,
    config: TrainingConfig,
    on_step: Callable[[StepReport], None] = lambda report: None,
) -> Tail:
    """Train `model` in place on episodes of `tasks`; `on_step` hears of every step.

    The randomness of a step depends on the seed and the step's number alone.
    """
    device = model.labels.embeddings.device
    optimiser = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    for step in range(config.steps):
        generator = stream(config.seed, "training", step, device=device)
        episode = sample_episode(tasks, config, generator)
        slots = active_slots(step, model.config.dictionary_size, config)
        draw = model.draw(episode.support, generator, slots)

        loss = query_loss(model(episode, draw), episode.query)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, config)
        optimiser.step()
        on_step(StepReport(step + 1, episode.support.num_episodes, episode.ways, loss.item()))
    return model


def sample_episode(
    tasks: TaskSampler, config: TrainingConfig, generator: torch.Generator
) -> Episode:
    """Draw the shape of a step's episodes, then as many episodes as its tokens allow."""
    ways = draw_between(config.ways, generator)
    shots = draw_between(config.shots, generator)
    tokens = ways * (shots + config.queries)
    return tasks.sample(
        episodes=max(1, config.tokens_per_step // tokens),
        ways=ways,
        shots=shots,
        queries=config.queries,
        generator=generator,
    )


def draw_between(bounds: tuple[int, int], generator: torch.Generator) -> int:
    """Draw a whole number uniformly, both bounds included."""
    low, high = bounds
    return int(
        torch.randint(low, high + 1, (), generator=generator, device=generator.device).item()
    )
