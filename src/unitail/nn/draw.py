"""A draw: all the randomness of a batch of episodes, as a value."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from unitail.errors import DrawMismatch, TooManyClasses
from unitail.framework.episode import Support
from unitail.nn.projection import Projection
from unitail.randomness import random_injections


@dataclass(frozen=True, eq=False)
class Draw:
    """(pi, rho) for each episode of a batch; given a draw, a model is deterministic."""

    projection: Projection
    """pi, features into R^d_data."""
    injection: Tensor
    """rho, the dictionary slot of each class: (B, K)."""

    def part(self, episodes: slice) -> Self:
        """Keep some episodes of the batch, as one of several processes does."""
        return type(self)(self.projection.part(episodes), self.injection[episodes])

    def to(self, device: torch.device | str) -> Self:
        """Move to a device."""
        return type(self)(self.projection.to(device), self.injection.to(device))

    def check_fits(self, support: Support, projected_dim: int) -> None:
        """Refuse a support of another shape, and a model of another d_data."""
        if self.projection.projected_dim != projected_dim:
            raise DrawMismatch(
                "the draw was made for another model",
                got=f"a projection to width {self.projection.projected_dim}",
                allowed=f"the model's projected_dim, {projected_dim}",
            )
        for what, made_for, got in (
            ("feature width", self.projection.feature_dim, support.feature_dim),
            ("number of classes", self.injection.shape[1], support.ways),
            ("number of episodes", self.injection.shape[0], support.num_episodes),
        ):
            if made_for != got:
                raise DrawMismatch(
                    f"the draw was made for another {what}",
                    got=f"a support with {got}",
                    allowed=f"{made_for}, as the draw was made for",
                )


def draw_injections(
    episodes: int, ways: int, active_slots: int, generator: torch.Generator
) -> Tensor:
    """Draw rho, a uniform injection of the K classes into the first `active_slots`: (B, K) slots.

    A dictionary that grows during training is one whose active slots become more.
    """
    if ways > active_slots:
        raise TooManyClasses(
            "the task has more classes than the model has slots",
            got=f"{ways} classes",
            allowed=f"at most {active_slots}",
        )
    return random_injections(episodes, ways, active_slots, generator)
