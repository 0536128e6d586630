r"""Synthetic tasks that are tables: columns of a graph of random functions, and a class.

A prior as that of Hollmann and others, *TabPFN* (2023): what is common to small tables is not a
distribution of features but that columns are causes and effects of each other. The class is

    an effect   a random function of relevant columns, or of hidden nodes, with noise, cut into
                intervals; a class has one interval or several
    a cause     of the roots of the graph: each class is a cluster or several in their space
    a rule      of a few columns: parity or a table of all combinations of their levels, while
                all other columns have nothing to do with it

By a rule every combination of levels is a cell. By parity, the sum of the levels modulo the number
of classes is the class (two columns of two levels: XOR; of more: a checkerboard). By a lookup
table, each cell has a random class. Classes are drawn first, then one of their cells, so every
class has its rows.

The number of rows of each class is given, so an effect is cut where the counts come out right.
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
from unitail.tasks.assemble import take
from unitail.tasks.batches import BatchShape, EpisodeRanges
from unitail.tasks.query_shares import draw_classes
from unitail.tasks.synthetic.graphs import FUNCTIONS, Function, Graph, draw_roots, standardised
from unitail.tasks.synthetic.laws import SyntheticBatch
from unitail.tasks.synthetic.table_columns import Columns, TableShape

MAX_COLUMNS = 4
"""Columns of a rule, at most."""
MAX_CELLS = 64
"""Combinations of levels, at most."""
SPREADS = (0.05, 0.5)
"""Of numbers around the middle of their level, in widths of a level, log-uniform."""
PIECES = (1, 1, 1, 2, 3)
"""Intervals or clusters of a class; one of these numbers is drawn for each batch."""
HIDDEN = 0.2
"""The share of the effects that hidden nodes decide about."""
MAX_TERMS = 3
"""Functions whose sum decides about a class, at most."""
LABEL_NOISE = (0.003, 0.3)
"""Of what decides about a class, in deviations, log-uniform."""
SEPARATIONS = (1.0, 8.0)
"""How far apart the clusters of classes that are causes are, in deviations, log-uniform."""
MAX_LEVELS = 8
"""Different categories of a column, at most."""
VIEWED = 0.75
"""The share of the batches whose columns have steps and weights; the others are plain."""
SOME = 0.4
"""The share of the batches with categories, and of those with missing values."""


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


@dataclass(frozen=True, kw_only=True)
class RandomTableTasks:
    """nu: tables; every episode has its own functions, every batch its own kind of graph."""

    columns: tuple[int, int] = (1, 64)
    """The fewest and the most columns; all orders of magnitude are equally likely."""
    max_ways: int = 10
    """Classes of a table, at most, whatever the recipe says of other sources."""
    shots: tuple[int, int] | None = None
    """Least and most labelled rows of a class, all orders of magnitude alike; the recipe's if
    there are none."""
    max_rows: int = 1000
    """Labelled rows of a table, at most."""
    functions: tuple[Function, ...] = tuple(Function)
    """The kinds of functions."""
    causes: float = 0.3
    """The share of the batches in which classes are causes."""
    rules: float = 0.1
    """The share of the batches in which classes follow a rule."""

    def __post_init__(self) -> None:
        for name in ("columns", "shots"):
            ends = getattr(self, name)
            valid = ends is None or (len(ends) == 2 and 1 <= ends[0] <= ends[1])
            require(valid, name, got=ends, allowed="[low, high] with 1 <= low <= high")
        require(self.max_ways >= 2, "max_ways", got=self.max_ways, allowed="2 or more")
        fine = self.max_rows >= self.max_ways
        require(fine, "max_rows", got=self.max_rows, allowed="max_ways or more")
        require(bool(self.functions), "functions", got="none", allowed="one or more")
        fine = self.causes >= 0 and self.rules >= 0 and self.causes + self.rules <= 1
        got = f"{self.causes} and {self.rules}"
        require(fine, "causes and rules", got=got, allowed="shares that add up to at most 1")

    def choose_batch(self, ranges: EpisodeRanges, generator: torch.Generator) -> SyntheticBatch:
        """Draw the columns, the graph, where classes come from, and the shape of a batch."""
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
    """How a class comes about that is an effect."""

    terms: tuple[Function, ...]
    """The kinds of the functions that are added up."""
    pieces: int
    """The intervals of a class."""
    hidden: bool
    """Whether nodes of the graph decide, or columns of the table."""


def _draw_layout(columns: int, rule: Rule | None, generator: torch.Generator) -> TableShape:
    """Draw how many columns hold categories, and how many have missing values."""
    levels = draw_between((2, MAX_LEVELS), generator) if rule is None else rule.levels
    some, lost = (draw_uniform(generator) < SOME for _ in range(2))
    most = columns if rule is None else columns - rule.columns
    categories = draw_between((0, most), generator) if some else 0
    if rule is not None and rule.categories:
        categories += rule.columns
    numbers = columns - categories
    return TableShape(
        numbers=numbers,
        categories=categories,
        levels=levels,
        missing=draw_between((0, numbers // 2), generator) if lost else 0,
        view=draw_uniform(generator) < VIEWED,
    )


def _draw_cause(
    graph: Graph, layout: TableShape, pieces: int, shape: BatchShape, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw classes, roots around the clusters of their class, then columns."""
    numbers, classes = PerEpisode(shape.episodes, generator), draw_classes(shape, generator)
    rows = classes.shape[1]
    centres = numbers.normal(shape.ways * pieces, graph.roots)
    piece = (pieces * numbers.spread(rows, 1)).long().squeeze(2)
    own = take(centres, classes * pieces + piece) * numbers.log_uniform(SEPARATIONS)
    nodes = graph.grow(own + draw_roots(rows, graph.roots, numbers), numbers)
    columns = Columns.pick(nodes, layout, numbers).with_irrelevant(numbers)
    return columns.vectors(layout, classes, shape, numbers), classes


def _draw_effect(
    graph: Graph, layout: TableShape, effect: Effect, shape: BatchShape, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw columns, then what decides about classes, and give each row the class it falls into."""
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
    # The support is scaled by its own rows, so rows find their places before that.
    placed = Columns(take(columns.values, order), take(columns.levels, order), columns.relevant)
    return placed.vectors(layout, classes, shape, numbers), classes


def fill_intervals(
    classes: Tensor, scores: Tensor, ways: int, pieces: int, numbers: PerEpisode
) -> Tensor:
    """Choose a row for each place, whose class (B, T) is given, by the rows' scores (B, T).

    The line of scores is cut into intervals, `pieces` for each class in random order, so long that
    each class has as many rows as it has places. Which place of a class gets which of its rows is
    random.
    """
    places = classes.shape[1]
    intervals = numbers.spread(1, ways * pieces).argsort(dim=2, stable=True).squeeze(1)
    piece = (pieces * numbers.spread(places, 1)).long().squeeze(2)
    interval = intervals.argsort(dim=1, stable=True).gather(1, classes * pieces + piece)
    keys = interval + numbers.spread(places, 1).squeeze(2).clamp_max(0.999)
    rank = keys.argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    return scores.argsort(dim=1, stable=True).gather(1, rank)


def _draw_rule(
    rule: Rule, graph: Graph, layout: TableShape, shape: BatchShape, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw classes, combinations of levels that mean them, and other columns beside."""
    numbers, classes = PerEpisode(shape.episodes, generator), draw_classes(shape, generator)
    levels = rule.draw_levels(classes, shape.ways, numbers)  # (B, T, rule.columns)
    nodes = graph.grow(draw_roots(classes.shape[1], graph.roots, numbers), numbers)
    others = rule.others(layout)
    beside = Columns.pick(nodes, others, numbers)
    values = beside.values[:, :, : others.numbers]
    if rule.categories:
        levels = torch.cat([beside.levels, levels], dim=2)
    else:
        values = torch.cat([values, rule.numbers_of(levels, numbers)], dim=2)
        levels = beside.levels
    columns = Columns.of(values, levels, layout, numbers)
    return columns.vectors(layout, classes, shape, numbers), classes
