r"""What a model that reads angles and distances is shown of a table, beside its columns.

Standardised columns alone show it little more than lines. Two things are added, both learned from
the labelled rows:

**Steps.** Beside a column x of numbers stand STEPS indicators x > t, at the column's quantiles t,
so scaled that together they vary as much as the column: E |s - s'|² = 2 for two rows drawn at
random. Their squared distance is the share of rows between two values: it sees ranks, and sums of
any functions of single columns become lines.

**Weights.** Of a column's variance (steps included) classes explain the share

    R = Σ_k n_k |m_k - m|² / Σ_i |x_i - m|²,    r = max(0, (R - R0) / (1 - R0)),  R0 = (K-1)/(n-1),

where R0 is what R is on average if labels are shuffled. The column is multiplied by √(r + mean r),
scaled so that the mean of the squares is one: columns that say nothing about the classes lose at
most half of their weight beside an average one, and those that say much gain. With fewer than two
rows a class nothing is known, and all weights are one.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

STEPS = 8
"""Thresholds of a column."""
MAX_WIDTH = 2048
"""Columns get fewer thresholds, or none, where all their steps together would be more."""


def steps_of(columns: int) -> int:
    """Return how many thresholds each of so many columns has."""
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
        chosen = support[:, :, stepped]
        count = steps_of(len(stepped))
        thresholds = _quantiles(chosen, count).unsqueeze(1)
        over = (chosen.unsqueeze(2) > thresholds).to(support.dtype)  # (B, n, steps, c)
        means = over.mean(dim=1, keepdim=True)
        spread = (means * (1 - means)).sum(dim=2, keepdim=True)
        factors = torch.where(spread > 0, spread.clamp_min(1e-12).rsqrt(), 0)
        told = _explained(support, class_indices, ways)
        steps = _explained(((over - means) * factors).flatten(2), class_indices, ways)
        between, total = (
            plain.index_add(1, stepped, more.view(len(support), count, len(stepped)).sum(dim=1))
            for plain, more in zip(told, steps, strict=True)
        )
        weights = _weights(between, total, support.shape[1], ways)
        return cls(stepped, thresholds, means, factors, weights.unsqueeze(1))

    def __call__(self, rows: Tensor) -> Tensor:
        """Show rows (B, m, d): (B, m, d + steps * c)."""
        over = (rows[:, :, self.stepped].unsqueeze(2) > self.thresholds).to(rows.dtype)
        steps = (over - self.means) * self.factors * self.weights[:, :, None, self.stepped]
        return torch.cat([rows * self.weights, steps.flatten(2)], dim=2)


def varied(support: Tensor) -> Tensor:
    """Return the coordinates of (n, d) with more than two different values: those of numbers."""
    lowest, highest = support.amin(dim=0), support.amax(dim=0)
    return ((support > lowest) & (support < highest)).any(dim=0).nonzero().squeeze(1)


def _quantiles(values: Tensor, count: int) -> Tensor:
    """Return `count` quantiles of each column (B, n, c) that cut it evenly: (B, count, c)."""
    ordered = values.sort(dim=1).values
    places = torch.arange(1, count + 1, device=values.device, dtype=values.dtype) / (count + 1)
    places = places * (values.shape[1] - 1)
    below = places.floor().long()
    above = (below + 1).clamp_max(values.shape[1] - 1)
    share = (places - below)[:, None]
    # In this form equal neighbours give their value to the last bit, so ties stay ties.
    return ordered[:, below] + share * (ordered[:, above] - ordered[:, below])


def _explained(values: Tensor, class_indices: Tensor, ways: int) -> tuple[Tensor, Tensor]:
    """Return what classes explain of the squares of each column (B, n, d), and all: (B, d)."""
    centred = values - values.mean(dim=1, keepdim=True)
    members = torch.nn.functional.one_hot(class_indices, ways).to(values.dtype)  # (B, n, K)
    sums = members.mT @ centred
    counts = members.sum(dim=1).clamp_min(1).unsqueeze(2)
    return (sums.square() / counts).sum(dim=1), centred.square().sum(dim=1)


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
