"""Items for an encoder, options for reading them, and how to join several sets of them."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from typing import Any

from unitail.encoders.encoder import Modality, Vectors
from unitail.errors import InvalidInput, optional
from unitail.inputs.cells import Formats, is_missing, joined_reading
from unitail.inputs.columns import Layout
from unitail.wording import numbered, shown, some

FILE = "file"
"""The column of paths, for files that were named or found in folders."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """A row of a user's table, a file or a line of text, whether it became an item or not."""

    cells: Mapping[str, Any]
    """The user's data by column; a file has the column `file`, a line the column `text`."""
    item: int | None
    """Index of its item; None if it did not become one."""
    row: int | None = None
    """Number of the row or line, from 1; None for files."""
    source: str = ""
    """Path of its table, as the user gave it."""
    label: str = ""
    """The user's label; empty if there is none."""
    reason: str = ""
    """Why it is not an item."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Items:
    """The items of a folder or table, in an order that depends on names alone."""

    items: Sequence[Any]
    """Paths or texts; for tables a DataFrame, whose rows are the items."""
    names: tuple[str, ...]
    """Display name of each item."""
    modality: Modality
    ignored: tuple[str, ...] = ()
    """Notes on what was skipped, and why."""
    unlabelled: tuple[str, ...] = ()
    """Notes on rows without a label and files outside the class folders, among examples: skipped
    unless they are what is answered, see `read_half_labelled`."""
    guesses: tuple[str, ...] = ()
    """Notes on what was guessed when reading them."""
    content_column: str | None = None
    """Column of the table that holds the texts or paths."""
    layout: Layout | None = None
    """Roles of a table's columns; None unless its rows are the items."""
    records: tuple[Record, ...] = ()
    """All rows, files or lines in their order, including those that are not items."""
    given: tuple[tuple[Any, str], ...] = ()
    """Items removed because the user corrected them, with their class; see `apply_corrections`."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def skipped(self) -> tuple[str, ...]:
        """All notes on what was skipped."""
        return (*self.unlabelled, *self.ignored)

    @property
    def need_encoders(self) -> bool:
        """Whether there is anything other than rows of numbers and categories."""
        return self.layout is None or bool(self.layout.contents)

    def with_labels(self, labels: Iterable[str]) -> "LabelledItems":
        """Return the items as labelled examples."""
        return LabelledItems(labels=tuple(labels), **vars(self))


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledItems(Items):
    """Items of known classes."""

    labels: tuple[str, ...]
    num_corrections: int = 0
    """Number of items, at the end, that were added as corrections; see `read_labelled`."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The distinct labels, sorted."""
        return tuple(sorted(set(self.labels)))

    def contradictions(self, vectors: Vectors) -> tuple[str, ...]:
        """Return a note on examples that have equal vectors but different labels."""
        groups: dict[bytes, list[int]] = {}
        for place, row in zip(vectors.kept.tolist(), vectors.features, strict=True):
            groups.setdefault(blake2b(row.tobytes(), digest_size=16).digest(), []).append(place)
        conflicts = [
            " = ".join(f"{self.names[place]} ({self.labels[place]})" for place in group)
            for group in groups.values()
            if len({self.labels[place] for place in group}) > 1
        ]
        listed = some(conflicts, 3, separator="; ")
        return (f"Equal examples with different labels: {listed}",) if conflicts else ()


@dataclass(frozen=True)
class ReadOptions:
    """The user's options for reading folders and tables whose content is not obvious.

    `modality` and `content_column` resolve ambiguities.
    """

    label_column: str = "label"
    content_column: str | None = None
    modality: Modality | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    """The chosen content of single columns; see `columns.lay_out`."""
    one_column: bool = False
    """Whether the items of a table are in one column, whatever its others hold."""
    formats: Formats = field(default_factory=dict)
    """How the cells of some columns were read before, and are read again."""

    def like(self, examples: LabelledItems | None) -> "ReadOptions":
        """Return options that read other inputs the way these examples were read.

        The examples' layout has the kinds of their columns; without examples, these options do.
        """
        if examples is None:
            return self
        return replace(
            self,
            content_column=self.content_column or examples.content_column,
            modality=self.modality or examples.modality,
            columns={},
        )


PLAIN = ReadOptions()


def join_items(paths: Sequence[Path], pieces: Sequence[Items]) -> Items:
    """Join the items of several paths, in the order of the paths."""
    kinds = sorted({piece.modality for piece in pieces})
    if len(kinds) != 1:
        raise InvalidInput(
            "the inputs hold items of several kinds" if kinds else "there is no input",
            got=", ".join(kinds) or "none",
            allowed="items of one kind",
            remedy="Run the command once for each kind.",
        )
    if len(pieces) == 1:
        return pieces[0]
    return Items(
        items=_concatenated([piece.items for piece in pieces], kinds[0]),
        names=tuple(chain.from_iterable(map(_full_names, paths, pieces))),
        modality=kinds[0],
        ignored=tuple(chain.from_iterable(piece.ignored for piece in pieces)),
        guesses=tuple(chain.from_iterable(piece.guesses for piece in pieces)),
        content_column=pieces[0].content_column,
        layout=pieces[0].layout,
        records=_records(pieces),
    )


def join_examples(first: LabelledItems, second: LabelledItems) -> LabelledItems:
    """Join examples; an item in both takes its label from the second.

    Items are equal if they are the same file, the same text, or rows with the same cells.
    """
    repeated = set(_identities(second, like=first))
    kept = [place for place, key in enumerate(_identities(first)) if key not in repeated]
    replaced = len(first) - len(kept)
    corrected = (f"{numbered(replaced, 'example')} replaced by a later one",) if replaced else ()
    return LabelledItems(
        items=_concatenated([_subset(first, kept), second.items], first.modality),
        names=(*(first.names[place] for place in kept), *second.names),
        labels=(*(first.labels[place] for place in kept), *second.labels),
        modality=first.modality,
        ignored=(*first.ignored, *second.skipped, *corrected),
        unlabelled=first.unlabelled,
        guesses=(*first.guesses, *second.guesses),
        content_column=first.content_column,
        layout=first.layout,
        num_corrections=sum(place >= len(first) - first.num_corrections for place in kept)
        + len(second),
    )


def apply_corrections(queries: Items, examples: LabelledItems) -> Items:
    """Remove corrected items from the queries; their records keep the label and lose the item."""
    if not examples.num_corrections:
        return queries
    pairs = zip(_identities(examples), examples.labels, strict=True)
    corrections = dict(islice(pairs, len(examples) - examples.num_corrections, None))
    keys = _identities(queries, like=examples)
    labels = [corrections.get(key, "") for key in keys]
    items = keys if queries.modality is Modality.TABLE else queries.items
    kept = [place for place, label in enumerate(labels) if not label]
    places = {place: number for number, place in enumerate(kept)}
    return replace(
        queries,
        items=_subset(queries, kept),
        names=tuple(queries.names[place] for place in kept),
        given=tuple((item, label) for item, label in zip(items, labels, strict=True) if label),
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


def _identities(items: Items, like: Items | None = None) -> list[object]:
    """Return a key for each item: equal for two names of one file, equal texts and equal rows.

    The cells of a row are compared in the columns of `like`, as they were parsed.
    """
    if items.modality is not Modality.TABLE:
        return list(map(identity, items.items))
    frame = items.items.reindex(columns=list((like or items).items))  # type: ignore[attr-defined]
    return [tuple(map(identity, row)) for row in frame.itertuples(index=False, name=None)]


def identity(item: object) -> object:
    """Return a key that is equal for two names of one file, equal texts or equal cells."""
    if isinstance(item, Path):
        return Path(os.path.realpath(item))  # `resolve` would raise for a link to itself
    return None if is_missing(item) else item


def _subset(items: Items, places: list[int]) -> Any:  # noqa: ANN401 - a DataFrame, or a tuple
    if items.modality is Modality.TABLE:
        return items.items.iloc[places]  # type: ignore[attr-defined]
    return tuple(items.items[place] for place in places)


def _concatenated(pieces: Sequence[Any], modality: Modality) -> Any:  # noqa: ANN401
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
    """Prefix the names with the path that they are relative to."""
    if path.is_dir():
        return tuple(f"{shown(path)}/{name}" for name in piece.names)
    if piece.modality is Modality.TABLE:
        return tuple(f"{shown(path)} {name}" for name in piece.names)
    return piece.names
