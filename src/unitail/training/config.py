"""How a model is meta-trained."""

from dataclasses import dataclass

from unitail.configuration import require


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Episodes, optimiser and schedules of a meta-training run."""

    steps: int
    """Optimiser steps, each on a fresh batch of episodes of one shape."""
    tokens_per_step: int
    """A batch holds as many episodes as fit into this many support and query tokens."""
    ways: tuple[int, int]
    """Least and most classes of an episode; each step draws a number between them."""
    shots: tuple[int, int]
    """Least and most labelled examples of a class."""
    queries: int
    """Queries of each class."""
    learning_rate: float
    """The largest learning rate."""
    warmup_steps: int = 0
    """Steps over which the learning rate rises; afterwards it falls as a cosine."""
    dictionary_growth: float = 0.0
    """Share of the run over which the dictionary grows from the most ways to all its slots."""
    clip_norm: float = 1.0
    """Gradients longer than this are shortened to it."""
    seed: int = 0
    """Seed of weights, episodes and draws."""

    def __post_init__(self) -> None:
        for name in ("steps", "tokens_per_step", "queries"):
            require(getattr(self, name) >= 1, name, got=getattr(self, name), allowed="1 or more")
        for name, least in (("ways", 2), ("shots", 1)):
            bounds = getattr(self, name)
            require(
                len(bounds) == 2 and least <= bounds[0] <= bounds[1],
                name,
                got=bounds,
                allowed=f"[low, high] with {least} <= low <= high",
            )
        require(
            self.learning_rate > 0,
            "learning_rate",
            got=self.learning_rate,
            allowed="a positive number",
        )
        require(
            0 <= self.warmup_steps < self.steps,
            "warmup_steps",
            got=self.warmup_steps,
            allowed=f"0 to {self.steps - 1}, fewer than the steps",
        )
        require(
            0 <= self.dictionary_growth <= 1,
            "dictionary_growth",
            got=self.dictionary_growth,
            allowed="a share between 0 and 1",
        )
