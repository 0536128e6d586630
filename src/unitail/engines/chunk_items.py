"""How a worker reads the items of a chunk of rows: texts, files or cells of a table."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from unitail.encoders.encoder import Modality
from unitail.encoders.encoding import READERS
from unitail.engines.engine import Chunk
from unitail.engines.storage import Storage
from unitail.errors import optional
from unitail.files import is_address
from unitail.inputs.cells import MISSING, labels_of, orders_of_dates, read_dates, texts_of
from unitail.inputs.items import Items, LabelledItems, ReadOptions, Record
from unitail.inputs.recognise import modality_of
from unitail.inputs.table_rows import EMPTY_ROW, items_of_rows
from unitail.wording import excerpt


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """How the columns are read, decided once so that all chunks are read in the same way."""

    modality: Modality
    column: str | None = None
    """Column of texts or file names; None for tables, whose rows are the items."""
    are_files: bool = False
    base: str = ""
    """Folder or address that file names are relative to; "" is the current folder."""
    label_column: str = "label"
    like: LabelledItems | None = None
    """Examples, without their rows, whose columns the rows of a table must match.

    All formats of their cells are fixed: no chunk may be read in a way of its own.
    """

    @property
    def identity(self) -> dict[str, str | bool | None]:
        """The settings that decide which items the rows give; part of the identity of a job."""
        return {
            "modality": self.modality,
            "content column": self.column,
            "files": self.are_files,
            "folder of files": self.base,
            "label column": self.label_column,
        }

    @property
    def nothing(self) -> str:
        """The reason given for a row without an item."""
        return EMPTY_ROW if self.column is None else f"no {self.modality} in {self.column!r}"

    @contextmanager
    def items(self, chunk: Chunk) -> Iterator[Items]:
        """Yield the items of a chunk, with a record of every row.

        Remote files are copied to a folder that exists until the context is left.
        """
        cells: dict[str, list[Any]] = chunk.rows.to_pydict()
        labels = labels_of(cells.get(self.label_column, [""] * len(chunk)))
        if self.column is None:
            yield self._rows(cells, chunk.first)
            return
        with TemporaryDirectory(prefix="unitail-") as folder:
            items, reasons = self._items(cells[self.column], Path(folder))
            places = {place: number for number, place in enumerate(items)}
            records = tuple(
                Record(
                    cells={name: column[place] for name, column in cells.items()},
                    item=places.get(place),
                    row=chunk.first + place + 1,
                    label=labels[place],
                    reason=reasons.get(place, ""),
                )
                for place in range(len(chunk))
            )
            yield Items(
                items=tuple(items.values()),
                names=tuple(_name(cells[self.column][place]) for place in items),
                modality=self.modality,
                content_column=self.column,
                records=records,
            )

    def _rows(self, cells: Mapping[str, list[Any]], first: int) -> Items:
        """Return the rows of a table as items, read like the examples."""
        frame = optional("pandas", extra="scale").DataFrame(cells, dtype=object)
        options = ReadOptions(self.label_column, modality=self.modality)
        rows = items_of_rows(frame, Path("rows"), options, self.like)
        records = (replace(each, row=first + (each.row or 0), source="") for each in rows.records)
        table = without_unread_dates(rows.items)
        return replace(rows, items=table, records=tuple(records))

    def unread_cells(self, chunk: Chunk, items: Items) -> dict[str, int]:
        """Count by column the cells without a number or date in its format; they are missing."""
        if self.column is not None or self.like is None:
            return {}
        examples: Any = self.like.items
        table: Any = items.items
        orders, unread = orders_of_dates(examples), dict[str, int]()
        for name in [name for name in examples if name in table]:
            if examples[name].dtype == object and name not in orders:
                continue
            texts = texts_of(chunk.rows.column(name).to_pylist())
            present = sum(text.lower() not in MISSING for text in texts)
            unread[name] = present - int(table[name].notna().sum())
        return {name: number for name, number in unread.items() if number}

    def name(self, record: Record) -> str:
        """Return the name of a row in messages."""
        return "cells" if self.column is None else _name(record.cells[self.column])

    def kept(self, chunk: Chunk) -> Any:  # noqa: ANN401 - a table of pyarrow
        """Return the user's columns that are kept in the result: all except bytes of files."""
        pyarrow = optional("pyarrow", extra="scale")
        binary = (pyarrow.types.is_binary, pyarrow.types.is_large_binary)
        fields = [each for each in chunk.rows.schema if not any(is_(each.type) for is_ in binary)]
        return chunk.rows.select([field.name for field in fields])

    def _items(self, cells: list[Any], folder: Path) -> tuple[Mapping[int, Any], Mapping[int, str]]:
        """Return the items by row, and the reasons for rows without one."""
        if cells and all(isinstance(cell, bytes | None) for cell in cells):
            items: dict[int, Any] = {n: cell for n, cell in enumerate(cells) if cell is not None}
        else:
            texts = texts_of(cells)
            items = {place: text for place, text in enumerate(texts) if self._is_item(text)}
        reasons = {place: self.nothing for place in range(len(cells)) if place not in items}
        if not self.are_files:
            return items, reasons
        names = {place: self._full_name(str(name)) for place, name in items.items()}
        with ThreadPoolExecutor(READERS) as pool:
            files = pool.map(_file, names.values(), names, [folder] * len(names))
            for place, file in zip(names, files, strict=True):
                if isinstance(file, str):
                    reasons[place] = file
                    del items[place]
                else:
                    items[place] = file
        return items, reasons

    def _is_item(self, text: str) -> bool:
        return bool(text) and (
            not self.are_files or modality_of(Path(text)) in (self.modality, None)
        )

    def _full_name(self, name: str) -> str:
        if not self.base or is_address(name) or Path(name).is_absolute():
            return name
        return f"{self.base.rstrip('/')}/{name}"


def without_unread_dates(table: Any) -> Any:  # noqa: ANN401 - DataFrames
    """Remove the cells of date columns that are not dates: the encoder takes them as missing.

    It would refuse a chunk that happens to have no others.
    """
    table = table.copy()
    for name, day_first in orders_of_dates(table).items():
        if name in table:
            cells = texts_of(table[name].tolist())
            dates = read_dates(cells, day_first=day_first, every=False)
            iso = [None] * len(cells) if dates is None else dates[0]
            table[name] = table[name].where([day is not None for day in iso], None)
    return table


def _name(cell: object) -> str:
    return "bytes" if isinstance(cell, bytes) else excerpt(str(cell))


def _file(name: str, place: int, folder: Path) -> Path | str:
    """Return the path of a file, copied here if it is remote; or the reason why it cannot be."""
    if not is_address(name):
        return Path(name)
    target = folder / f"{place}{PurePosixPath(name).suffix}"
    try:
        Storage(name).copy_to(target)
    except Exception as error:  # each store has errors of its own
        return f"cannot be read: got {type(error).__name__}: {error}"
    return target
