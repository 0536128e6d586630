r"""What a model that reads angles and distances is shown of a table, beside its columns.

Standardised columns alone show it little more than lines. Two things are added, both learned from
the labelled rows:

**Steps.** Beside a column x of numbers stand STEPS indicators x > t. Each t lies between a quantile
of the column and the next larger value, at the golden section: of all places, fractions of whole
numbers come least near to it. So neither the values of the column nor others of as many decimals
lie there, and rounding turns no indicator over. They are so scaled that together they vary as much
as the column: E |s - s'|² = 2 for two rows drawn at random. Their squared distance is the share of
rows between two values: it sees ranks, and sums of any functions of single columns become lines.

**Weights.** Of a column's variance (steps included) classes explain the share

    R = Σ_k n_k |m_k - m|² / Σ_i |x_i - m|²,    r = max(0, (R - R0) / (1 - R0)),  R0 = (K-1)/(n-1),

where R0 is what R is on average if labels are shuffled. The column is multiplied by √(r + mean r),
scaled so that the mean of the squares is one: columns that say nothing about the classes lose at
most half of their weight beside an average one, and those that say much gain. With fewer than two
rows a class nothing is known, and all weights are one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

STEPS = 8
"""Thresholds of a column."""
MAX_WIDTH = 2048
"""Columns get fewer thresholds, or none, where all their steps together would be more."""
GOLDEN = (3 - math.sqrt(5)) / 2
"""Where a threshold lies between two values; midway, 0.2 would lie on the one of 0.1 and 0.3."""
MIN_GAP = 1e-6
"""Standardised values that are nearer to each other are equal but for rounding."""
CHUNK = 1 << 22
"""Numbers that are held in memory at once, beside the table itself, while it is learned."""


def steps_of(columns: int) -> int:
    """Return how many thresholds each column has, by the number of columns."""
    return min(STEPS, MAX_WIDTH // max(1, columns))


@dataclass(frozen=True, eq=False)
class TableView:
    """What was learned of the tables of B episodes, d standardised coordinates each."""

    stepped: Tensor
    """The coordinates that have steps, (c,)."""
    thresholds: Tensor
    """(B, 1, steps, c)."""
    means: Tensor
    """Of the indicators, (B, 1, steps, c)."""
    factors: Tensor
    """That bring the steps of a coordinate to its scale, 0 where it is constant: (B, 1, 1, c)."""
    weights: Tensor
    """(B, 1, d)."""

    @classmethod
    def of(cls, support: Tensor, class_indices: Tensor, ways: int, stepped: Tensor) -> "TableView":
        """Learn from labelled rows (B, n, d) of the classes (B, n)."""
        chosen, (episodes, rows, width) = support[:, :, stepped], support.shape
        count = steps_of(len(stepped))
        thresholds = _thresholds(chosen, count).unsqueeze(1)

        def over(some: Tensor) -> Tensor:
            return (some.unsqueeze(2) > thresholds).to(some.dtype).flatten(2)

        by_class = partial(_class_sums, class_indices, ways)
        # Of indicators these are whole numbers, which add up alike in any order.
        counts = by_class(chosen, over, count * len(stepped))
        counts = counts.view(episodes, ways, count, len(stepped))
        means = counts.sum(dim=1, keepdim=True) / rows
        spread = (means * (1 - means)).sum(dim=2, keepdim=True)
        factors = torch.where(spread > 0, spread.clamp_min(1e-12).rsqrt(), 0)
        shots = support.new_zeros(episodes, ways).scatter_add_(
            1, class_indices, support.new_ones(episodes, rows)
        )
        centred = support - support.mean(dim=1, keepdim=True)
        between = _between(by_class(centred, lambda some: some, width), shots)
        of_steps = _between((counts - shots[:, :, None, None] * means) * factors, shots)
        between.index_add_(1, stepped, of_steps.sum(dim=1))
        total = centred.square().sum(dim=1)
        total.index_add_(1, stepped, rows * (spread * factors.square()).flatten(1))
        weights = _weights(between, total, rows, ways)
        return cls(stepped, thresholds, means, factors, weights.unsqueeze(1))

    @property
    def width(self) -> int:
        """The coordinates of what is shown."""
        return self.weights.shape[2] + self.thresholds.shape[2] * len(self.stepped)

    def __call__(self, rows: Tensor) -> Tensor:
        """Show rows (B, m, d): (B, m, d + steps * c)."""
        over = (rows[:, :, self.stepped].unsqueeze(2) > self.thresholds).to(rows.dtype)
        steps = (over - self.means) * self.factors * self.weights[:, :, None, self.stepped]
        return torch.cat([rows * self.weights, steps.flatten(2)], dim=2)


def varied(support: Tensor) -> Tensor:
    """Return the coordinates of (n, d) with more than two different values: those of numbers."""
    lowest, highest = support.amin(dim=0) + MIN_GAP, support.amax(dim=0) - MIN_GAP
    return ((support > lowest) & (support < highest)).any(dim=0).nonzero().squeeze(1)


def _thresholds(values: Tensor, count: int) -> Tensor:
    """Return `count` thresholds that cut each column (B, n, c) evenly: (B, count, c).

    Each lies between two neighbours that differ, the lower of which is (equal to) the value at a
    quantile. Above the largest value there is none (infinity).
    """
    ordered = values.mT.sort(dim=2).values  # (B, c, n)
    rows = ordered.shape[2]
    places = torch.arange(1, count + 1, device=values.device) * (rows - 1) // (count + 1)
    at_quantiles = ordered[:, :, places].contiguous()
    above = torch.searchsorted(ordered.contiguous(), at_quantiles + MIN_GAP, right=True)
    lower, higher = (ordered.gather(2, place.clamp_max(rows - 1)) for place in (above - 1, above))
    return torch.where(above < rows, lower + GOLDEN * (higher - lower), torch.inf).mT


def _class_sums(
    class_indices: Tensor, ways: int, rows: Tensor, see: Callable[[Tensor], Tensor], width: int
) -> Tensor:
    """Sum what is seen of the rows (B, n, d) of each class: (B, K, width).

    That may be many times the table, so it is made of some rows at a time.
    """
    size = max(1, CHUNK // (len(rows) * max(1, width, ways)))
    sums = rows.new_zeros(len(rows), ways, width)
    for start in range(0, rows.shape[1], size):
        some = slice(start, start + size)
        members = torch.nn.functional.one_hot(class_indices[:, some], ways)  # (B, chunk, K)
        sums += members.to(rows.dtype).mT @ see(rows[:, some])
    return sums


def _between(sums: Tensor, shots: Tensor) -> Tensor:
    """Return Σ_k n_k |m_k|² given the sums of centred values (B, K, ...) of n_k rows (B, K)."""
    return (sums.square() / shots.clamp_min(1).view(*shots.shape, *[1] * (sums.ndim - 2))).sum(1)


def _weights(between: Tensor, total: Tensor, rows: int, ways: int) -> Tensor:
    """Return the weight of each column by the rule above: (B, d)."""
    if rows < 2 * ways:
        return torch.ones_like(total)
    by_chance, varies = (ways - 1) / (rows - 1), total > 0
    share = torch.where(varies, between / total.clamp_min(1e-30), by_chance)
    known = ((share - by_chance) / (1 - by_chance)).clamp_min(0)
    count = varies.sum(dim=1, keepdim=True).clamp_min(1)  # constant columns have no say
    mean = known.sum(dim=1, keepdim=True) / count
    # The mean of known + mean is twice the mean.
    return torch.where(mean > 0, (known + mean) / (2 * mean).clamp_min(1e-30), 1).sqrt()
