"""Errors about missing columns, worded alike wherever tables are read."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from unitail.errors import InvalidInput
from unitail.wording import some

MAX_NAMED_COLUMNS = 20
"""Largest number of columns listed in a message."""
USUAL_LABELS = ("label", "labels", "class", "category", "target", "intent", "species", "kind")
"""Common names of label columns."""


def list_columns(columns: Iterable[object]) -> str:
    """Return a list of column names for messages."""
    return some(map(repr, columns), MAX_NAMED_COLUMNS)


def lacks_columns(missing: Sequence[str], known: Iterable[str]) -> InvalidInput:
    """Return the error for a table without some of the examples' columns."""
    return InvalidInput(
        "the table lacks columns that the examples have",
        got=f"no {', '.join(map(repr, missing))}",
        allowed=f"all of {', '.join(map(repr, known))}",
        remedy="Add the columns, with empty cells, or leave them out of the examples, too:"
        f" --column {missing[0]}=skip, in Python encoder={{{missing[0]!r}: 'skip'}}.",
    )


def no_label_column(table: str, columns: Sequence[str], wanted: str) -> InvalidInput:
    """Return the error for a table without the label column, suggesting a likely one."""
    return InvalidInput(
        f"{table} has no column of labels named {wanted!r}",
        got=list_columns(columns),
        allowed="a table with such a column",
        remedy="Name the column that holds the labels: --label-column"
        f" {_likely_labels(columns, wanted)}.",
    )


def no_chosen_column(columns: Iterable[object], wanted: str, kind: str) -> InvalidInput:
    """Return the error for a table without a column whose kind was chosen."""
    return InvalidInput(
        f"a table has no column {wanted!r}",
        got=list_columns(columns),
        allowed="columns of the table",
        remedy=f"Correct the name: --column NAME={kind}, in Python encoder={{NAME: {kind!r}}}.",
    )


def no_item_column(columns: Iterable[object], wanted: str) -> InvalidInput:
    """Return the error for a table without the column that its items are in."""
    return InvalidInput(
        f"a table has no column {wanted!r} to take its items from",
        got=list_columns(columns),
        allowed="the column that was named, or that the examples are in",
        remedy="Rename it, or name another: --content-column COLUMN, --column NAME=KIND.",
    )


def _likely_labels(columns: Iterable[str], wanted: str) -> str:
    """Return the column with the most similar name, or else with a common name for labels."""
    folded = {name.strip().casefold(): name for name in columns}
    target = wanted.strip().casefold()
    names = (target, *get_close_matches(target, folded, n=1, cutoff=0.7), *USUAL_LABELS)
    return next((folded[name] for name in names if name in folded), "NAME")
