"""What is there to label: the items of a folder or table, each with a key that outlives restarts.

A file is known by its path in the folder, so that labels stay when its content changes, and that is
told. A text or row of a table is known by its content, so that labels stay when rows are moved.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput, UserError
from unitail.inputs.items import Items, ReadOptions
from unitail.inputs.read import read_unlabelled
from unitail.inputs.table_files import is_table
from unitail.wording import shown

HASH = 24
"""Characters of a hash in a key."""
BYTES = "bytes "
"""Begins the key of a file whose name is no text."""
LONG_CELL = 24
"""Characters: a column whose cells are longer holds texts, for which the page has more room."""
MAX_FOLDER_CLASSES = 200
"""Subfolders that are offered as classes."""


@dataclass(eq=False)
class Catalogue:
    """The items of a studio, in their order; an item's place never changes while it runs.

    Files that are new come after the others. Threads may share it: what is there only grows.
    """

    source: Path
    items: Items
    keys: tuple[str, ...]
    given: Mapping[int, str]
    """Labels that the table itself has, by place."""
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
    ) -> "Catalogue":
        """Find the items of a folder or table; the modality is recognised as in `predict`."""
        if not source.is_dir() and not is_table(source):
            raise InvalidInput(
                f"{shown(source)} cannot be opened in a studio",
                got="another file" if source.exists() else "no such file or folder",
                allowed="a folder of images, texts or sounds, or a table",
            )
        items = read_unlabelled([source], ReadOptions(label_column, content_column, modality))
        given = {
            record.item: record.label
            for record in items.records
            if record.item is not None and record.label
        }
        return cls(source, items, _distinct(_keys(source, items)), given)

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def modality(self) -> Modality:
        """What all items are."""
        return self.items.modality

    @cached_property
    def columns(self) -> dict[str, bool]:
        """The columns of a table, and whether each holds texts; none for other items."""
        if self.modality is not Modality.TABLE:
            return {}
        frame: Any = self.items.items
        return {str(name): _holds_texts(frame[name]) for name in frame.columns}

    def take_in_new(self) -> range:
        """Look into the folder again, and take in files that are new; return their places."""
        first = len(self)
        nothing = range(first, first)
        if not self.source.is_dir():
            return nothing
        try:
            now = read_unlabelled([self.source], ReadOptions(modality=self.modality))
        except UserError:  # the folder is gone or empty
            return nothing
        keys = tuple(_keys(self.source, now))
        new = [place for place, key in enumerate(keys) if key not in self.places]
        if not new:
            return nothing
        own = self.items
        records = {each.item: each for each in now.records}
        self.items = replace(
            own,
            items=(*own.items, *(now.items[place] for place in new)),
            names=(*own.names, *(now.names[place] for place in new)),
            records=(
                *own.records,
                *(replace(records[each], item=first + rank) for rank, each in enumerate(new)),
            ),
        )
        self.places = {**self.places, **{keys[each]: first + n for n, each in enumerate(new)}}
        self.keys = (*self.keys, *(keys[each] for each in new))  # the last: it says how many
        return range(first, len(self))

    def require(self, place: int) -> int:
        """Return a place, or say that nothing is there."""
        if not 0 <= place < len(self):
            raise InvalidInput(
                "there is no such item",
                got=place,
                allowed=f"0 to {len(self) - 1}",
                remedy="Ask for another one.",
            )
        return place

    def item(self, place: int) -> object:
        """Return an item; a row of a table as a dict."""
        if self.modality is Modality.TABLE:
            row: dict[str, Any] = self.items.items.iloc[place].to_dict()  # type: ignore[attr-defined]
            return row
        return self.items.items[place]

    def file(self, place: int) -> Path | None:
        """Return the file that an item is, if it is one."""
        item = None if self.modality is Modality.TABLE else self.items.items[place]
        return item if isinstance(item, Path) else None

    def file_of(self, key: str) -> Path | None:
        """Return the file that had a key, whether it is there or not; None for texts and rows."""
        if not self.source.is_dir():
            return None
        name = key.removeprefix(BYTES)
        return self.source / (key if name == key else os.fsdecode(unquote_to_bytes(name)))

    def folder_classes(self) -> dict[str, list[int]]:
        """Return the places in each subfolder, if all files lie in a few of them."""
        if not self.source.is_dir():
            return {}
        tops: dict[str, list[int]] = {}
        for place, name in enumerate(self.items.names):
            top, *rest = name.split("/")
            if not rest:
                return {}
            tops.setdefault(top, []).append(place)
        return tops if 2 <= len(tops) <= MAX_FOLDER_CLASSES else {}


def _holds_texts(column: Any) -> bool:  # noqa: ANN401 - of pandas
    """Tell whether most cells of a column are long."""
    lengths = sorted(len(cell) for cell in column.head(200) if isinstance(cell, str))
    return bool(lengths) and lengths[len(lengths) // 2] > LONG_CELL


def _keys(source: Path, items: Items) -> Iterable[str]:
    base = source if source.is_dir() else source.parent
    if items.modality is Modality.TABLE:
        rows = items.items.to_dict("records")  # type: ignore[attr-defined]
        return (f"row {_hash(json.dumps(row, sort_keys=True, default=str))}" for row in rows)
    return (
        _file_key(item, base) if isinstance(item, Path) else f"text {_hash(str(item))}"
        for item in items.items
    )


def _file_key(path: Path, base: Path) -> str:
    """Write a path so that any database takes it, whatever bytes its name is made of."""
    text = os.path.relpath(path, base).replace(os.sep, "/")
    try:
        text.encode()
    except UnicodeEncodeError:
        return f"{BYTES}{quote(os.fsencode(text))}"
    return text


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:HASH]


def _distinct(keys: Iterable[str]) -> tuple[str, ...]:
    """Give keys that are there again a number: equal rows are different items."""
    seen: Counter[str] = Counter()
    result = []
    for key in keys:
        seen[key] += 1
        result.append(key if seen[key] == 1 else f"{key} #{seen[key]}")
    return tuple(result)
