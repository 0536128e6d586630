"""What changes in the course of a run, as functions of the step."""

import math

from unitail.training.config import TrainingConfig

FINAL_SHARE = 0.02
"""The learning rate ends at this share of its largest value."""


def learning_rate(step: int, config: TrainingConfig) -> float:
    """Rise linearly over the warm-up, then fall as half a cosine."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    progress = (step - config.warmup_steps) / (config.steps - config.warmup_steps)
    share = 0.5 * (1 + math.cos(math.pi * progress))
    return config.learning_rate * (FINAL_SHARE + (1 - FINAL_SHARE) * share)


def active_slots(step: int, dictionary_size: int, config: TrainingConfig) -> int:
    """Grow the dictionary linearly, from the most ways of an episode to all its slots."""
    growing_steps = config.dictionary_growth * config.steps
    if step >= growing_steps:
        return dictionary_size
    first = config.ways[1]
    return first + int((dictionary_size - first) * step / growing_steps)
