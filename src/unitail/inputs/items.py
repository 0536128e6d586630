"""Items for an encoder, how users say what they are, and several lots of them as one."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput, choice, optional
from unitail.inputs.cells import joined_reading
from unitail.inputs.columns import Layout
from unitail.wording import numbered, shown

FILE = "file"
"""The column of the paths of files that were named, or found in folders."""


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
    layout: Layout | None = None
    """What the columns are of a table that holds items beside other cells."""
    records: tuple[Record, ...] = ()
    """All that was there, in its order, with what did not become an item."""
    given: tuple[tuple[Any, str], ...] = ()
    """What was taken out since the user corrected it, with its class; see `settle`."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def need_encoders(self) -> bool:
        """Whether there is anything but rows of numbers and categories."""
        mixed = self.layout is not None and bool(self.layout.contents)
        return mixed or self.modality is not Modality.TABLE

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


@dataclass(frozen=True)
class ReadOptions:
    """What users say of folders and tables that do not show it themselves.

    `modality` and `content_column` decide where there is a doubt.
    """

    label_column: str = "label"
    content_column: str | None = None
    modality: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    """What single columns hold (see `columns.lay_out`)."""

    def __post_init__(self) -> None:
        if self.modality is not None:
            choice(Modality, self.modality, "modality")  # which refuses others

    @property
    def kind(self) -> Modality | None:
        """The modality that is said."""
        return None if self.modality is None else Modality(self.modality)

    def like(self, examples: LabelledItems | None) -> "ReadOptions":
        """Return how to read what is compared with these examples: as those were."""
        content = examples.content_column if examples else None
        modality = self.kind or (examples.modality if examples else None)
        return ReadOptions(self.label_column, self.content_column or content, modality)


PLAIN = ReadOptions()


def join_items(paths: Sequence[Path], pieces: Sequence[Items]) -> Items:
    """Put the items of several paths in a row, in the order of the paths."""
    kinds = sorted({piece.modality for piece in pieces})
    if len(kinds) != 1:
        raise InvalidInput(
            "the inputs hold items of several kinds" if kinds else "there is no input",
            got=", ".join(kinds) or "none",
            allowed="items of one kind",
            remedy="Ask for each kind by itself.",
        )
    if len(pieces) == 1:
        return pieces[0]
    return Items(
        items=_together([piece.items for piece in pieces], kinds[0]),
        names=tuple(chain.from_iterable(map(_full_names, paths, pieces))),
        modality=kinds[0],
        ignored=tuple(chain.from_iterable(piece.ignored for piece in pieces)),
        guesses=tuple(chain.from_iterable(piece.guesses for piece in pieces)),
        content_column=pieces[0].content_column,
        layout=pieces[0].layout,
        records=_records(pieces),
    )


def join_examples(first: LabelledItems, second: LabelledItems) -> LabelledItems:
    """Put examples together; where both name an item, the second is right.

    The same item is the same file or the same text; rows of features are never the same.
    """
    again = set() if first.modality is Modality.TABLE else set(map(identity, second.items))
    kept = [
        place
        for place in range(len(first))
        if not again or identity(first.items[place]) not in again
    ]
    replaced = len(first) - len(kept)
    corrected = (f"{numbered(replaced, 'example')} that a later one replaces",) if replaced else ()
    return LabelledItems(
        items=_together([_chosen(first, kept), second.items], first.modality),
        names=(*(first.names[place] for place in kept), *second.names),
        labels=(*(first.labels[place] for place in kept), *second.labels),
        modality=first.modality,
        ignored=(*first.ignored, *second.ignored, *corrected),
        guesses=(*first.guesses, *second.guesses),
        content_column=first.content_column,
        layout=first.layout,
        num_corrections=first.num_corrections + len(second),
    )


def settle(queries: Items, examples: LabelledItems) -> Items:
    """Take what was corrected out of the queries: its records have their label, and no item.

    Rows of features stay: they are never the same.
    """
    if not examples.num_corrections or queries.modality is Modality.TABLE:
        return queries
    pairs = list(zip(examples.items, examples.labels, strict=True))[-examples.num_corrections :]
    said = {identity(item): label for item, label in pairs}
    labels = [said.get(identity(item), "") for item in queries.items]
    kept = [place for place, label in enumerate(labels) if not label]
    places = {place: number for number, place in enumerate(kept)}
    return replace(
        queries,
        items=_chosen(queries, kept),
        names=tuple(queries.names[place] for place in kept),
        given=tuple(
            (item, label) for item, label in zip(queries.items, labels, strict=True) if label
        ),
        records=tuple(
            record
            if record.item is None
            else replace(
                record,
                item=places.get(record.item),
                label=labels[record.item] or record.label,
            )
            for record in queries.records
        ),
    )


def identity(item: object) -> object:
    """Return what two names of one file, or two equal texts, have in common."""
    if not isinstance(item, Path):
        return item
    return Path(os.path.realpath(item))  # of a link to itself, `resolve` would be an error


def _chosen(items: Items, places: list[int]) -> Any:  # noqa: ANN401 - a DataFrame, or a tuple
    if items.modality is Modality.TABLE:
        return items.items.iloc[places]  # type: ignore[attr-defined]
    return tuple(items.items[place] for place in places)


def _together(pieces: Sequence[Any], modality: Modality) -> Any:  # noqa: ANN401
    if modality is Modality.TABLE:
        joined = optional("pandas", extra="encoders").concat(pieces, ignore_index=True)
        joined.attrs.update(joined_reading(pieces))
        return joined
    return tuple(chain.from_iterable(pieces))


def _records(pieces: Sequence[Items]) -> tuple[Record, ...]:
    records: list[Record] = []
    before = 0
    for piece in pieces:
        records += (
            record if record.item is None else replace(record, item=before + record.item)
            for record in piece.records
        )
        before += len(piece)
    return tuple(records)


def _full_names(path: Path, piece: Items) -> tuple[str, ...]:
    """Put the path before names that are relative to it."""
    if path.is_dir():
        return tuple(f"{shown(path)}/{name}" for name in piece.names)
    if piece.modality is Modality.TABLE:
        return tuple(f"{shown(path)} {name}" for name in piece.names)
    return piece.names
