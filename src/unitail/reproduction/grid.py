"""Tables of a report: our numbers, the paper's below them, and whether the two differ."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from unitail.benchmark.means import DataSetMeans
from unitail.evaluation.result import Outcome
from unitail.reproduction.paper import LABELS, SHOTS, Number, PaperTable

WAYS = 5
"""That the paper's tables ask for."""


class CellVerdict(StrEnum):
    """How our number stands to the paper's."""

    HIGHER = "higher"
    LOWER = "lower"
    ALIKE = "alike"
    NONE = ""
    """One of them is not there."""


@dataclass(frozen=True)
class Cell:
    """One number, and the paper's."""

    ours: str = ""
    paper: str = ""
    verdict: CellVerdict = CellVerdict.NONE
    best: bool = False
    """Whether it is the highest of ours in its column and shots."""


@dataclass(frozen=True)
class Row:
    """A line: what it is about, and its cells."""

    shots: str
    learner: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table that is ready to be written."""

    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    compared: bool = False
    """Whether the paper's numbers stand below ours."""


def paper_grid(
    table: PaperTable, rows: Sequence[DataSetMeans], sizes: Mapping[str, int] | None = None
) -> Grid:
    """Lay out a table as the paper prints it, with what was measured of it.

    `sizes` are the data sets of each group: an average over fewer is not compared with the paper's.
    """
    own = [row for row in rows if row.protocol in _protocols()]
    extra = list(dict.fromkeys(row.learner for row in own)) if table.also is None else table.also
    learners = [*table.learners, *(name for name in extra if name not in table.learners)]
    cells = _compared_cells(table, own, learners, sizes or {})
    places = range(len(table.names))
    names = [f"{name}{_true_ways(table, own, place)}" for place, name in enumerate(table.names)]
    labels = {name: table.labels.get(name, name) for name in learners}
    if table.wide:
        columns = [f"{name}, {shots}-shot" for name in names for shots in SHOTS]
        lines = [
            Row("", labels[each], tuple(cells[n, each, place] for place in places for n in SHOTS))
            for each in learners
        ]
    else:
        columns = names
        lines = [
            Row(f"{shots}-shot", labels[each], tuple(cells[shots, each, place] for place in places))
            for shots in SHOTS
            for each in learners
        ]
    return Grid(
        title=table.title,
        caption=f"In the paper: {table.caption}",
        columns=tuple(columns),
        rows=tuple(lines),
        compared=True,
    )


def _compared_cells(
    table: PaperTable,
    rows: Sequence[DataSetMeans],
    learners: Sequence[str],
    sizes: Mapping[str, int],
) -> dict[tuple[int, str, int], Cell]:
    """Put what was measured beside the paper's number; the best of each column is marked."""
    cells = {}
    for shots, place in itertools.product(SHOTS, range(len(table.names))):
        column = {name: _measured(table, rows, shots, name, place, sizes) for name in learners}
        means = [number.mean for number in column.values() if isinstance(number, Number)]
        for name, number in column.items():
            best = isinstance(number, Number) and number.mean == max(means)
            paper = table.number(shots, name, place)
            cells[shots, name, place] = compared(number, paper, best=best)
    return cells


def plain_grids(title: str, rows: Sequence[DataSetMeans]) -> list[Grid]:
    """Lay out what the paper has no numbers of: a table for each group and number of ways."""
    grids = []
    for group in dict.fromkeys(row.group for row in rows):
        own = [row for row in rows if row.group == group]
        for ways in dict.fromkeys(row.protocol.split()[0] for row in own):
            mine = [row for row in own if row.protocol.split()[0] == ways]
            grids.append(_plain(f"{title}: {group}, {ways}", mine))
    return grids


def compared(ours: Number | str, paper: Number | None, *, best: bool = False) -> Cell:
    """Write a cell; two numbers differ if their intervals, joined, leave out no difference."""
    below = "" if paper is None else _text(paper)
    if isinstance(ours, str):
        return Cell(ours, below)
    verdict = CellVerdict.NONE
    if paper is not None:
        doubt = math.hypot(ours.half_width, paper.half_width)
        difference = ours.mean - paper.mean
        higher = CellVerdict.HIGHER if difference > 0 else CellVerdict.LOWER
        verdict = higher if abs(difference) > doubt else CellVerdict.ALIKE
    return Cell(_text(ours), below, verdict, best)


def _plain(title: str, rows: Sequence[DataSetMeans]) -> Grid:
    columns = list(dict.fromkeys(row.title for row in rows))
    shots = list(dict.fromkeys(row.shots for row in rows))
    lines = []
    for number in shots:
        own = [row for row in rows if row.shots == number]
        answered = [row for row in own if _answered(row)]
        best = {
            name: max((row.accuracy for row in answered if row.title == name), default=math.nan)
            for name in columns
        }
        for learner in dict.fromkeys(row.learner for row in own):
            cells = {
                row.title: compared(
                    _number(row), None, best=_answered(row) and row.accuracy == best[row.title]
                )
                for row in own
                if row.learner == learner
            }
            label = LABELS.get(learner, learner)
            line = tuple(cells.get(name, Cell()) for name in columns)
            lines.append(Row(f"{number}-shot", label, line))
    return Grid(title=title, caption="", columns=tuple(columns), rows=tuple(lines))


def _measured(
    table: PaperTable,
    rows: Sequence[DataSetMeans],
    shots: int,
    learner: str,
    place: int,
    sizes: Mapping[str, int],
) -> Number | str:
    """Find our number of a cell, or say why there is none."""
    own = [row for row in rows if (row.shots, row.learner) == (shots, learner)]
    if table.sets:
        own = [row for row in own if row.data_set == table.sets[place]]
        return _number(own[0]) if own else ""
    group = table.groups[place] if table.groups else ""
    answered = [row for row in own if group and row.group == group and _answered(row)]
    if not answered:
        return ""
    spread = math.hypot(*(row.half_width for row in answered)) / len(answered)
    number = Number(100 * float(np.mean([row.accuracy for row in answered])), 100 * spread)
    whole = sizes.get(group, len(answered))
    return number if len(answered) == whole else f"{_text(number)}, {len(answered)} of {whole} sets"


def _true_ways(table: PaperTable, rows: Sequence[DataSetMeans], place: int) -> str:
    """Say how many ways a column really has, where it is not what was asked for."""
    if not table.sets:
        return ""
    ways = {row.ways for row in rows if row.data_set == table.sets[place]} - {WAYS}
    return f" ({', '.join(f'{number}-way' for number in sorted(ways))})" if ways else ""


def _protocols() -> set[str]:
    return {f"{WAYS}-way {shots}-shot" for shots in SHOTS}


def _number(row: DataSetMeans) -> Number | str:
    return Number(100 * row.accuracy, 100 * row.half_width) if _answered(row) else str(row.outcome)


def _answered(row: DataSetMeans) -> bool:
    return row.outcome is Outcome.ANSWERED


def _text(number: Number) -> str:
    return f"{number.mean:.2f} ({number.half_width:.2f})"
