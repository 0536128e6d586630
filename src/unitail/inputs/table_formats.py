"""Excel, Parquet, Feather, JSON and gzip: a small file can stand for a table beyond all memory."""

import gzip
import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from zipfile import ZipFile

from unitail.configuration import parse_json
from unitail.errors import InvalidInput
from unitail.extras import optional
from unitail.wording import excerpt

MAX_CELLS = 50_000_000
"""Of a table."""
MAX_UNPACKED = 2**30
"""Bytes of an Excel file or one with the suffix .gz, unpacked."""

Columns = tuple[list[str], list[list[Any]], list[str]]
"""Names, cells by column, and what was guessed, a phrase each."""


def read_excel(content: bytes, name: str) -> Columns:
    """Read the sheet that was open last; empty rows, and columns without a name, are no data."""
    openpyxl = optional("openpyxl", extra="excel")
    with _broken(name, "an Excel file", "a whole .xlsx file with a sheet of cells"):
        file = io.BytesIO(content)
        unpacked = sum(member.file_size for member in ZipFile(file).infolist())
        _require_at_most(name, unpacked, MAX_UNPACKED, "bytes, unpacked")
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        sheet, sheets = book.active, book.sheetnames
        header, *rows = list(_rows(sheet, name)) or [[]]
    named = [place for place, title in enumerate(header) if title is not None]
    rows = [row + [None] * (len(header) - len(row)) for row in rows if any(_holds(row))]
    guesses = [f"of the sheets of {name}, {sheet.title!r} was read"] if sheets[1:] else []
    names = [str(header[place]).strip() for place in named]
    return names, [[row[place] for row in rows] for place in named], guesses


def read_parquet(content: bytes, name: str) -> Columns:
    """Read all columns."""
    parquet = optional("pyarrow.parquet", extra="encoders")
    with _broken(name, "a Parquet file", "a whole Parquet file"):
        file = parquet.ParquetFile(io.BytesIO(content))
        facts = file.metadata
        _require_at_most(name, facts.num_rows * facts.num_columns, MAX_CELLS, "cells")
        table = file.read()
        return table.column_names, [column.to_pylist() for column in table.columns], []


def read_feather(content: bytes, name: str) -> Columns:
    """Read all columns of an Arrow file, as pandas and R write them."""
    ipc = optional("pyarrow.ipc", extra="encoders")
    with _broken(name, "an Arrow file", "a whole file in Arrow's format (Feather version 2)"):
        file = ipc.open_file(io.BytesIO(content))
        columns: list[list[Any]] = [[] for _ in file.schema.names]
        for place in range(file.num_record_batches):
            batch = file.get_batch(place)
            cells = (len(columns[0]) + batch.num_rows) * len(columns) if columns else 0
            _require_at_most(name, cells, MAX_CELLS, "cells")
            for column, more in zip(columns, batch.columns, strict=True):
                column.extend(more.to_pylist())
        return file.schema.names, columns, []


def read_json_lines(text: str, name: str) -> Columns:
    """Read an object from each line."""
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except ValueError as error:
            raise _bad_line(name, number, str(error)) from error
        if not isinstance(row, dict):
            raise _bad_line(name, number, type(row).__name__)
        rows.append(row)
    return _columns(rows)


def read_json(text: str, name: str) -> Columns:
    """Read a list of objects."""
    try:
        rows = parse_json(text)
    except ValueError as error:
        rows = str(error)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidInput(
            f"{name} is not a table",
            got=rows if isinstance(rows, str) else f"JSON of another form ({type(rows).__name__})",
            allowed="a list of JSON objects, one for each row, or one object in each line (.jsonl)",
            remedy="Write it so; in pandas to_json(name, orient='records').",
        )
    return _columns(rows)


def unpacked(content: bytes, name: str) -> bytes:
    """Unpack what gzip packed, up to a limit."""
    with _broken(name, "packed by gzip", "a whole file"):
        with gzip.open(io.BytesIO(content)) as file:
            plain = file.read(MAX_UNPACKED + 1)
        _require_at_most(name, len(plain), MAX_UNPACKED, "bytes or more, unpacked")
    return plain


def _rows(sheet: Any, name: str) -> Iterator[list[Any]]:  # noqa: ANN401 - a sheet of openpyxl
    cells = 0
    for row in sheet.iter_rows(values_only=True):
        cells += len(row)
        _require_at_most(name, cells, MAX_CELLS, "cells")
        yield list(row)


def _holds(row: list[Any]) -> list[bool]:
    return [cell is not None for cell in row]


@contextmanager
def _broken(name: str, kind: str, allowed: str) -> Iterator[None]:
    """Turn whatever readers raise on broken files into one sentence, and keep them quiet."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except InvalidInput:
        raise
    except Exception as error:
        said = excerpt(str(error))
        raise InvalidInput(
            f"{name} is not {kind}",
            got=f"{type(error).__name__}: {said}" if said else type(error).__name__,
            allowed=allowed,
        ) from error


def _require_at_most(name: str, number: int, most: int, what: str) -> None:
    if number > most:
        raise InvalidInput(
            f"{name} stands for a table that is too large",
            got=f"{number:,} {what}",
            allowed=f"at most {most:,}",
            remedy="Cut it into several files, or leave columns out.",
        )


def _columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    rows = [{storable(name): storable(cell) for name, cell in row.items()} for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return names, [[row.get(name) for row in rows] for name in names], []


def storable(cell: Any) -> Any:  # noqa: ANN401 - whatever a cell holds
    """Replace halves of characters, which JSON can escape and no file can hold."""
    if not isinstance(cell, str) or cell.isascii():
        return cell
    return cell.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _bad_line(name: str, number: int, got: str) -> InvalidInput:
    return InvalidInput(
        f"{name} is not a table, line {number}",
        got=got,
        allowed="one JSON object in each line",
        remedy="Correct the line.",
    )
