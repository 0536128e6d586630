"""Files of tables: CSV, Excel, Parquet, Feather and JSON, packed or not, as columns of texts.

Of a CSV file the delimiter and the encoding are guessed, and nothing else. Other files are checked
before they are opened: a small one can stand for a table beyond all memory.
"""

import codecs
import csv
import gzip
import io
import re
import threading
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from unitail.configuration import parse_json
from unitail.errors import InvalidInput, optional
from unitail.wording import excerpt, shown

MAX_CELLS = 50_000_000
"""Of a table."""
MAX_UNPACKED = 2**30
"""Bytes of an Excel file or one with the suffix .gz, unpacked."""

Columns = tuple[list[str], list[list[Any]], list[str]]
"""Names, cells by column, and what was guessed, a phrase each."""
TABLES = (
    ".csv", ".tsv", ".parquet", ".pq", ".feather", ".arrow", ".json", ".jsonl", ".ndjson", ".xlsx",
)  # fmt: skip
"""A file with one of these holds one item in each row; after it there may be `.gz`."""
SAMPLE = 4096
"""Bytes at the beginning of a text that tell UTF-16 without a mark, ..."""
MIN_ZEROS = 0.02
"""... by this share of zeros, in every other place: half of each space, comma and line break. Few
letters of other alphabets have their zero in the other half."""
DELIMITERS = ",;\t|"
"""Those tried, the earlier first where they give as many columns."""
MAX_CELL = 2**31 - 1
"""Characters of a cell; what Python's reader takes on every platform."""
_LIMIT = threading.Lock()
WINDOWS = "cp1252"
"""What spreadsheets write in much of the world, if they do not write UTF-8."""
GUESSES = "guesses"
NESTED = (list, dict, bytes)
_NAMELESS = re.compile(r"|__index_level_\d+__")
"""What CSV and Parquet files call row numbers that pandas wrote."""
ANSWER_COLUMNS = ("answer", "probability", "state", "set", "novelty", "reason")
"""What `unitail predict` adds to a table: they stand side by side, in this order."""
MORE_COLUMNS = re.compile(r"because|because_columns|row|source|answer_\d+|probability_\d+")
"""What may follow them."""
ANSWER_PREFIX = "unitail_"
"""Goes before all of them if the user's table has a column of such a name."""


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


PACKED = {
    ".parquet": read_parquet,
    ".pq": read_parquet,
    ".feather": read_feather,
    ".arrow": read_feather,
    ".xlsx": read_excel,
}


def read_table(path: Path) -> Any:  # noqa: ANN401 - a DataFrame
    """Return a frame with named, distinct columns and at least one row.

    Cells of CSV and TSV stay the texts that they are, so that "NA" may be a label and "01" a name;
    `cells.as_features` finds numbers and missing values. Columns that `unitail predict` added
    to a table are left out. What was guessed is in `guesses_of`.
    """
    suffix, name, content = table_suffix(path), shown(path), _content(path)
    if suffix in PACKED:
        frame = _frame(*PACKED[suffix](content, name))
    elif suffix in (".jsonl", ".ndjson"):
        frame = _frame(*read_json_lines(decode(content, name), name))
    elif suffix == ".json":
        frame = _frame(*read_json(decode(content, name), name))
    else:
        frame = _frame(*_read_delimited(content, name, "\t" if suffix == ".tsv" else None))
    return _checked(frame, path)


def is_table(path: Path) -> bool:
    """Say whether a file holds one item in each row."""
    return table_suffix(path) in TABLES


def table_suffix(path: Path) -> str:
    """Return the suffix that says how a table is written, whether it is packed or not."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() if last == ".gz" else last


def guesses_of(frame: Any) -> tuple[str, ...]:  # noqa: ANN401 - a DataFrame
    """Return what was guessed to read a table, a phrase each."""
    return tuple(frame.attrs.get(GUESSES, ()))


def without_row_numbers(frame: Any) -> Any:  # noqa: ANN401 - a DataFrame
    """Leave out nameless columns, which are row numbers that a program wrote."""
    return frame.loc[:, [not _NAMELESS.fullmatch(name) for name in frame.columns]]


def without_answers(frame: Any) -> Any:  # noqa: ANN401 - a DataFrame
    """Leave out what `unitail predict` added: answers are neither features nor labels."""
    names = [str(name) for name in frame.columns]
    for start in range(len(names) - len(ANSWER_COLUMNS) + 1):
        prefix = names[start].removesuffix(ANSWER_COLUMNS[0])
        end = start + len(ANSWER_COLUMNS)
        known = not prefix.replace(ANSWER_PREFIX, "")
        if known and names[start:end] == [f"{prefix}{name}" for name in ANSWER_COLUMNS]:
            while end < len(names) and MORE_COLUMNS.fullmatch(names[end].removeprefix(prefix)):
                end += 1
            return frame.iloc[:, [*range(start), *range(end, len(names))]]
    return frame


def prefix_beside(columns: Collection[str], added: Sequence[str]) -> str:
    """Return what must go before the added columns, so that none is called like another."""
    prefix = ""
    while any(f"{prefix}{name}" in columns for name in added):
        prefix += ANSWER_PREFIX
    return prefix


def decode(content: bytes, where: str) -> str:
    """Decode UTF-8, or UTF-16 as spreadsheets write it; zeros are no text."""
    try:
        text = content.decode(_encoding_of(content))
        if "\0" not in text:
            return text
        wrong = content.index(0)
    except UnicodeDecodeError as error:
        wrong = error.start
    raise InvalidInput(
        f"{where} is not text in UTF-8",
        got=f"byte {content[wrong]:#04x} at place {wrong:,}",
        allowed="UTF-8, UTF-16, or UTF-32 with a byte order mark",
        remedy="Save it again as UTF-8.",
    )


def _encoding_of(content: bytes) -> str:
    """Tell the encoding of lines by the mark, or by zeros: UTF-16 has them in every other place."""
    marks = ((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for name, each in zip(("utf-32", "utf-16"), marks, strict=True):
        if content.startswith(each):
            return name
    even, odd = (content[start:SAMPLE:2].count(0) for start in (0, 1))
    more, less = max(even, odd), min(even, odd)
    if more < max(3, MIN_ZEROS * len(content[:SAMPLE]), 4 * less):
        return "utf-8-sig"
    wide = "utf-16-le" if odd > even else "utf-16-be"
    return wide if "\n" in content[:SAMPLE].decode(wide, "ignore") else "utf-8-sig"


def _decode_table(content: bytes, where: str) -> tuple[str, list[str]]:
    """Decode a table, as Windows' own encoding if it is not Unicode; return also what is said."""
    try:
        return decode(content, where), []
    except InvalidInput:
        try:
            text = content.decode(WINDOWS)
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:  # not a text at all
            raise
        return text, [f"{where} is not in UTF-8 and was read as Windows-1252"]


def _read_delimited(content: bytes, where: str, delimiter: str | None) -> Columns:
    text, guesses = _decode_table(content, where)
    delimiter = delimiter or delimiter_of(text)
    rows = DelimitedRows(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    cells: list[list[str]] = []
    try:
        header = [name.strip() for name in next(rows, [])]
        for row in rows:
            if row and len(row) != len(header):
                raise csv.Error(f"{len(row)} cells under a header of {len(header)}")
            cells += [row] if row else []
    except csv.Error as error:
        raise InvalidInput(
            f"{where} is not a table, line {rows.line_num}",
            got=str(error),
            allowed="as many cells in each line as the header has, and quotes round cells that"
            f" hold the delimiter {delimiter!r}",
            remedy="Correct the line.",
        ) from error
    columns = [list(column) for column in zip(*cells, strict=True)] or [[] for _ in header]
    return header, columns, guesses


class DelimitedRows(Iterator[list[str]]):
    """The cells of each row, as `csv.reader` has them, but for its limit on their length.

    That limit is one for all of Python, so it is lifted only while a row is read.
    """

    def __init__(self, lines: Iterable[str], *, delimiter: str = ",", strict: bool = False) -> None:
        self._rows = csv.reader(lines, delimiter=delimiter, strict=strict)

    @property
    def line_num(self) -> int:
        """The number of the last line that was read."""
        return self._rows.line_num

    def __next__(self) -> list[str]:
        with _LIMIT:
            usual = csv.field_size_limit(MAX_CELL)
            try:
                return next(self._rows)
            finally:
                csv.field_size_limit(usual)


def delimiter_of(text: str) -> str:
    """Choose the delimiter that gives the header most columns."""
    line = text.lstrip("\r\n").partition("\n")[0].partition("\r")[0]
    return max(DELIMITERS, key=lambda each: len(next(DelimitedRows([line], delimiter=each))))


def _frame(
    names: Iterable[str],
    columns: list[list[Any]],
    guesses: Iterable[str] = (),
) -> Any:  # noqa: ANN401
    """Make a frame of objects; names may still be equal."""
    pandas = optional("pandas", extra="encoders")
    frame = pandas.DataFrame(dict(enumerate(columns)), dtype=object)
    frame.columns = list(names)
    frame.attrs[GUESSES] = list(guesses)
    return frame


def check_distinct(columns: Iterable[object], where: str) -> None:
    """Refuse columns of one name: none of them could be asked for."""
    repeated = [name for name, number in Counter(columns).items() if number > 1]
    if repeated:
        raise InvalidInput(
            f"{where} has several columns of one name",
            got=", ".join(map(repr, repeated)),
            allowed="distinct names",
            remedy="Rename or remove them.",
        )


def _checked(frame: Any, path: Path) -> Any:  # noqa: ANN401
    frame = without_answers(frame)
    named = without_row_numbers(frame)
    check_distinct(named.columns, shown(path))
    if named.empty:
        raise InvalidInput(
            f"{shown(path)} holds no rows", got="an empty table", allowed="a header line and rows"
        )
    nested = [name for name in named if any(isinstance(cell, NESTED) for cell in named[name])]
    if nested:
        raise InvalidInput(
            f"{shown(path)} has columns whose cells hold several values or bytes",
            got=", ".join(map(repr, nested)),
            allowed="a text or number in each cell",
            remedy="Spread or remove them; keep images and sounds as files and name their paths.",
        )
    return frame


def _content(path: Path) -> bytes:
    if path.exists() and not path.is_file():  # it may never end
        raise InvalidInput(
            f"{shown(path)} cannot be read",
            got="a pipe, a socket or a device",
            allowed="a file",
            remedy="Write what it gives to a file, and name that.",
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"{shown(path)} cannot be read", got=str(error.strerror), allowed="a file"
        ) from error
    return unpacked(content, shown(path)) if path.suffix.lower() == ".gz" else content
