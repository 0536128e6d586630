"""Items for an encoder, and what was passed over."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unitail.encoders.encoder import Modality


@dataclass(frozen=True, kw_only=True)
class Record:
    """A row of a user's table, a file or a line of text, whether it became an item or not."""

    cells: Mapping[str, Any]
    """What the user's data say, by column; a file has the column `file`, a line `text`."""
    item: int | None
    """The place of the item that it became."""
    row: int | None = None
    """Its number in the table or among the lines, from 1; files have none."""
    source: str = ""
    """The table that it is in, as its path was given."""
    label: str = ""
    """The class that the user says it belongs to."""
    reason: str = ""
    """Why it is not an item."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Items:
    """What a folder or table holds, in an order that depends on names alone."""

    items: Sequence[Any]
    """Paths or texts; for tables a DataFrame, whose rows are the items."""
    names: tuple[str, ...]
    """What to call each item before the user."""
    modality: Modality
    ignored: tuple[str, ...] = ()
    """What was passed over and why, a phrase each."""
    guesses: tuple[str, ...] = ()
    """What was guessed to read them, a phrase each."""
    content_column: str | None = None
    """The column of a table that the texts or paths came from."""
    records: tuple[Record, ...] = ()
    """All that was there, in its order, with what did not become an item."""
    given: tuple[tuple[Any, str], ...] = ()
    """What was taken out since the user corrected it, with its class; see `join.settle`."""

    def __len__(self) -> int:
        return len(self.names)

    def with_labels(self, labels: Iterable[str], *, ignored: Sequence[str] = ()) -> "LabelledItems":
        """Return the items as examples of classes; `ignored` is told first."""
        facts = {**vars(self), "ignored": (*ignored, *self.ignored)}
        return LabelledItems(labels=tuple(labels), **facts)


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledItems(Items):
    """Items of known classes."""

    labels: tuple[str, ...]
    num_corrections: int = 0
    """How many, the last ones, were added to the examples, see `read_labelled`."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels, sorted, each once."""
        return tuple(sorted(set(self.labels)))
