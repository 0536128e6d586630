"""Configuration of meta-training and validation: the [training] and [validation] tables."""

import math
from dataclasses import dataclass
from enum import StrEnum

from unitail.configuration import require_at_least
from unitail.errors import require
from unitail.nn.episode_model import Visibility

DEFAULT_SEED = 0
"""Default seed of a recipe; it also determines which classes are held out."""


class OptimiserKind(StrEnum):
    """Optimiser."""

    ADAM = "adam"
    """Adam, as in the paper."""
    ADAMW = "adamw"
    """Adam with decoupled weight decay."""


class Schedule(StrEnum):
    """Learning-rate schedule."""

    COSINE = "cosine"
    """A linear warm-up, then a half-cosine decay."""
    CYCLIC = "cyclic"
    """The paper's circular schedule: a repeating triangle."""


class MatmulDtype(StrEnum):
    """Dtype of matrix products; weights and optimiser state stay in float32."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Optimiser and schedules of a meta-training run; `EpisodeRanges` describes its episodes."""

    steps: int
    """Number of optimiser steps; each uses a fresh batch of episodes of the same shape."""
    learning_rate: float
    """Peak learning rate."""
    optimiser: OptimiserKind = OptimiserKind.ADAM
    """Optimiser: "adam" or "adamw"."""
    beta2: float = 0.98
    """Adam's decay rate of squared gradients; larger values average over more steps."""
    weight_decay: float = 0.0
    """Weight decay of AdamW."""
    schedule: Schedule = Schedule.COSINE
    """Learning-rate schedule: "cosine" or "cyclic"."""
    warmup_steps: int = 0
    """Number of warm-up steps of the cosine schedule."""
    cycle_steps: int = 2000
    """Length of a cycle (up and down) of the cyclic schedule, in steps."""
    dictionary_growth: float = 0.0
    """Share of the run over which the dictionary grows from the largest ways to all its slots."""
    clip_norm: float = 1.0
    """Gradient norm above which gradients are clipped."""
    precision: MatmulDtype = MatmulDtype.FLOAT32
    """Dtype of matrix products: "float32" or "bfloat16"."""
    visibilities: tuple[Visibility, ...] = ()
    """Attention visibilities; each step draws one of these. Empty: the model's default."""
    pools: float = 0.0
    """Share of steps in which some queries serve as an unlabelled pool for the other queries."""
    start_share: float = 0.0
    """Share of the starting weights in the final weights, which are a weighted mean of the two.

    Averaging preserves what the starting weights know and the new tasks do not cover."""
    compile: bool = False
    """Whether to compile the network: faster on a GPU after a slow first step."""
    report_every: int = 20
    """Steps between entries of the run log."""
    checkpoint_every: int = 500
    """Steps between checkpoints."""
    seed: int = DEFAULT_SEED
    """Seed of initial weights, episodes and draws."""

    def __post_init__(self) -> None:
        require_at_least(1, self, "steps", "cycle_steps", "report_every", "checkpoint_every")
        for name in ("learning_rate", "clip_norm"):
            value = getattr(self, name)
            require(0 < value < math.inf, name, got=value, allowed="a finite number above 0")
        require(
            0 <= self.warmup_steps < self.steps,
            "warmup_steps",
            got=self.warmup_steps,
            allowed=f"0 to {self.steps - 1}, fewer than the steps",
        )
        for name in ("dictionary_growth", "weight_decay", "pools", "start_share"):
            value = getattr(self, name)
            require(0 <= value <= 1, name, got=value, allowed="between 0 and 1")
        require(0 <= self.beta2 < 1, "beta2", got=self.beta2, allowed="0 or more, below 1")
        require(
            self.weight_decay == 0 or self.optimiser is OptimiserKind.ADAMW,
            "weight_decay",
            got=self.weight_decay,
            allowed='0, or optimiser = "adamw"',
        )


@dataclass(frozen=True, kw_only=True)
class ValidationConfig:
    """When and on what to validate a run: held-out classes, or fresh synthetic tasks."""

    every: int = 500
    """Steps between validations; the last step is always followed by one."""
    episodes: int = 200
    """Number of episodes for each number of shots; a multiple of `episodes.multiple`."""
    ways: int = 5
    """Number of classes per episode."""
    shots: tuple[int, ...] = (1, 5)
    """Numbers of labelled examples per class; the best model has the highest mean over them."""
    queries: int = 10
    """Number of queries per class."""

    def __post_init__(self) -> None:
        require(self.every >= 1, "every", got=self.every, allowed="1 or more")
        require(self.episodes >= 8, "episodes", got=self.episodes, allowed="8 or more")
        require(self.ways >= 2, "ways", got=self.ways, allowed="2 or more")
        require(self.queries >= 1, "queries", got=self.queries, allowed="1 or more")
        require(
            bool(self.shots) and min(self.shots) >= 1,
            "shots",
            got=self.shots,
            allowed="one or more numbers of 1 or more",
        )
