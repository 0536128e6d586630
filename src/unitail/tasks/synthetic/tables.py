r"""Synthetic table tasks: columns from a graph of random functions, and a class.

A prior in the spirit of Hollmann et al., *TabPFN* (2023): small tables do not share a distribution
of features, but in all of them columns are causes and effects of each other. The class is

    an effect   a random function of relevant columns, or of hidden nodes, with noise, cut into
                intervals; a class has one or several intervals
    a cause     of the roots of the graph: each class is one or several clusters in their space
    a rule      on a few columns: parity, or a lookup table of all combinations of their levels;
                all other columns are irrelevant

Under a rule every combination of levels is a cell. With parity, the class is the sum of the levels
modulo the number of classes (two columns of two levels: XOR; of more: a checkerboard). With a
lookup table, each cell has a random class. Classes are drawn first, then one of their cells, so
every class gets its rows.

The number of rows of each class is fixed, so an effect is cut where the counts come out right.
"""

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from unitail.errors import require
from unitail.randomness import (
    PerEpisode,
    RangeLaw,
    draw_between,
    draw_uniform,
    pick,
)
from unitail.tasks.assemble import draw_classes, take
from unitail.tasks.batches import BatchShape, EpisodeRanges
from unitail.tasks.synthetic.graphs import FUNCTIONS, Function, Graph, draw_roots, standardised
from unitail.tasks.synthetic.laws import SyntheticBatch
from unitail.tasks.synthetic.table_columns import Columns, TableShape

MAX_COLUMNS = 4
"""Largest number of columns in a rule."""
MAX_CELLS = 64
"""Largest number of combinations of levels."""
SPREADS = (0.05, 0.5)
"""Range of the spread of numbers around the middle of their level, log-uniform."""
PIECES = (1, 1, 1, 2, 3)
"""Numbers of intervals or clusters per class; one is drawn for each batch."""
HIDDEN = 0.2
"""Fraction of effects whose class depends on hidden nodes."""
MAX_TERMS = 3
"""Largest number of functions summed into the score that determines the class."""
LABEL_NOISE = (0.003, 0.3)
"""Range of the noise of that score, in standard deviations, log-uniform."""
SEPARATIONS = (1.0, 8.0)
"""Range of the distance between clusters if classes are causes, in deviations, log-uniform."""
MAX_LEVELS = 8
"""Largest number of distinct categories in a column."""
VIEWED = 0.75
"""Fraction of batches whose columns get the steps and weights of `TableView`."""
SOME = 0.4
"""Fraction of batches with categories; likewise, independently, with missing values."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The kind of rule shared by all episodes of a batch."""

    columns: int
    """Number of columns that determine the class."""
    levels: int
    """Number of levels of each."""
    parity: bool
    """Whether to use parity, if it can produce enough classes, or else a lookup table."""
    categories: bool
    """Whether the levels appear as categories or as numbers."""

    @classmethod
    def draw(cls, columns: int, generator: torch.Generator) -> "Rule":
        """Draw a rule for a table of this many columns."""
        used = draw_between((1, min(MAX_COLUMNS, columns)), generator)
        max_levels = int(MAX_CELLS ** (1 / used) + 1e-9)
        levels = draw_between((2, max_levels if used > 1 else 16), generator)
        parity, categories = (draw_uniform(generator) < 0.5 for _ in range(2))
        return cls(columns=used, levels=levels, parity=parity, categories=categories)

    @property
    def cells(self) -> int:
        """Number of combinations of levels."""
        cells: int = self.levels**self.columns
        return cells

    def others(self, layout: TableShape) -> TableShape:
        """Return the columns of a table that the rule does not use."""
        if self.categories:
            return replace(layout, categories=layout.categories - self.columns)
        return replace(layout, numbers=layout.numbers - self.columns)

    def draw_levels(self, classes: Tensor, ways: int, numbers: PerEpisode) -> Tensor:
        """Draw a cell for each row's class (B, T) and return its levels (B, T, columns).

        If there are fewer cells than classes, several classes share a cell.
        """
        digits = self._digits(classes.device)
        order = (
            numbers.uniform_matrix(1, self.cells)
            .argsort(dim=2, stable=True)
            .argsort(dim=2, stable=True)
        )
        owners = order.squeeze(1) % ways  # (B, cells): every class gets a cell if there are enough
        sums = self.columns * (self.levels - 1) + 1
        if self.parity and sums >= ways:
            owners = (digits.sum(dim=1) % ways).expand_as(owners)
        is_own_cell = owners.unsqueeze(1) == (classes % min(ways, self.cells)).unsqueeze(2)
        keys = numbers.uniform_matrix(classes.shape[1], self.cells)
        cells = keys.masked_fill(~is_own_cell, 2.0).argmin(dim=2)  # (B, T)
        return digits[cells]

    def numbers_of(self, levels: Tensor, numbers: PerEpisode) -> Tensor:
        """Draw numbers around the middle of each level."""
        spread = numbers.log_uniform(SPREADS)
        rows, columns = levels.shape[1:]
        offsets = 2 * numbers.uniform_matrix(rows, columns) - 1
        return levels + spread * offsets

    def _digits(self, device: torch.device) -> Tensor:
        """Return the levels of every cell, (cells, columns)."""
        powers = self.levels ** torch.arange(self.columns, device=device)
        return torch.arange(self.cells, device=device)[:, None] // powers % self.levels


@dataclass(frozen=True, kw_only=True)
class RandomTableTasks:
    """nu: tables; every episode draws its own functions, every batch its own kind of graph."""

    columns: tuple[int, int] = (1, 64)
    """Smallest and largest number of columns, log-uniform."""
    max_ways: int = 10
    """Largest number of classes of a table, whatever the recipe allows for other sources."""
    shots: tuple[int, int] | None = None
    """Smallest and largest number of labelled rows per class, log-uniform; None: the recipe's."""
    max_rows: int = 1000
    """Largest number of labelled rows of a table."""
    functions: tuple[Function, ...] = tuple(Function)
    """Kinds of functions to draw from."""
    causes: float = 0.3
    """Fraction of batches in which classes are causes."""
    rules: float = 0.1
    """Fraction of batches in which classes follow a rule."""

    def __post_init__(self) -> None:
        for name in ("columns", "shots"):
            ends = getattr(self, name)
            valid = ends is None or (len(ends) == 2 and 1 <= ends[0] <= ends[1])
            require(valid, name, got=ends, allowed="[low, high] with 1 <= low <= high")
        require(self.max_ways >= 2, "max_ways", got=self.max_ways, allowed="2 or more")
        valid = self.max_rows >= self.max_ways
        require(valid, "max_rows", got=self.max_rows, allowed="max_ways or more")
        require(bool(self.functions), "functions", got="none", allowed="one or more")
        valid = self.causes >= 0 and self.rules >= 0 and self.causes + self.rules <= 1
        got = f"{self.causes} and {self.rules}"
        require(valid, "causes and rules", got=got, allowed="shares that add up to at most 1")

    def choose_batch(self, ranges: EpisodeRanges, generator: torch.Generator) -> SyntheticBatch:
        """Draw the columns, the graph, how classes arise, and the shape of a batch."""
        logarithmic = RangeLaw.LOGARITHMIC
        shots = (
            ranges.draw_shots(generator)
            if self.shots is None
            else draw_between(self.shots, generator, logarithmic)
        )
        columns = draw_between(self.columns, generator, logarithmic)
        kind = draw_uniform(generator)
        rule = Rule.draw(columns, generator) if kind < self.rules else None
        layout = _draw_layout(columns, rule, generator)
        graph = Graph.draw(self.functions, generator)
        shape = ranges.draw_shape(
            generator,
            shots=shots,
            source="random tables",
            feature_dim=layout.width,
            max_ways=max(ranges.ways[0], self.max_ways),
            max_support=self.max_rows,
        )
        if rule is not None:
            return SyntheticBatch(shape, partial(_draw_rule, rule, graph, layout))
        pieces = pick(PIECES, generator)
        if kind < self.rules + self.causes:
            return SyntheticBatch(shape, partial(_draw_cause, graph, layout, pieces))
        terms = tuple(
            pick(self.functions, generator) for _ in range(draw_between((1, MAX_TERMS), generator))
        )
        hidden = draw_uniform(generator) < HIDDEN
        effect = Effect(terms=terms, pieces=pieces, hidden=hidden)
        return SyntheticBatch(shape, partial(_draw_effect, graph, layout, effect))


@dataclass(frozen=True, kw_only=True)
class Effect:
    """How the class follows from the columns or nodes when it is an effect."""

    terms: tuple[Function, ...]
    """Kinds of the functions that are summed."""
    pieces: int
    """Number of intervals per class."""
    hidden: bool
    """Whether nodes of the graph determine the class, or columns of the table."""


def _draw_layout(columns: int, rule: Rule | None, generator: torch.Generator) -> TableShape:
    """Draw how many columns hold categories, and how many have missing values."""
    levels = draw_between((2, MAX_LEVELS), generator) if rule is None else rule.levels
    has_categories, has_missing = (draw_uniform(generator) < SOME for _ in range(2))
    free = columns if rule is None else columns - rule.columns
    categories = draw_between((0, free), generator) if has_categories else 0
    if rule is not None and rule.categories:
        categories += rule.columns
    numbers = columns - categories
    return TableShape(
        numbers=numbers,
        categories=categories,
        levels=levels,
        missing=draw_between((0, numbers // 2), generator) if has_missing else 0,
        view=draw_uniform(generator) < VIEWED,
    )


def _draw_cause(
    graph: Graph, layout: TableShape, pieces: int, shape: BatchShape, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw classes, then roots around their class's clusters, then columns."""
    numbers, classes = PerEpisode(shape.episodes, generator), draw_classes(shape, generator)
    rows = classes.shape[1]
    centres = numbers.normal(shape.ways * pieces, graph.roots)
    piece = (pieces * numbers.uniform_matrix(rows, 1)).long().squeeze(2)
    shifts = take(centres, classes * pieces + piece) * numbers.log_uniform(SEPARATIONS)
    nodes = graph.grow(shifts + draw_roots(rows, graph.roots, numbers), numbers)
    columns = Columns.pick(nodes, layout, numbers).with_irrelevant(numbers)
    return columns.vectors(layout, classes, shape, numbers), classes


def _draw_effect(
    graph: Graph, layout: TableShape, effect: Effect, shape: BatchShape, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw columns and a score for each row, and assign classes by intervals of the score."""
    numbers, classes = PerEpisode(shape.episodes, generator), draw_classes(shape, generator)
    rows = classes.shape[1]
    nodes = graph.grow(draw_roots(rows, graph.roots, numbers), numbers)
    columns = Columns.pick(nodes, layout, numbers).with_irrelevant(numbers)
    inputs, allowed = columns.values, columns.relevant
    if effect.hidden:
        inputs, allowed = nodes, torch.ones_like(nodes[:, 0, :, None], dtype=torch.bool)
    terms = [FUNCTIONS[term](inputs, allowed, 1, numbers) for term in effect.terms]
    score = standardised(torch.stack([standardised(term) for term in terms]).sum(dim=0))
    score = score + numbers.log_uniform(LABEL_NOISE) * numbers.normal(rows, 1)
    order = fill_intervals(classes, score.squeeze(2), shape.ways, effect.pieces, numbers)
    # Rows are scaled by the support, so they are put in place before scaling.
    placed = Columns(take(columns.values, order), take(columns.levels, order), columns.relevant)
    return placed.vectors(layout, classes, shape, numbers), classes


def fill_intervals(
    classes: Tensor, scores: Tensor, ways: int, pieces: int, numbers: PerEpisode
) -> Tensor:
    """Assign a row to each position, given positions' classes (B, T) and rows' scores (B, T).

    The line of scores is cut into intervals, `pieces` per class in random order, sized so that each
    class has as many rows as positions. Within a class, rows are assigned to positions at random.
    """
    places = classes.shape[1]
    intervals = numbers.uniform_matrix(1, ways * pieces).argsort(dim=2, stable=True).squeeze(1)
    piece = (pieces * numbers.uniform_matrix(places, 1)).long().squeeze(2)
    interval = intervals.argsort(dim=1, stable=True).gather(1, classes * pieces + piece)
    keys = interval + numbers.uniform_matrix(places, 1).squeeze(2).clamp_max(0.999)
    rank = keys.argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    return scores.argsort(dim=1, stable=True).gather(1, rank)


def _draw_rule(
    rule: Rule, graph: Graph, layout: TableShape, shape: BatchShape, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw classes, levels that encode them by the rule, and the columns the rule ignores."""
    numbers, classes = PerEpisode(shape.episodes, generator), draw_classes(shape, generator)
    levels = rule.draw_levels(classes, shape.ways, numbers)  # (B, T, rule.columns)
    nodes = graph.grow(draw_roots(classes.shape[1], graph.roots, numbers), numbers)
    remaining = rule.others(layout)
    ignored = Columns.pick(nodes, remaining, numbers)
    values = ignored.values[:, :, : remaining.numbers]
    if rule.categories:
        levels = torch.cat([ignored.levels, levels], dim=2)
    else:
        values = torch.cat([values, rule.numbers_of(levels, numbers)], dim=2)
        levels = ignored.levels
    columns = Columns.of(values, levels, layout, numbers)
    return columns.vectors(layout, classes, shape, numbers), classes
