r"""Expand table columns for a model that only sees angles and distances.

With standardised columns alone such a model can represent little more than linear functions. Two
things are added, both learned from the labelled rows:

**Steps.** Each column x of numbers gets STEPS extra indicators x > t. Each t lies between a
quantile of the column and the next larger value, at the golden section, the point that is worst
approximated by fractions. So neither the column's values nor others with as many decimals coincide
with t, and rounding flips no indicator. The indicators are scaled to vary together as much as the
column: E |s - s'|² = 2 for two rows drawn at random. Their squared distance is the share of rows
between two values: it depends on ranks only, and sums of any functions of single columns become
linear.

**Weights.** The share of a column's variance (steps included) that the classes explain is

    R = Σ_k n_k |m_k - m|² / Σ_i |x_i - m|²,    r = max(0, (R - R0) / (1 - R0)),  R0 = (K-1)/(n-1),

where R0 is the mean of R for shuffled labels. The column is multiplied by √(r + mean r), scaled to
a mean square of one: columns without information about the classes lose at most half of their
weight relative to an average one, and informative columns gain. With fewer than two rows per class
there is not enough data, and all weights are one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

STEPS = 8
"""Largest number of thresholds per column."""
MAX_WIDTH = 2048
"""Largest total number of steps; with more columns, each gets fewer thresholds, or none."""
GOLDEN = (3 - math.sqrt(5)) / 2
"""Position of a threshold between two values; midway between 0.1 and 0.3, it would equal 0.2."""
MIN_GAP = 1e-6
"""Standardised values that are closer than this differ only by rounding."""
CHUNK = 1 << 22
"""Number of values that fitting holds in memory at once, besides the table itself."""


def steps_per_column(columns: int) -> int:
    """Return the number of thresholds per column for this number of columns."""
    return min(STEPS, MAX_WIDTH // max(1, columns))


@dataclass(frozen=True, eq=False)
class TableView:
    """Steps and weights for the tables of B episodes with d standardised coordinates each."""

    stepped: Tensor
    """Indices of the coordinates that have steps, (c,)."""
    thresholds: Tensor
    """Shape (B, 1, steps, c)."""
    means: Tensor
    """Means of the indicators, (B, 1, steps, c)."""
    factors: Tensor
    """Scale of the steps of each coordinate, 0 if it is constant: (B, 1, 1, c)."""
    weights: Tensor
    """Weights of the coordinates, (B, 1, d)."""

    @classmethod
    def of(cls, support: Tensor, class_indices: Tensor, ways: int, stepped: Tensor) -> "TableView":
        """Fit to labelled rows (B, n, d) of the classes (B, n)."""
        numbers, (episodes, rows, width) = support[:, :, stepped], support.shape
        count = steps_per_column(len(stepped))
        thresholds = _thresholds(numbers, count).unsqueeze(1)

        def indicators(chunk: Tensor) -> Tensor:
            return (chunk.unsqueeze(2) > thresholds).to(chunk.dtype).flatten(2)

        class_sums = partial(_class_sums, class_indices, ways)
        # Sums of indicators are integers, so they do not depend on the order of the rows.
        counts = class_sums(numbers, indicators, count * len(stepped))
        counts = counts.view(episodes, ways, count, len(stepped))
        means = counts.sum(dim=1, keepdim=True) / rows
        spread = (means * (1 - means)).sum(dim=2, keepdim=True)
        factors = torch.where(spread > 0, spread.clamp_min(1e-12).rsqrt(), 0)
        shots = support.new_zeros(episodes, ways).scatter_add_(
            1, class_indices, support.new_ones(episodes, rows)
        )
        centred = support - support.mean(dim=1, keepdim=True)
        between = _between(class_sums(centred, lambda chunk: chunk, width), shots)
        steps_between = _between((counts - shots[:, :, None, None] * means) * factors, shots)
        between.index_add_(1, stepped, steps_between.sum(dim=1))
        total = centred.square().sum(dim=1)
        total.index_add_(1, stepped, rows * (spread * factors.square()).flatten(1))
        weights = _weights(between, total, rows, ways)
        return cls(stepped, thresholds, means, factors, weights.unsqueeze(1))

    @property
    def width(self) -> int:
        """Number of coordinates, steps included."""
        return self.weights.shape[2] + self.thresholds.shape[2] * len(self.stepped)

    def __call__(self, rows: Tensor) -> Tensor:
        """Weight rows (B, m, d) and append their steps: (B, m, d + steps * c)."""
        indicators = (rows[:, :, self.stepped].unsqueeze(2) > self.thresholds).to(rows.dtype)
        steps = (indicators - self.means) * self.factors * self.weights[:, :, None, self.stepped]
        return torch.cat([rows * self.weights, steps.flatten(2)], dim=2)


def numeric_coordinates(support: Tensor) -> Tensor:
    """Return the indices of the coordinates of (n, d) with more than two different values."""
    lowest, highest = support.amin(dim=0) + MIN_GAP, support.amax(dim=0) - MIN_GAP
    return ((support > lowest) & (support < highest)).any(dim=0).nonzero().squeeze(1)


def _thresholds(values: Tensor, count: int) -> Tensor:
    """Return `count` thresholds at evenly spaced quantiles of each column (B, n, c): (B, count, c).

    Each lies between the value at a quantile and the next larger one; it is infinite if there is
    none.
    """
    ordered = values.mT.sort(dim=2).values  # (B, c, n)
    rows = ordered.shape[2]
    quantiles = torch.arange(1, count + 1, device=values.device) * (rows - 1) // (count + 1)
    at_quantiles = ordered[:, :, quantiles].contiguous()
    above = torch.searchsorted(ordered.contiguous(), at_quantiles + MIN_GAP, right=True)
    lower, higher = (ordered.gather(2, place.clamp_max(rows - 1)) for place in (above - 1, above))
    return torch.where(above < rows, lower + GOLDEN * (higher - lower), torch.inf).mT


def _class_sums(
    class_indices: Tensor, ways: int, rows: Tensor, expand: Callable[[Tensor], Tensor], width: int
) -> Tensor:
    """Sum the expanded rows (B, n, d) of each class: (B, K, width).

    They may be many times as large as the table, so they are computed in chunks of rows.
    """
    size = max(1, CHUNK // (len(rows) * max(1, width, ways)))
    sums = rows.new_zeros(len(rows), ways, width)
    for start in range(0, rows.shape[1], size):
        chunk = slice(start, start + size)
        members = torch.nn.functional.one_hot(class_indices[:, chunk], ways)  # (B, chunk, K)
        sums += members.to(rows.dtype).mT @ expand(rows[:, chunk])
    return sums


def _between(sums: Tensor, shots: Tensor) -> Tensor:
    """Return Σ_k n_k |m_k|² from the class sums of centred values (B, K, ...) and n_k (B, K)."""
    return (sums.square() / shots.clamp_min(1).view(*shots.shape, *[1] * (sums.ndim - 2))).sum(1)


def _weights(between: Tensor, total: Tensor, rows: int, ways: int) -> Tensor:
    """Return the weight of each column, as in the module's docstring: (B, d)."""
    if rows < 2 * ways:
        return torch.ones_like(total)
    by_chance, varies = (ways - 1) / (rows - 1), total > 0
    share = torch.where(varies, between / total.clamp_min(1e-30), by_chance)
    explained = ((share - by_chance) / (1 - by_chance)).clamp_min(0)
    count = varies.sum(dim=1, keepdim=True).clamp_min(1)  # constant columns do not count
    mean = explained.sum(dim=1, keepdim=True) / count
    # The mean of explained + mean is twice the mean.
    return torch.where(mean > 0, (explained + mean) / (2 * mean).clamp_min(1e-30), 1).sqrt()
