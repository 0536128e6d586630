"""Tables of a report: our numbers, the paper's below, and whether they differ."""

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
"""Number of ways in the paper's tables."""


class CellVerdict(StrEnum):
    """How our number compares with the paper's."""

    HIGHER = "higher"
    LOWER = "lower"
    ALIKE = "alike"
    NONE = ""
    """One of the two numbers is missing."""


@dataclass(frozen=True)
class Cell:
    """Our number and the paper's, as text."""

    ours: str = ""
    paper: str = ""
    verdict: CellVerdict = CellVerdict.NONE
    best: bool = False
    """Whether ours is the highest in its column for this number of shots."""


@dataclass(frozen=True)
class Row:
    """A row of a table: shots, learner and cells."""

    shots: str
    learner: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table ready to be rendered."""

    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    compared: bool = False
    """Whether the paper's numbers are shown below ours."""


def paper_grid(
    table: PaperTable, rows: Sequence[DataSetMeans], sizes: Mapping[str, int] | None = None
) -> Grid:
    """Lay out a table of the paper, with our measurements of it.

    `sizes` is the number of data sets per group: an average over fewer is not compared with the
    paper's.
    """
    measured = [row for row in rows if row.protocol in _protocols()]
    extra = (
        list(dict.fromkeys(row.learner for row in measured)) if table.also is None else table.also
    )
    learners = [*table.learners, *(name for name in extra if name not in table.learners)]
    cells = _compared_cells(table, measured, learners, sizes or {})
    column_numbers = range(len(table.names))
    names = [
        f"{name}{_true_ways(table, measured, place)}" for place, name in enumerate(table.names)
    ]
    labels = {name: table.labels.get(name, name) for name in learners}
    if table.wide:
        columns = [f"{name}, {shots}-shot" for name in names for shots in SHOTS]
        lines = [
            Row(
                "",
                labels[each],
                tuple(cells[n, each, place] for place in column_numbers for n in SHOTS),
            )
            for each in learners
        ]
    else:
        columns = names
        lines = [
            Row(
                f"{shots}-shot",
                labels[each],
                tuple(cells[shots, each, place] for place in column_numbers),
            )
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
    """Combine our numbers with the paper's, and mark the best of ours in each column."""
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
    """Lay out results without counterpart in the paper: a table per group and number of ways."""
    grids = []
    for group in dict.fromkeys(row.group for row in rows):
        own = [row for row in rows if row.group == group]
        for ways in dict.fromkeys(row.protocol.split()[0] for row in own):
            mine = [row for row in own if row.protocol.split()[0] == ways]
            grids.append(_plain(f"{title}: {group}, {ways}", mine))
    return grids


def compared(ours: Number | str, paper: Number | None, *, best: bool = False) -> Cell:
    """Return a cell; the numbers differ if the interval of their difference excludes zero."""
    below = "" if paper is None else _text(paper)
    if isinstance(ours, str):
        return Cell(ours, below)
    verdict = CellVerdict.NONE
    if paper is not None:
        half_width = math.hypot(ours.half_width, paper.half_width)
        difference = ours.mean - paper.mean
        direction = CellVerdict.HIGHER if difference > 0 else CellVerdict.LOWER
        verdict = direction if abs(difference) > half_width else CellVerdict.ALIKE
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
    """Return our number for a cell, or a text explaining why there is none."""
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
    """Return the actual number of ways of a column, if it differs from the protocol's."""
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
