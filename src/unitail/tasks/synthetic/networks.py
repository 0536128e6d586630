"""Synthetic tasks with curved classes: Gaussian clusters mapped through a random network."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from itertools import product

import torch
from torch import Tensor

from unitail.errors import require
from unitail.randomness import PerEpisode, pick
from unitail.tasks.assemble import draw_classes, take
from unitail.tasks.batches import BatchShape, EpisodeRanges
from unitail.tasks.synthetic.laws import SyntheticBatch, check_range, check_sizes, noise_size


class Activation(StrEnum):
    """Activation function of a hidden layer."""

    TANH = "tanh"
    RELU = "relu"
    SINE = "sine"


FUNCTIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    Activation.TANH: torch.tanh,
    Activation.RELU: torch.relu,
    Activation.SINE: torch.sin,
}


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """The random networks of one batch."""

    latent_dim: int
    """Width of the space in which classes are clusters."""
    hidden_dim: int
    """Width of each hidden layer."""
    depth: int
    """Number of hidden layers."""
    activation: Activation
    """The function between the layers."""


@dataclass(frozen=True, kw_only=True)
class RandomNetworkTasks:
    """nu: x = W z_depth + b, z_i = f(W_i z_{i-1} + b_i), z_0 ~ N(prototype of the class, noise²).

    Every episode draws its own prototypes and weights, every batch its own architecture. A class is
    a curved piece of a low-dimensional surface. Features are correlated and of low rank, like those
    of encoders and unlike those of `GaussianTasks`.
    """

    feature_dims: tuple[int, ...] = (32, 64, 128, 256)
    """Feature widths d_T; one is drawn for each batch."""
    latent_dims: tuple[int, ...] = (4, 8, 16)
    """Widths of the space in which classes are clusters; one is drawn for each batch."""
    hidden_dims: tuple[int, ...] = (32, 64)
    """Widths of the hidden layers; one is drawn for each batch."""
    depths: tuple[int, ...] = (1, 2, 3)
    """Numbers of hidden layers; one is drawn for each batch."""
    activations: tuple[Activation, ...] = tuple(Activation)
    """Activation functions; one is drawn for each batch."""
    separation: tuple[float, float] = (0.5, 3.0)
    """Range of the spread of the prototypes in units of the noise, log-uniform."""
    gain: float = 1.5
    """Standard deviation of a layer's sums for inputs of size 1; curvature grows with it."""

    def __post_init__(self) -> None:
        check_sizes(feature_dims=self.feature_dims, latent_dims=self.latent_dims)
        check_sizes(hidden_dims=self.hidden_dims, depths=self.depths)
        require(bool(self.activations), "activations", got="none", allowed="one or more")
        check_range("separation", self.separation)
        require(0 < self.gain < math.inf, "gain", got=self.gain, allowed="a number above 0")

    @cached_property
    def architectures(self) -> tuple[Architecture, ...]:
        """All architectures; each batch draws one."""
        choices = product(self.latent_dims, self.hidden_dims, self.depths, self.activations)
        return tuple(
            Architecture(latent_dim=latent, hidden_dim=hidden, depth=depth, activation=activation)
            for latent, hidden, depth, activation in choices
        )

    def choose_batch(self, ranges: EpisodeRanges, generator: torch.Generator) -> SyntheticBatch:
        """Draw the width, the architecture and the shape of a batch."""
        shots = ranges.draw_shots(generator)
        architecture = pick(self.architectures, generator)
        width = pick(self.feature_dims, generator)
        shape = ranges.draw_shape(
            generator, shots=shots, source="random network", feature_dim=width
        )
        return SyntheticBatch(shape, partial(self._draw, architecture))

    def _draw(
        self, architecture: Architecture, shape: BatchShape, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Draw features (B, n + m, d_T) and classes (B, n + m) of fresh tasks."""
        numbers = PerEpisode(shape.episodes, generator)
        classes = draw_classes(shape, generator)
        states = self._draw_latent(classes, shape.ways, architecture.latent_dim, numbers)
        for _ in range(architecture.depth):
            sums = self._random_layer(states, architecture.hidden_dim, numbers)
            states = FUNCTIONS[architecture.activation](sums)  # (B, n + m, hidden)
        return self._random_layer(states, shape.feature_dim, numbers), classes

    def _draw_latent(self, classes: Tensor, ways: int, width: int, numbers: PerEpisode) -> Tensor:
        """Draw points around the class prototypes, scaled to size 1: (B, n + m, latent)."""
        separation = numbers.log_uniform(self.separation)  # (B, 1, 1)
        prototypes = numbers.normal(ways, width)
        noise, size = numbers.normal(classes.shape[1], width), noise_size(width)
        points = take(prototypes, classes) * separation + noise * size
        return points / (separation.square() + size**2).sqrt()

    def _random_layer(self, states: Tensor, width: int, numbers: PerEpisode) -> Tensor:
        """Apply a random affine map to each episode's states (B, T, in): (B, T, width)."""
        inputs = states.shape[2]
        weights, bias = numbers.normal(inputs, width), numbers.normal(1, width)
        return torch.baddbmm(bias, states, weights * (self.gain / math.sqrt(inputs)))
