r"""Columns of random tables: picked from the nodes of a graph, warped, and encoded.

Some columns are categories: a node cut into levels. Some are irrelevant: their rows are shuffled,
so they keep their distribution and lose all relation to the other columns. Numbers pass through a
monotone warp (none, exponential, a power, rounding), and some may be missing. The result is encoded
as `encoders/tables.py` would encode such a table: numbers standardised by the support, an indicator
for each category and for "missing"; then, mostly, the view of `encoders/table_view.py`.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unitail.encoders.table_view import TableView, steps_per_column
from unitail.encoders.tables import MAX_DEVIATIONS, MAX_WEIGHT
from unitail.randomness import PerEpisode
from unitail.tasks.batches import BatchShape
from unitail.tasks.synthetic.graphs import levels_of, look_up, standardised

BLUR = (0.003, 0.3)
"""Range of the noise added to a node to make a column, in deviations, log-uniform."""
IRRELEVANT = 0.4
"""Fraction of episodes with irrelevant columns; there, their share of columns is uniform."""
EXPONENTS, POWERS, GRIDS = (0.3, 1.5), (0.5, 3.0), (0.2, 1.5)
"""Ranges of the warps' parameters: exp(s x), sign(x) |x|^p, and rounding to multiples of g."""
MISSING = (0.02, 0.4)
"""Range of the share of missing values in a column that has any."""


@dataclass(frozen=True, kw_only=True)
class TableShape:
    """The kinds of columns in the tables of a batch."""

    numbers: int
    """Number of numeric columns."""
    categories: int
    """Number of categorical columns."""
    levels: int
    """Number of distinct categories in each."""
    missing: int
    """Number of numeric columns with missing values; they come first."""
    view: bool = False
    """Whether columns get the steps and weights of `TableView`."""

    @property
    def columns(self) -> int:
        """Total number of columns."""
        return self.numbers + self.categories

    @property
    def width(self) -> int:
        """Width of an encoded row."""
        steps = self.numbers * steps_per_column(self.numbers) if self.view else 0
        return self.numbers + self.missing + self.categories * self.levels + steps


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of the tables of a batch, numeric columns first."""

    values: Tensor
    """Standardised values, (B, T, columns); each category is represented by a random number."""
    levels: Tensor
    """Categories as integers, (B, T, categories)."""
    relevant: Tensor
    """Mask of the columns that are related to others, (B, columns, 1)."""

    @classmethod
    def pick(cls, nodes: Tensor, layout: TableShape, numbers: PerEpisode) -> "Columns":
        """Pick nodes (B, T, nodes) as evenly often as possible, and add noise."""
        turns = -(-layout.columns // nodes.shape[2])
        orders = numbers.uniform_matrix(turns, nodes.shape[2]).argsort(dim=2, stable=True)
        chosen = orders.flatten(1)[:, None, : layout.columns].expand(-1, nodes.shape[1], -1)
        blur = numbers.log_uniform(BLUR) * numbers.normal(nodes.shape[1], layout.columns)
        values = standardised(nodes.gather(2, chosen) + blur)
        levels = levels_of(values[:, :, layout.numbers :], layout.levels, numbers)
        return cls.of(values[:, :, : layout.numbers], levels, layout, numbers)

    @classmethod
    def of(
        cls, values: Tensor, levels: Tensor, layout: TableShape, numbers: PerEpisode
    ) -> "Columns":
        """Combine numeric values and categories into columns, all of them relevant."""
        category_values = look_up(numbers.normal(layout.levels, layout.categories), levels)
        values = standardised(torch.cat([values, category_values], dim=2))
        relevant = torch.ones_like(values[:, 0, :, None], dtype=torch.bool)
        return cls(values, levels, relevant)

    def with_irrelevant(self, numbers: PerEpisode) -> "Columns":
        """Shuffle the rows of some columns, but never of all columns."""
        rows, columns = self.values.shape[1:]
        share = numbers.uniform((0, 1)) * (numbers.uniform((0, 1)) < IRRELEVANT)
        keys = numbers.uniform_matrix(columns, 1)
        relevant = (keys >= share) | (keys == keys.amax(dim=1, keepdim=True))
        order = numbers.uniform_matrix(rows, columns).argsort(dim=1, stable=True)
        unshuffled = torch.arange(rows, device=order.device)[:, None]
        order = torch.where(relevant.mT, unshuffled, order)
        first = columns - self.levels.shape[2]
        levels = self.levels.gather(1, order[:, :, first:])
        return replace(self, values=self.values.gather(1, order), levels=levels, relevant=relevant)

    def vectors(
        self, layout: TableShape, classes: Tensor, shape: BatchShape, numbers: PerEpisode
    ) -> Tensor:
        """Return the rows as model inputs, scaled by the support: (B, T, width).

        `classes` is (B, T), support first.
        """
        encoded, num_support = self.encoded(layout, shape.num_support, numbers), shape.num_support
        if not layout.view:
            return encoded
        stepped = torch.arange(layout.numbers, device=encoded.device)
        view = TableView.of(encoded[:, :num_support], classes[:, :num_support], shape.ways, stepped)
        return view(encoded)

    def encoded(self, layout: TableShape, num_support: int, numbers: PerEpisode) -> Tensor:
        """Encode the rows like the encoder of tables: (B, T, coordinates)."""
        values = warped(self.values[:, :, : layout.numbers], numbers)
        support = values[:, :num_support]
        mean = support.mean(dim=1, keepdim=True)
        deviation = (support - mean).square().mean(dim=1, keepdim=True).sqrt()
        varies = deviation > torch.finfo(values.dtype).eps * (1 + mean.abs())
        values = torch.where(varies, (values - mean) / deviation.clamp_min(1e-30), 0)
        values = values.clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS)
        values, missing = with_missing(values, layout.missing, num_support, numbers)
        indicators = torch.nn.functional.one_hot(self.levels, layout.levels).to(values.dtype)
        shares = indicators[:, :num_support].mean(dim=1, keepdim=True)  # (B, 1, columns, levels)
        # A category absent from the support is all zeros, as in the encoder of tables.
        indicators = indicators * category_weight(shares) * (shares > 0)
        return torch.cat([values, missing, indicators.flatten(2)], dim=2)


def category_weight(shares: Tensor) -> Tensor:
    """Return w = 1 / sqrt(1 - sum of squared shares), at most MAX_WEIGHT, as for real tables."""
    differing = 1 - shares.square().sum(dim=-1, keepdim=True)
    return differing.clamp_min(MAX_WEIGHT**-2).rsqrt()


def warped(values: Tensor, numbers: PerEpisode) -> Tensor:
    """Apply a random monotone function, perhaps the identity, to each column (B, T, columns)."""
    count = values.shape[2]

    def between(ends: tuple[float, float]) -> Tensor:
        return ends[0] + (ends[1] - ends[0]) * numbers.uniform_matrix(1, count)

    exponent, power, grid = between(EXPONENTS), between(POWERS), between(GRIDS)
    kind = (5 * numbers.uniform_matrix(1, count)).long()  # 0 and 1: identity
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
    """Make some values of the first `count` columns missing, at random or above a threshold.

    Missing values are replaced by medians; also return their indicators (B, T, count).
    """
    head, complete = values[:, :, :count], values[:, :, count:]
    share = MISSING[0] + (MISSING[1] - MISSING[0]) * numbers.uniform_matrix(1, count)
    by_chance = numbers.uniform_matrix(values.shape[1], count) < share
    by_value = head > numbers.normal(1, count).abs()
    absent = torch.where(numbers.uniform_matrix(1, count) < 0.5, by_chance, by_value)
    present = head[:, :num_support].masked_fill(absent[:, :num_support], torch.nan)
    median = present.nanmedian(dim=1, keepdim=True).values.nan_to_num(0.0)
    missing_share = absent[:, :num_support].to(values.dtype).mean(dim=1, keepdim=True)
    weight = 2**0.5 * category_weight(
        torch.stack([missing_share, 1 - missing_share], dim=-1)
    ).squeeze(-1)
    indicators = absent * weight * (missing_share > 0)
    return torch.cat([torch.where(absent, median, head), complete], dim=2), indicators
