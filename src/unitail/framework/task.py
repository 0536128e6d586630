"""Tasks and losses (paper, section 2)."""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from unitail.framework.episode import Episode


class Loss(Protocol):
    """The loss l of a task, for predictions given as log-probabilities."""

    def __call__(self, log_probabilities: Tensor, class_indices: Tensor) -> Tensor:
        """Return the loss of each of (..., K) log-probabilities, given the true classes (...)."""
        ...


def zero_one_loss(log_probabilities: Tensor, class_indices: Tensor) -> Tensor:
    """Return 1 where the most probable class is wrong, otherwise 0."""
    return (log_probabilities.argmax(dim=-1) != class_indices).to(log_probabilities.dtype)


def log_loss(log_probabilities: Tensor, class_indices: Tensor) -> Tensor:
    """Return minus the log-probability of the true class."""
    return -log_probabilities.gather(-1, class_indices.unsqueeze(-1)).squeeze(-1)


def accuracy(log_probabilities: Tensor, class_indices: Tensor) -> Tensor:
    """Return the share of right answers in each episode: (B, m, K), (B, m) -> (B,)."""
    return 1 - zero_one_loss(log_probabilities, class_indices).mean(dim=-1)


@runtime_checkable
class Task(Protocol):
    """T = (X, Y, p, l): classes to tell apart, data to draw from, and a loss."""

    @property
    def name(self) -> str:
        """The name of the task in reports."""
        ...

    @property
    def feature_dim(self) -> int:
        """d_T, the width of the encoded inputs."""
        ...

    @property
    def ways(self) -> int:
        """K, the number of classes."""
        ...

    @property
    def loss(self) -> Loss:
        """The loss that risks are measured in."""
        ...

    @property
    def bayes_risk(self) -> float | None:
        """R*, the smallest possible risk; None if unknown."""
        ...

    def sample(
        self, *, episodes: int, shots: int, queries: int, generator: torch.Generator
    ) -> Episode:
        """Draw N-shot instances of this task: `shots` and `queries` rows of each class.

        Support and queries are in random order, so positions carry no information about classes.
        """
        ...
