"""How a model is meta-trained."""

import math
from dataclasses import dataclass
from enum import StrEnum

from unitail.configuration import require_at_least
from unitail.errors import require
from unitail.nn.episode_model import Visibility

DEFAULT_SEED = 0
"""The seed of a recipe that states no other; it also decides which classes are held out."""


class OptimiserKind(StrEnum):
    """What turns gradients into steps."""

    ADAM = "adam"
    """The paper's."""
    ADAMW = "adamw"
    """Adam with decoupled weight decay."""


class Schedule(StrEnum):
    """How the learning rate changes."""

    COSINE = "cosine"
    """A linear warm-up, then half a cosine."""
    CYCLIC = "cyclic"
    """The paper's circular schedule: a triangle that repeats."""


class MatmulDtype(StrEnum):
    """The dtype of the matrix products; weights and optimiser keep float32."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Optimiser and schedules of a meta-training run; its episodes are in `EpisodeRanges`."""

    steps: int
    """Optimiser steps, each on a fresh batch of episodes of one shape."""
    learning_rate: float
    """The largest learning rate."""
    optimiser: OptimiserKind = OptimiserKind.ADAM
    """Adam or AdamW."""
    beta2: float = 0.98
    """Adam's decay of squared gradients; 0.999 remembers longer."""
    weight_decay: float = 0.0
    """AdamW's decay."""
    schedule: Schedule = Schedule.COSINE
    """The course of the learning rate."""
    warmup_steps: int = 0
    """Steps over which the cosine schedule rises first."""
    cycle_steps: int = 2000
    """Steps of one triangle, up and down, of the cyclic schedule."""
    dictionary_growth: float = 0.0
    """Share of the run over which the dictionary grows from the most ways to all its slots."""
    clip_norm: float = 1.0
    """Gradients longer than this are shortened to it."""
    precision: MatmulDtype = MatmulDtype.FLOAT32
    """The dtype of the matrix products."""
    visibilities: tuple[Visibility, ...] = ()
    """Who sees whom: each step draws one of these; none means the model's own."""
    pools: float = 0.0
    """The share of steps in which some of the queries are read as a pool and the others asked."""
    start_share: float = 0.0
    """Of the weights that the run began with, the share in those that it ends with.

    A mean of the two keeps what the first knew where the new tasks tell nothing about it."""
    compile: bool = False
    """Compile the network; faster on a GPU after a slow first step."""
    report_every: int = 20
    """Steps between entries of the run log."""
    checkpoint_every: int = 500
    """Steps between checkpoints."""
    seed: int = DEFAULT_SEED
    """Seed of weights, episodes and draws."""

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
    """When and on what a run is validated: classes, or synthetic tasks, kept out of training."""

    every: int = 500
    """Steps between validations; the last step is always validated."""
    episodes: int = 200
    """Episodes for each number of shots; a multiple of the batches' multiple."""
    ways: int = 5
    """Classes of an episode."""
    shots: tuple[int, ...] = (1, 5)
    """Labelled examples of a class; the best checkpoint has the best mean over these."""
    queries: int = 10
    """Queries of a class."""

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
