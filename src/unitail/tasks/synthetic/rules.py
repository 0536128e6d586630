"""Rules: a class that depends on the combination of a few columns' levels, and on none alone.

Every combination of levels is a cell. By parity, the sum of the levels modulo the number of classes
is the class (two columns of two levels: XOR; of more: a checkerboard). By a lookup table, each cell
has a random class. Classes are drawn first, then one of their cells, so every class has its rows.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unitail.randomness import PerEpisode, draw_between, draw_uniform
from unitail.tasks.synthetic.table_columns import TableShape

MAX_COLUMNS = 4
"""Columns of a rule, at most."""
MAX_CELLS = 64
"""Combinations of levels, at most."""
SPREADS = (0.05, 0.5)
"""Of numbers around the middle of their level, in widths of a level, log-uniform."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What the rules of a batch have in common."""

    columns: int
    """How many columns decide."""
    levels: int
    """The levels of each."""
    parity: bool
    """By parity where that knows enough classes; else by a lookup table."""
    categories: bool
    """Whether the levels are seen as categories, or as numbers."""

    @classmethod
    def draw(cls, columns: int, generator: torch.Generator) -> "Rule":
        """Draw a rule for a table of this many columns."""
        used = draw_between((1, min(MAX_COLUMNS, columns)), generator)
        most = int(MAX_CELLS ** (1 / used) + 1e-9)
        levels = draw_between((2, most if used > 1 else 16), generator)
        parity, categories = (draw_uniform(generator) < 0.5 for _ in range(2))
        return cls(columns=used, levels=levels, parity=parity, categories=categories)

    @property
    def cells(self) -> int:
        """The combinations of levels."""
        cells: int = self.levels**self.columns
        return cells

    def others(self, layout: TableShape) -> TableShape:
        """Return the columns of a table that the rule leaves alone."""
        if self.categories:
            return replace(layout, categories=layout.categories - self.columns)
        return replace(layout, numbers=layout.numbers - self.columns)

    def draw_levels(self, classes: Tensor, ways: int, numbers: PerEpisode) -> Tensor:
        """Draw a cell of the class of each row (B, T): levels (B, T, columns).

        A table with fewer cells than classes has several classes in a cell.
        """
        digits = self._digits(classes.device)
        order = (
            numbers.spread(1, self.cells).argsort(dim=2, stable=True).argsort(dim=2, stable=True)
        )
        owners = order.squeeze(1) % ways  # (B, cells): every class has a cell if there are enough
        sums = self.columns * (self.levels - 1) + 1
        if self.parity and sums >= ways:
            owners = (digits.sum(dim=1) % ways).expand_as(owners)
        own = owners.unsqueeze(1) == (classes % min(ways, self.cells)).unsqueeze(2)
        keys = numbers.spread(classes.shape[1], self.cells)
        cells = keys.masked_fill(~own, 2.0).argmin(dim=2)  # (B, T)
        return digits[cells]

    def numbers_of(self, levels: Tensor, numbers: PerEpisode) -> Tensor:
        """Draw numbers around the middle of each level."""
        spread = numbers.log_uniform(SPREADS)
        rows, columns = levels.shape[1:]
        within = 2 * numbers.spread(rows, columns) - 1
        return levels + spread * within

    def _digits(self, device: torch.device) -> Tensor:
        """Return the levels of every cell, (cells, columns)."""
        powers = self.levels ** torch.arange(self.columns, device=device)
        return torch.arange(self.cells, device=device)[:, None] // powers % self.levels
