"""The items to label: those of a folder or table, each with a key that survives restarts.

The key of a file is its path in the folder, so its label stays when its content changes, which the
page then reports. The key of a text or table row is a hash of its content, so that labels stay when
rows are moved. It hashes cells as they are written, not the numbers and dates that they are read
as: how a cell is read may depend on all rows of its column.
"""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput, UserError, choice
from unitail.inputs.cells import MISSING, Formats, is_missing
from unitail.inputs.items import Items, ReadOptions
from unitail.inputs.read import read_unlabelled
from unitail.inputs.table_files import is_table
from unitail.wording import excerpt, shown
from unitail.workflows.html_report.previews import cell_preview

MAX_CELLS, MAX_EXCERPT = 8, 80
"""Largest number of cells and of characters in the excerpt of a row."""
HASH = 24
"""Length of a hash in a key, in characters."""
BYTES = "bytes "
"""Prefix of the key of a file whose name is not valid text."""
KEY_OF_CELLS = re.compile(rf"(text|row) [0-9a-f]{{{HASH}}}( #\d+)?")
"""Keys of texts and rows, which may be repeated."""
NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?")
"""Numbers as programs write them; 007 is a name."""
EXACT = Context(prec=50)
LONG_CELL = 24
"""Cell length in characters above which a column holds texts, for which the page has more room."""
MAX_FOLDER_CLASSES = 200
"""Largest number of subfolders that are offered as classes."""


@dataclass(eq=False)
class Catalogue:
    """The items of a studio in a fixed order: an item's place never changes while it runs.

    New files are appended. Threads may share a catalogue, since it only grows.
    """

    source: Path
    items: Items
    keys: tuple[str, ...]
    table_labels: Mapping[int, str]
    """Labels from the table's own label column, by place."""
    label_column: str = "label"
    """Name of this column, also in exported tables."""
    places: dict[str, int] = field(init=False)
    """The place of each key."""

    def __post_init__(self) -> None:
        self.places = {key: place for place, key in enumerate(self.keys)}

    @classmethod
    def read(
        cls,
        source: Path,
        *,
        label_column: str = "label",
        content_column: str | None = None,
        modality: str | None = None,
        columns: Mapping[str, str] | None = None,
        formats: Formats | None = None,
    ) -> "Catalogue":
        """Read the items of a folder or table.

        The modality, and the kinds of columns that are not named, are recognised as in `predict`.
        """
        require_source(source)
        kind = None if modality is None else choice(Modality, modality, "--modality")
        options = ReadOptions(
            label_column, content_column, kind, columns or {}, formats=formats or {}
        )
        items = read_unlabelled([source], options)
        table_labels = {
            record.item: record.label
            for record in items.records
            if record.item is not None and record.label
        }
        return cls(source, items, _distinct(_keys(source, items)), table_labels, label_column)

    def keys_of_converted_cells(self) -> tuple[str, ...]:
        """Return the keys that rows of a table had in earlier versions; none for other items."""
        if self.modality is not Modality.TABLE:
            return ()
        rows = self.items.items.to_dict("records")  # type: ignore[attr-defined]
        return _distinct(_row_key(row) for row in rows)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def modality(self) -> Modality:
        """The modality of all items."""
        return self.items.modality

    @cached_property
    def columns(self) -> dict[str, bool]:
        """The columns of a table, and whether each holds texts; empty for other modalities."""
        if self.modality is not Modality.TABLE:
            return {}
        frame: Any = self.items.items
        return {str(name): _holds_texts(frame[name]) for name in frame.columns}

    def add_new_files(self) -> range:
        """Read the folder again, append files that are new, and return their places."""
        first = len(self)
        nothing = range(first, first)
        if not self.source.is_dir():
            return nothing
        try:
            current = read_unlabelled([self.source], ReadOptions(modality=self.modality))
        except UserError:  # the folder is gone or empty
            return nothing
        keys = tuple(_keys(self.source, current))
        new = [place for place, key in enumerate(keys) if key not in self.places]
        if not new:
            return nothing
        items = self.items
        records = {each.item: each for each in current.records}
        self.items = replace(
            items,
            items=(*items.items, *(current.items[place] for place in new)),
            names=(*items.names, *(current.names[place] for place in new)),
            records=(
                *items.records,
                *(replace(records[each], item=first + rank) for rank, each in enumerate(new)),
            ),
        )
        self.places = {**self.places, **{keys[each]: first + n for n, each in enumerate(new)}}
        self.keys = (*self.keys, *(keys[each] for each in new))  # last: `len` counts the keys
        return range(first, len(self))

    def require(self, place: int) -> int:
        """Return the place, or raise if there is no item."""
        if not 0 <= place < len(self):
            raise InvalidInput(
                "there is no such item",
                got=place,
                allowed=f"0 to {len(self) - 1}",
                remedy="Choose another one.",
            )
        return place

    def item(self, place: int) -> object:
        """Return an item; a table row as a dict."""
        if self.modality is Modality.TABLE:
            row: dict[str, Any] = self.items.items.iloc[place].to_dict()  # type: ignore[attr-defined]
            return row
        return self.items.items[place]

    def excerpt(self, place: int) -> str | None:
        """Return a text or row in a few words, to be shown when it is gone; None for files."""
        if self.modality is not Modality.TABLE:
            return None if self.file(place) is not None else self.items.names[place]
        row = self.item(place)
        assert isinstance(row, dict)
        cells = (f"{name}: {cell_preview(cell, missing='')}" for name, cell in row.items())
        return excerpt(", ".join(islice(cells, MAX_CELLS)), MAX_EXCERPT)

    def file(self, place: int) -> Path | None:
        """Return the file of an item; None if it is a text or table row."""
        item = None if self.modality is Modality.TABLE else self.items.items[place]
        return item if isinstance(item, Path) else None

    def file_of(self, key: str) -> Path | None:
        """Return the file of a key, whether it exists or not; None for texts and table rows."""
        if not self.source.is_dir():
            return None
        name = key.removeprefix(BYTES)
        return self.source / (key if name == key else os.fsdecode(unquote_to_bytes(name)))

    def kind_of(self, key: str) -> str:
        """Return what a key stands for: a file, a text or a row of the table."""
        kind = KEY_OF_CELLS.fullmatch(key)
        return "file" if kind is None or self.source.is_dir() else kind[1]

    def folder_classes(self) -> dict[str, list[int]]:
        """Return the places in each subfolder; empty unless all files lie in a few subfolders."""
        if not self.source.is_dir():
            return {}
        tops: dict[str, list[int]] = {}
        for place, name in enumerate(self.items.names):
            top, *rest = name.split("/")
            if not rest:
                return {}
            tops.setdefault(top, []).append(place)
        return tops if 2 <= len(tops) <= MAX_FOLDER_CLASSES else {}


def require_source(source: Path) -> None:
    """Raise if this is neither a folder nor a table."""
    if not source.is_dir() and not is_table(source):
        raise InvalidInput(
            f"{shown(source)} cannot be opened in a studio",
            got="another file" if source.exists() else "no such file or folder",
            allowed="a folder of images, texts or sounds, or a table",
        )


def _holds_texts(column: Any) -> bool:  # noqa: ANN401 - of pandas
    """Return whether most text cells of a column are long."""
    lengths = sorted(len(cell) for cell in column.head(200) if isinstance(cell, str))
    return bool(lengths) and lengths[len(lengths) // 2] > LONG_CELL


def _keys(source: Path, items: Items) -> Iterable[str]:
    base = source if source.is_dir() else source.parent
    if items.modality is Modality.TABLE:
        records = (record for record in items.records if record.item is not None)
        rows = [{name: _text(record.cells[name]) for name in items.items} for record in records]
        return _row_keys(rows)
    return (
        _file_key(item, base) if isinstance(item, Path) else f"text {_hash(str(item))}"
        for item in items.items
    )


def _row_key(cells: Mapping[str, object]) -> str:
    return f"row {_hash(json.dumps(cells, sort_keys=True, default=str))}"


def _row_keys(rows: Sequence[Mapping[str, str | None]]) -> list[str]:
    """Return a key for each row, the same for 1, 1.0 and 1.00: programs differ in what they write.

    Where two rows differ in nothing else, as 1.1 and 1.10 may do, both keep their own.
    """
    keys = [_row_key({name: _number(text) for name, text in row.items()}) for row in rows]
    first: dict[str, Mapping[str, str | None]] = {}
    differ = {key for key, row in zip(keys, rows, strict=True) if first.setdefault(key, row) != row}
    return [_row_key(row) if key in differ else key for key, row in zip(keys, rows, strict=True)]


def _text(cell: object) -> str | None:
    """Return a cell as text, the same in CSV and other tables; None if it is missing."""
    text = "" if is_missing(cell) else str(cell).strip()
    return None if text.lower() in MISSING else text


def _number(text: str | None) -> str | None:
    """Return a number without zeros at its end; other texts unchanged."""
    if text is None or not NUMBER.fullmatch(text):
        return text
    return str(Decimal(text).normalize(EXACT))


def _file_key(path: Path, base: Path) -> str:
    """Return a path as text that any database can store, whatever bytes its name contains."""
    text = os.path.relpath(path, base).replace(os.sep, "/")
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"{BYTES}{quote(os.fsencode(text))}"
    return text


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:HASH]


def _distinct(keys: Iterable[str]) -> tuple[str, ...]:
    """Add numbers to repeated keys, since equal rows are different items."""
    counts: Counter[str] = Counter()
    distinct = []
    for key in keys:
        counts[key] += 1
        distinct.append(key if counts[key] == 1 else f"{key} #{counts[key]}")
    return tuple(distinct)
