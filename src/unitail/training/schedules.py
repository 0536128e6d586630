"""Schedules as pure functions of the step, so that a resumed run needs no state for them."""

import math

from unitail.training.config import Schedule, TrainingConfig

FINAL_SHARE = 0.02
"""The cosine ends at this share of the peak learning rate."""
CYCLE_FLOOR = 0.1
"""The lowest point of the cyclic schedule, as a share of the peak learning rate."""


def learning_rate(step: int, config: TrainingConfig) -> float:
    """Return the learning rate of a step."""
    if config.schedule is Schedule.CYCLIC:
        return config.learning_rate * _triangle(step, config)
    return config.learning_rate * _cosine(step, config)


def active_slots(
    step: int, ways: int, dictionary_size: int | None, config: TrainingConfig
) -> int | None:
    """Return the active slots of a dictionary that grows linearly from `ways` to all its slots.

    None if the model has no dictionary.
    """
    growing_steps = config.dictionary_growth * config.steps
    if dictionary_size is None or step >= growing_steps:
        return dictionary_size
    return ways + int((dictionary_size - ways) * step / growing_steps)


def _cosine(step: int, config: TrainingConfig) -> float:
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    progress = (step - config.warmup_steps) / (config.steps - config.warmup_steps)
    return FINAL_SHARE + (1 - FINAL_SHARE) * 0.5 * (1 + math.cos(math.pi * progress))


def _triangle(step: int, config: TrainingConfig) -> float:
    half = config.cycle_steps / 2
    distance = abs(step % config.cycle_steps - half) / half  # 1 at the lowest points, 0 at the peak
    return CYCLE_FLOOR + (1 - CYCLE_FLOOR) * (1 - distance)
