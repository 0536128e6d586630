r"""Columns of random tables: picked from the nodes of a graph, warped, and scaled as tables are.

Some columns are categories: a node cut into levels. Some are irrelevant: their rows are shuffled,
so they keep their law and lose all relation to the rest. Numbers are seen through a monotone warp
(none, exponential, a power, rounding), and some may be missing. What leaves this file is what
`encoders/tables.py` makes of such a table: numbers standardised by the support, an indicator
for each category, one that says "missing"; then, mostly, the view of `encoders/table_view.py`.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unitail.encoders.table_view import TableView, steps_of
from unitail.encoders.tables import MAX_DEVIATIONS, MAX_WEIGHT
from unitail.randomness import PerEpisode
from unitail.tasks.batches import BatchShape
from unitail.tasks.synthetic.graphs import levels_of, look_up, standardised

BLUR = (0.003, 0.3)
"""Noise of a column beside its node, in deviations, log-uniform."""
IRRELEVANT = 0.4
"""The share of episodes that have irrelevant columns; of those any share of columns is likely."""
EXPONENTS, POWERS, GRIDS = (0.3, 1.5), (0.5, 3.0), (0.2, 1.5)
"""Of warps: x to exp(s x), sign(x) |x|^p, and multiples of g."""
MISSING = (0.02, 0.4)
"""The share of a column that is missing, where some is."""


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """The columns that the tables of a batch have."""

    numbers: int
    """Columns of numbers."""
    categories: int
    """Columns of categories."""
    levels: int
    """The different categories of each."""
    missing: int
    """How many columns of numbers, the first ones, have missing values."""
    view: bool = False
    """Whether columns have steps and weights."""

    @property
    def columns(self) -> int:
        """Columns in all."""
        return self.numbers + self.categories

    @property
    def width(self) -> int:
        """Coordinates of a row as a vector."""
        steps = self.numbers * steps_of(self.numbers) if self.view else 0
        return self.numbers + self.missing + self.categories * self.levels + steps


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of the tables of a batch, numbers first."""

    values: Tensor
    """Standardised, (B, T, columns); a category stands for a random number."""
    levels: Tensor
    """Whole numbers, (B, T, categories)."""
    relevant: Tensor
    """Which columns are related to others at all, (B, columns, 1)."""

    @classmethod
    def pick(cls, nodes: Tensor, layout: TableShape, numbers: PerEpisode) -> "Columns":
        """Pick nodes (B, T, nodes), each at most once more often than others, and blur them."""
        turns = -(-layout.columns // nodes.shape[2])
        orders = numbers.spread(turns, nodes.shape[2]).argsort(dim=2, stable=True)
        chosen = orders.flatten(1)[:, None, : layout.columns].expand(-1, nodes.shape[1], -1)
        blur = numbers.log_uniform(BLUR) * numbers.normal(nodes.shape[1], layout.columns)
        values = standardised(nodes.gather(2, chosen) + blur)
        levels = levels_of(values[:, :, layout.numbers :], layout.levels, numbers)
        return cls.of(values[:, :, : layout.numbers], levels, layout, numbers)

    @classmethod
    def of(
        cls, values: Tensor, levels: Tensor, layout: TableShape, numbers: PerEpisode
    ) -> "Columns":
        """Put numbers and categories side by side, all of them relevant."""
        meant = look_up(numbers.normal(layout.levels, layout.categories), levels)
        values = standardised(torch.cat([values, meant], dim=2))
        relevant = torch.ones_like(values[:, 0, :, None], dtype=torch.bool)
        return cls(values, levels, relevant)

    def with_irrelevant(self, numbers: PerEpisode) -> "Columns":
        """Shuffle the rows of some columns, but never of all."""
        rows, columns = self.values.shape[1:]
        share = numbers.uniform((0, 1)) * (numbers.uniform((0, 1)) < IRRELEVANT)
        keys = numbers.spread(columns, 1)
        relevant = (keys >= share) | (keys == keys.amax(dim=1, keepdim=True))
        order = numbers.spread(rows, columns).argsort(dim=1, stable=True)
        stay = torch.arange(rows, device=order.device)[:, None]
        order = torch.where(relevant.mT, stay, order)
        first = columns - self.levels.shape[2]
        levels = self.levels.gather(1, order[:, :, first:])
        return replace(self, values=self.values.gather(1, order), levels=levels, relevant=relevant)

    def vectors(
        self, layout: TableShape, classes: Tensor, shape: BatchShape, numbers: PerEpisode
    ) -> Tensor:
        """Return the rows as they enter a model, scaled by the support: (B, T, width).

        Their classes are (B, T), the support's first.
        """
        encoded, known = self.encoded(layout, shape.num_support, numbers), shape.num_support
        if not layout.view:
            return encoded
        stepped = torch.arange(layout.numbers, device=encoded.device)
        view = TableView.of(encoded[:, :known], classes[:, :known], shape.ways, stepped)
        return view(encoded)

    def encoded(self, layout: TableShape, num_support: int, numbers: PerEpisode) -> Tensor:
        """Return the rows as the encoder of tables would: (B, T, coordinates)."""
        values = warped(self.values[:, :, : layout.numbers], numbers)
        support = values[:, :num_support]
        mean = support.mean(dim=1, keepdim=True)
        deviation = (support - mean).square().mean(dim=1, keepdim=True).sqrt()
        varies = deviation > torch.finfo(values.dtype).eps * (1 + mean.abs())
        values = torch.where(varies, (values - mean) / deviation.clamp_min(1e-30), 0)
        values = values.clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS)
        values, told = with_missing(values, layout.missing, num_support, numbers)
        indicators = torch.nn.functional.one_hot(self.levels, layout.levels).to(values.dtype)
        shares = indicators[:, :num_support].mean(dim=1, keepdim=True)  # (B, 1, columns, levels)
        # A category that the support lacks is all zeros, as the encoder of tables has it.
        indicators = indicators * category_weight(shares) * (shares > 0)
        return torch.cat([values, told, indicators.flatten(2)], dim=2)


def category_weight(shares: Tensor) -> Tensor:
    """Return w = 1 / sqrt(1 - sum of squared shares), up to the limit; as for real tables."""
    differing = 1 - shares.square().sum(dim=-1, keepdim=True)
    return differing.clamp_min(MAX_WEIGHT**-2).rsqrt()


def warped(values: Tensor, numbers: PerEpisode) -> Tensor:
    """Change the scale of each column (B, T, columns) by a monotone function, or not."""
    count = values.shape[2]

    def between(ends: tuple[float, float]) -> Tensor:
        return ends[0] + (ends[1] - ends[0]) * numbers.spread(1, count)

    exponent, power, grid = between(EXPONENTS), between(POWERS), between(GRIDS)
    kind = (5 * numbers.spread(1, count)).long()  # 0 and 1: not at all
    warps = (
        torch.exp(exponent * values),
        values.sign() * values.abs() ** power,
        (values / grid).round() * grid,
    )
    for number, changed in enumerate(warps, start=2):
        values = torch.where(kind == number, changed, values)
    return values


def with_missing(
    values: Tensor, count: int, num_support: int, numbers: PerEpisode
) -> tuple[Tensor, Tensor]:
    """Let values of the first columns be missing, by chance or above a threshold.

    Medians take their place, and indicators (B, T, count) tell of them.
    """
    head, rest = values[:, :, :count], values[:, :, count:]
    share = MISSING[0] + (MISSING[1] - MISSING[0]) * numbers.spread(1, count)
    by_chance = numbers.spread(values.shape[1], count) < share
    by_value = head > numbers.normal(1, count).abs()
    absent = torch.where(numbers.spread(1, count) < 0.5, by_chance, by_value)
    present = head[:, :num_support].masked_fill(absent[:, :num_support], torch.nan)
    median = present.nanmedian(dim=1, keepdim=True).values.nan_to_num(0.0)
    lost = absent[:, :num_support].to(values.dtype).mean(dim=1, keepdim=True)
    weight = 2**0.5 * category_weight(torch.stack([lost, 1 - lost], dim=-1)).squeeze(-1)
    told = absent * weight * (lost > 0)
    return torch.cat([torch.where(absent, median, head), rest], dim=2), told
