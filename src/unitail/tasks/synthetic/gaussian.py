"""Gaussian classification tasks, whose Bayes risk is known."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from unitail.errors import require
from unitail.framework.episode import Episode
from unitail.framework.statistics import MeanInterval
from unitail.framework.task import Loss, zero_one_loss
from unitail.randomness import PerEpisode, pick, stream
from unitail.tasks.assemble import draw_classes, split_rows, take
from unitail.tasks.batches import BatchShape, EpisodeRanges, check_counts
from unitail.tasks.synthetic.laws import SyntheticBatch, check_range, check_sizes, noise_size

BAYES_SAMPLES = 200_000
"""Number of rows used to estimate a Bayes risk."""
BAYES_CHUNK = 10_000
"""Number of those rows drawn at a time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianTask:
    """K equally probable classes, p(x | y) = N(means[y], diag(scale²))."""

    means: Tensor
    """Class means, (K, d_T)."""
    scale: Tensor
    """Standard deviation of each coordinate, shared by all classes, (d_T,)."""
    name: str = "gaussian"
    """Name of the task in reports."""
    loss: Loss = zero_one_loss
    """Loss in which risks are measured."""

    def __post_init__(self) -> None:
        shape, scale = tuple(self.means.shape), self.scale
        valid = len(shape) == 2 and shape[0] >= 2 and shape[1] >= 1
        require(valid, "means", got=shape, allowed="a shape (K, d_T) with K of 2 or more")
        valid = scale.shape == shape[1:]
        require(valid, "scale", got=tuple(scale.shape), allowed=f"the shape {shape[1:]}")
        valid = bool((scale > 0).all() and scale.isfinite().all())
        require(valid, "scale", got=scale.tolist(), allowed="finite numbers above 0")
        valid = bool(self.means.isfinite().all())
        require(valid, "means", got="NaN or infinite values", allowed="finite numbers")

    @property
    def feature_dim(self) -> int:
        """d_T."""
        return self.means.shape[1]

    @property
    def ways(self) -> int:
        """K."""
        return self.means.shape[0]

    @property
    def fingerprint(self) -> str:
        """A short digest of means and scales, rounded so that it is the same on every processor."""
        sizes = (self.means.double().norm(), self.scale.double().norm())
        return " ".join(f"{float(size):.6g}" for size in sizes)

    @property
    def bayes_risk(self) -> float:
        """R*, estimated by Monte Carlo; `bayes_risk_interval` has its error."""
        return self.bayes_risk_interval.mean

    @cached_property
    def bayes_risk_interval(self) -> MeanInterval:
        """R* with the interval of its Monte-Carlo estimate.

        For the 0-1 loss it is the mean of 1 - max_y p(y | x), which varies less than the loss
        itself; for other losses the mean loss of the posterior, which is minimal if the loss is
        proper.
        """
        generator = stream(0, "bayes risk")
        chunks = [self._bayes_losses(generator) for _ in range(BAYES_SAMPLES // BAYES_CHUNK)]
        return MeanInterval.of(torch.cat(chunks).numpy())

    def _bayes_losses(self, generator: torch.Generator) -> Tensor:
        """Draw about BAYES_CHUNK rows and return their contributions to the Bayes risk."""
        count = math.ceil(BAYES_CHUNK / self.ways)
        log_probabilities = self.log_posterior(
            self._rows(1, 1 + count, generator)[0, :, 1:]
        )  # (K, count, K)
        if self.loss is zero_one_loss:
            return 1 - log_probabilities.max(dim=-1).values.exp().flatten()
        classes = torch.arange(self.ways, device=log_probabilities.device)[:, None].expand(
            -1, count
        )
        return self.loss(log_probabilities, classes).flatten()

    def log_posterior(self, features: Tensor) -> Tensor:
        """Return log p(y | x), the Bayes hypothesis: (..., d_T) -> (..., K).

        The part of log p(x | y) that is quadratic in x is the same for all classes. What remains
        is linear, and centred first so that it does not cancel badly.
        """
        means, scale = self.means.to(features.device), self.scale.to(features.device)
        centre = means.mean(dim=0)
        centroids = (means - centre) / scale  # (K, d_T)
        scores = (features - centre) / scale @ centroids.T - centroids.square().sum(dim=1) / 2
        return scores.log_softmax(dim=-1)

    def sample(
        self, *, episodes: int, shots: int, queries: int, generator: torch.Generator
    ) -> Episode:
        """Draw N-shot instances on the generator's device, in random order."""
        check_counts(episodes=episodes, shots=shots, queries=queries)
        return split_rows(self._rows(episodes, shots + queries, generator), shots, generator)

    def _rows(self, episodes: int, count: int, generator: torch.Generator) -> Tensor:
        """Draw `count` rows of each class for each episode, (B, K, count, d_T)."""
        means, scale = self.means.to(generator.device), self.scale.to(generator.device)
        return _noisy_rows(
            means.expand(episodes, -1, -1), scale.expand(episodes, -1), count, generator
        )


@dataclass(frozen=True, kw_only=True)
class GaussianTasks:
    """nu: Gaussian tasks with random feature widths, coordinate scales and difficulties."""

    feature_dims: tuple[int, ...] = (8, 16, 32, 64)
    """Feature widths d_T; one is drawn for each batch."""
    separation: tuple[float, float] = (0.5, 3.0)
    """Range of the spread of the class means in units of the scale, log-uniform."""
    scale_spread: float = 0.7
    """Standard deviation of the logarithm of a coordinate's scale."""

    def __post_init__(self) -> None:
        check_sizes(feature_dims=self.feature_dims)
        check_range("separation", self.separation)
        valid = 0 <= self.scale_spread < math.inf
        require(valid, "scale_spread", got=self.scale_spread, allowed="0 or more")

    def choose_batch(self, ranges: EpisodeRanges, generator: torch.Generator) -> SyntheticBatch:
        """Draw the width and the shape of a batch."""
        shape = ranges.draw_shape(
            generator,
            shots=ranges.draw_shots(generator),
            source="gaussian",
            feature_dim=pick(self.feature_dims, generator),
        )
        return SyntheticBatch(shape, self._draw)

    def instances(
        self, *, episodes: int, ways: int, shots: int, queries: int, generator: torch.Generator
    ) -> Episode:
        """Draw an instance of each of `episodes` fresh tasks, on the generator's device."""
        ranges = EpisodeRanges.fixed(episodes=episodes, ways=ways, shots=shots, queries=queries)
        return self.choose_batch(ranges, generator).sample(generator)

    def task(
        self, *, ways: int, generator: torch.Generator, name: str = "gaussian"
    ) -> GaussianTask:
        """Draw one task, from which many instances can then be drawn."""
        means, scale = self._draw_tasks(1, ways, pick(self.feature_dims, generator), generator)
        return GaussianTask(means=means[0], scale=scale[0], name=name)

    def _draw(self, shape: BatchShape, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw features (B, n + m, d_T) and classes (B, n + m) of fresh tasks."""
        means, scale = self._draw_tasks(shape.episodes, shape.ways, shape.feature_dim, generator)
        classes = draw_classes(shape, generator)
        noise = PerEpisode(shape.episodes, generator).normal(classes.shape[1], shape.feature_dim)
        return take(means, classes) + noise * scale.unsqueeze(1), classes

    def _draw_tasks(
        self, episodes: int, ways: int, width: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Draw class means (B, K, d_T) and noise scales (B, d_T)."""
        numbers = PerEpisode(episodes, generator)
        separation = numbers.log_uniform(self.separation)  # (B, 1, 1)
        scale = (self.scale_spread * numbers.normal(1, width)).exp()  # (B, 1, d_T)
        means = numbers.normal(ways, width)
        return means * separation * scale, scale.squeeze(1) * noise_size(width)


def _noisy_rows(means: Tensor, scale: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw `count` rows around each mean (B, K, d_T) with scales (B, d_T): (B, K, count, d_T)."""
    episodes, ways, width = means.shape
    noise = torch.randn(
        episodes, ways, count, width, generator=generator, device=means.device, dtype=means.dtype
    )
    return means.unsqueeze(2) + noise * scale[:, None, None]
