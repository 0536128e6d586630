"""The results of a benchmark as Markdown."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from unitail.evaluation.result import Outcome
from unitail.evaluation.summary import Frame

Row = Any
"""A row of a frame."""


def accuracy_cell(row: Row) -> str:
    """Write mean ± half width in %, or why there is none; "(7 of 9)" where some are missing."""
    if row.outcome != Outcome.ANSWERED.value:
        return str(row.outcome)
    text = f"{100 * row.accuracy:.1f} ± {100 * row.half_width:.1f}"
    return text if is_complete(row) else f"{text} ({row.answered} of {row.data_sets})"


def probability_cell(row: Row) -> str:
    """Write negative log-likelihood, Brier score and calibration error."""
    if row.outcome != Outcome.ANSWERED.value:
        return str(row.outcome)
    return f"{row.nll:.3f} / {row.brier:.3f} / {100 * row.ece:.1f}"


def time_cell(row: Row) -> str:
    """Write milliseconds."""
    return f"{row.ms:.2f}" if row.outcome == Outcome.ANSWERED.value else str(row.outcome)


def is_complete(row: Row) -> bool:
    """Tell whether the row is about all data sets of its group."""
    return bool(getattr(row, "answered", 1) == getattr(row, "data_sets", 1))


def best_rows(frame: Frame, column: str) -> set[tuple[str, str]]:
    """Find the most accurate learner of each column, among those that answered all of it."""
    best: dict[str, Row] = {}
    for row in frame.itertuples():
        place = getattr(row, column)
        fine = row.outcome == Outcome.ANSWERED.value and is_complete(row)
        if fine and (place not in best or row.accuracy > best[place].accuracy):
            best[place] = row
    return {(row.learner, place) for place, row in best.items()}


def learner_table(
    frame: Frame, column: str, cell: Callable[[Row], str], *, bold: bool = False
) -> str:
    """Write a table with a row for each learner and a column for each value of `column`."""
    columns = list(dict.fromkeys(frame[column]))
    learners = list(dict.fromkeys(frame["learner"]))
    best = best_rows(frame, column) if bold else set()
    cells = {}
    for row in frame.itertuples():
        key = (row.learner, getattr(row, column))
        cells[key] = f"**{cell(row)}**" if key in best else cell(row)
    rows = [[name, *(cells.get((name, each), "") for each in columns)] for name in learners]
    return table(["learner", *columns], rows)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], rule: str = "---:") -> str:
    """Write a table; all columns but the first are aligned as `rule` says."""
    rules = ["---", *[rule] * (len(header) - 1)]
    lines = [f"| {' | '.join(cells)} |" for cells in (header, rules, *rows)]
    return "\n".join(lines)
