"""What is said of a table that lacks a column: one wording, wherever the table is read."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from unitail.errors import InvalidInput
from unitail.wording import some

MAX_NAMED_COLUMNS = 20
"""Columns that a message names."""
USUAL_LABELS = ("label", "labels", "class", "category", "target", "intent", "species", "kind")
"""What columns of labels are called."""


def list_columns(columns: Iterable[object]) -> str:
    """Name the columns, for messages."""
    return some(map(repr, columns), MAX_NAMED_COLUMNS)


def lacks_columns(lost: Sequence[str], known: Iterable[str]) -> InvalidInput:
    """Say that a table lacks some of the columns that the examples taught."""
    return InvalidInput(
        "the table lacks columns that the examples have",
        got=f"no {', '.join(map(repr, lost))}",
        allowed=f"all of {', '.join(map(repr, known))}",
        remedy="Add the columns, with empty cells, or leave them out of the examples, too:"
        f" --column {lost[0]}=skip, in Python encoder={{{lost[0]!r}: 'skip'}}.",
    )


def no_label_column(table: str, columns: Sequence[str], wanted: str) -> InvalidInput:
    """Say that a table has no labels under that name, and which column may hold them."""
    return InvalidInput(
        f"{table} has no column of labels named {wanted!r}",
        got=list_columns(columns),
        allowed="a table with such a column",
        remedy="Name the column that holds the labels: --label-column"
        f" {_likely_labels(columns, wanted)}.",
    )


def no_item_column(columns: Iterable[object], wanted: str) -> InvalidInput:
    """Say that the column is not there that was named for the items, or held the examples."""
    return InvalidInput(
        f"a table has no column {wanted!r} to take its items from",
        got=list_columns(columns),
        allowed="the column that was named, or that the examples are in",
        remedy="Rename it, or name another: --content-column COLUMN, --column NAME=KIND.",
    )


def _likely_labels(columns: Iterable[str], wanted: str) -> str:
    """Return the column that is called nearly so, or as labels often are."""
    folded = {name.strip().casefold(): name for name in columns}
    meant = wanted.strip().casefold()
    names = (meant, *get_close_matches(meant, folded, n=1, cutoff=0.7), *USUAL_LABELS)
    return next((folded[name] for name in names if name in folded), "NAME")
