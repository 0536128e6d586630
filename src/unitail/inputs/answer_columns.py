"""The columns that `unitail predict` adds to a table, and how they are known again."""

import re
from collections.abc import Collection, Sequence
from typing import Any

FIXED = ("answer", "probability", "state", "set", "novelty", "reason")
"""They stand side by side in every table of answers, in this order."""
MORE = re.compile(r"because|because_columns|row|source|answer_\d+|probability_\d+")
"""What may follow them."""
PREFIX = "unitail_"
"""Goes before all of them if the user's table has a column of such a name."""
FORMULA = re.compile(r"[=@\t\r].*|[+-](?![0-9.]+(e[+-]?[0-9]+)?$).*", re.IGNORECASE | re.DOTALL)
"""What a spreadsheet would compute: text that begins so and is no number."""


def harmless(cell: Any) -> Any:  # noqa: ANN401 - whatever a cell holds
    """Put an apostrophe before a formula: spreadsheets take what follows as text."""
    return f"'{cell}" if isinstance(cell, str) and FORMULA.fullmatch(cell) else cell


def as_meant(cell: str) -> str:
    """Undo `harmless`."""
    return cell[1:] if cell.startswith("'") and FORMULA.fullmatch(cell[1:]) else cell


def prefix_beside(columns: Collection[str], added: Sequence[str]) -> str:
    """Return what must go before the added columns, so that none is called like another."""
    prefix = ""
    while any(f"{prefix}{name}" in columns for name in added):
        prefix += PREFIX
    return prefix


def without_answers(frame: Any) -> Any:  # noqa: ANN401 - a DataFrame
    """Leave out what `unitail predict` added: answers are neither features nor labels."""
    names = [str(name) for name in frame.columns]
    for start in range(len(names) - len(FIXED) + 1):
        prefix = names[start].removesuffix(FIXED[0])
        end = start + len(FIXED)
        known = not prefix.replace(PREFIX, "")
        if known and names[start:end] == [f"{prefix}{name}" for name in FIXED]:
            while end < len(names) and MORE.fullmatch(names[end].removeprefix(prefix)):
                end += 1
            return frame.iloc[:, [*range(start), *range(end, len(names))]]
    return frame
