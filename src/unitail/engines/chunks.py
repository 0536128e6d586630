"""Streams of rows for a job: from a list of items, or from tables that are read in pieces."""

import csv
import hashlib
import io
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain, islice
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from unitail.answer_defaults import CHUNK_ROWS
from unitail.configuration import parse_json
from unitail.engines.engine import Chunk
from unitail.engines.storage import Storage
from unitail.errors import InvalidInput, optional
from unitail.inputs.table_files import (
    DelimitedRows,
    beside_answers,
    checked_rows,
    delimiter_of,
    storable,
)

READ_ROWS = 4096
"""Rows of a file that are read at a time."""
STREAMED = (".csv", ".tsv", ".parquet", ".pq", ".jsonl", ".ndjson")
"""Suffixes of tables that can be streamed."""


class RowStream(ABC):
    """Rows in a fixed order; every iteration gives the same rows."""

    total: int | None = None
    """Number of rows, or None if it is not known before they are read."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """A hash that identifies the rows: a job is never resumed with other rows."""

    @abstractmethod
    def tables(self) -> Iterator[Any]:
        """Yield the rows as pyarrow tables of any size, all with the same columns."""

    def chunks(self, size: int = CHUNK_ROWS) -> Iterator[Chunk]:
        """Yield the rows in chunks of `size`; the last one may be smaller."""
        pyarrow = optional("pyarrow", extra="scale")
        index, buffer, rows = 0, list[Any](), 0
        for table in self.tables():
            buffer.append(table)
            rows += table.num_rows
            while rows >= size:
                joined = pyarrow.concat_tables(buffer)
                yield Chunk(index, index * size, _first_rows(joined, size))
                index, rows = index + 1, rows - size
                buffer = [joined.slice(size)]
        if rows:
            yield Chunk(index, index * size, _first_rows(pyarrow.concat_tables(buffer), rows))

    def head(self) -> Any:  # noqa: ANN401 - a table of pyarrow
        """Return the first rows, which decide how the columns are read."""
        first = next(self.chunks(READ_ROWS), None)
        if first is None:
            raise InvalidInput("there are no rows", got="an empty table", allowed="rows")
        return first.rows


class ListedStream(RowStream):
    """A list of file paths, addresses or texts, with or without labels."""

    def __init__(
        self,
        column: str,
        items: Sequence[str],
        labels: Sequence[str] | None = None,
        sizes: Sequence[int] | None = None,
    ) -> None:
        self.column, self.items, self.labels, self.sizes = column, items, labels, sizes
        self.total = len(items)

    @cached_property
    def identity(self) -> str:
        """A hash of the items, their labels and sizes."""
        digest = hashlib.sha256()
        for place, item in enumerate(self.items):
            label = self.labels[place] if self.labels is not None else ""
            size = self.sizes[place] if self.sizes is not None else ""
            digest.update(json.dumps([item, label, size]).encode())
        return digest.hexdigest()

    def tables(self) -> Iterator[Any]:
        """Yield tables of the items, and of their labels if there are any."""
        pyarrow = optional("pyarrow", extra="scale")
        for start in range(0, len(self.items), READ_ROWS):
            stop = start + READ_ROWS
            columns = {self.column: [*map(storable, self.items[start:stop])]}
            if self.labels is not None:
                columns["label"] = [*map(storable, self.labels[start:stop])]
            types = pyarrow.schema([(name, pyarrow.string()) for name in columns])
            yield pyarrow.table(columns, schema=types)


class TableStream(RowStream):
    """The rows of one or more tables with the same columns, one table after the other."""

    def __init__(self, tables: Sequence[Storage]) -> None:
        self._tables = tables
        if all(_suffix(each) in (".parquet", ".pq") for each in tables):
            self.total = sum(map(_num_rows, tables))

    @cached_property
    def identity(self) -> str:
        """A hash of the files' names, sizes and modification times."""
        identities = " ".join(each.identity() for each in self._tables)
        return hashlib.sha256(identities.encode()).hexdigest()

    def tables(self) -> Iterator[Any]:
        """Yield some rows at a time; the cells of CSV files stay strings.

        Columns that `unitail predict` added are left out.
        """
        schema = None
        for file in self._tables:
            for rows in _rows(file):
                table = rows.select(beside_answers(rows.column_names))
                schema = schema or table.schema
                if table.schema.names != schema.names:
                    raise InvalidInput(
                        f"{file.name} has other columns than the first table",
                        got=", ".join(table.schema.names),
                        allowed=", ".join(schema.names),
                    )
                yield _cast(table, schema, file)


def _first_rows(table: Any, rows: int) -> Any:  # noqa: ANN401 - of pyarrow
    """Copy the first rows: a slice would keep, and send to workers, the whole table."""
    return table.slice(0, rows).take(np.arange(rows))


def _cast(table: Any, schema: Any, file: Storage) -> Any:  # noqa: ANN401 - of pyarrow
    """Cast a table to the column types of the first one."""
    try:
        return table.cast(schema)
    except optional("pyarrow", extra="scale").ArrowException as error:
        pairs = zip(table.schema, schema, strict=True)
        raise InvalidInput(
            f"{file.name} has columns of other types than the first table",
            got=", ".join(f"{this.name}: {this.type}" for this, first in pairs if this != first),
            allowed=", ".join(f"{first.name}: {first.type}" for first in schema),
            remedy="Write the tables with the same types.",
        ) from error


def _suffix(table: Storage) -> str:
    return PurePosixPath(table.name).suffix.lower()


@contextmanager
def _parquet(table: Storage) -> Iterator[Any]:
    """Open a Parquet file."""
    parquet = optional("pyarrow.parquet", extra="scale")
    errors = optional("pyarrow", extra="scale").ArrowException
    try:
        with table.open() as file:
            yield parquet.ParquetFile(file)
    except (errors, OSError) as error:
        raise InvalidInput(
            f"{table.name} is not a Parquet file",
            got=str(error).split("\n")[0],
            allowed="a complete Parquet file",
        ) from error


def _num_rows(table: Storage) -> int:
    with _parquet(table) as file:
        return int(file.metadata.num_rows)


def _rows(table: Storage) -> Iterator[Any]:
    """Read a table in pieces of at most `READ_ROWS` rows."""
    match _suffix(table):
        case ".parquet" | ".pq":
            pyarrow = optional("pyarrow", extra="scale")
            with _parquet(table) as file:
                for batch in file.iter_batches(READ_ROWS):
                    yield pyarrow.Table.from_batches([batch])
        case ".jsonl" | ".ndjson":
            yield from _json_rows(table)
        case _:
            yield from _csv_rows(table)


def _as_tables(header: Sequence[str], rows: Iterator[list[Any]], table: Storage) -> Iterator[Any]:
    """Group rows of strings into pyarrow tables of at most `READ_ROWS` rows."""
    pyarrow = optional("pyarrow", extra="scale")
    repeated = [name for name, number in Counter(header).items() if number > 1]
    if repeated or not header:
        raise InvalidInput(
            f"{table.name} has no distinct column names",
            got=", ".join(map(repr, repeated)) or "an empty file",
            allowed="a first line with a different name for each column",
            remedy="Rename or remove columns.",
        )
    schema = pyarrow.schema([(name, pyarrow.string()) for name in header])
    while batch := list(islice(rows, READ_ROWS)):
        columns = [list(column) for column in zip(*batch, strict=True)]
        yield pyarrow.table(dict(zip(header, columns, strict=True)), schema=schema)


def _csv_rows(table: Storage) -> Iterator[Any]:
    """Read a CSV or TSV file; its delimiter is the one that gives the first line most columns."""
    with table.open() as file, _decoding(table):
        lines = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        first = lines.readline()
        delimiter = "\t" if _suffix(table) == ".tsv" else delimiter_of(first)
        cells = DelimitedRows(chain([first], lines), delimiter=delimiter, strict=True)
        try:
            header = [name.strip() for name in next(cells, [])]
            yield from _as_tables(header, checked_rows(cells, len(header)), table)
        except csv.Error as error:
            raise InvalidInput(
                f"{table.name} is not a table, line {cells.line_num}",
                got=str(error),
                allowed="as many cells in each line as the header has",
                remedy="Correct the line.",
            ) from error


def _json_rows(table: Storage) -> Iterator[Any]:
    """Read a file of JSON lines; later objects may only have names that the first one has."""
    with table.open() as file:
        objects = _objects(file, table)
        first = next(objects, {})
        header = list(first)
        rows = ([row.get(name) for name in header] for row in chain([first], objects))
        yield from _as_tables(header, rows, table)


def _objects(lines: Iterable[bytes], table: Storage) -> Iterator[dict[str, str | None]]:
    names: set[str] = set()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
            if isinstance(row, dict):
                row = {storable(name): storable(_as_text(cell)) for name, cell in row.items()}
            if not isinstance(row, dict) or (names and set(row) - names):
                raise ValueError("not an object, or other names than in the first line")
        except (ValueError, RecursionError) as error:
            raise InvalidInput(
                f"{table.name} is not a table, line {number}",
                got=str(error),
                allowed="a JSON object in each line, with the names of the first one",
                remedy="Correct the line.",
            ) from error
        names = names or set(row)
        yield row


def _as_text(cell: object) -> str | None:
    return cell if cell is None or isinstance(cell, str) else json.dumps(cell, ensure_ascii=False)


@contextmanager
def _decoding(table: Storage) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{table.name} is not text in UTF-8",
            got=f"byte {error.object[error.start]:#04x}",
            allowed="UTF-8",
            remedy="Save it again as UTF-8.",
        ) from error
