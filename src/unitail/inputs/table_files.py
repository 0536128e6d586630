"""Read table files (CSV, Excel, Parquet, Feather and JSON, gzipped or not) as columns of cells.

For CSV files only the delimiter and the encoding are guessed. Other files are checked before they
are opened, since a small file can unpack to a table that exceeds all memory.
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
"""Largest number of cells of a table."""
MAX_UNPACKED = 2**30
"""Largest unpacked size of an Excel or .gz file, in bytes."""

Columns = tuple[list[str], list[list[Any]], list[str]]
"""Names, cells by column, and notes on what was guessed."""
TABLES = (
    ".csv", ".tsv", ".parquet", ".pq", ".feather", ".arrow", ".json", ".jsonl", ".ndjson", ".xlsx",
)  # fmt: skip
"""Suffixes of files with one item per row; each may be followed by `.gz`."""
SAMPLE = 4096
"""Number of leading bytes that are inspected for UTF-16 without a byte order mark."""
MIN_ZEROS = 0.02
"""Smallest share of zero bytes in UTF-16. In every alphabet one half of each space, comma and line
break is a zero byte, and few letters have a zero in the other half."""
DELIMITERS = ",;\t|"
"""Candidates; if two give equally many columns, the earlier one wins."""
MAX_CELL = 2**31 - 1
"""Largest number of characters in a cell that Python's reader accepts on every platform."""
_LIMIT = threading.Lock()
WINDOWS = "cp1252"
"""What many spreadsheet programs write instead of UTF-8."""
GUESSES = "guesses"
NESTED = (list, dict, bytes)
_NAMELESS = re.compile(r"|__index_level_\d+__")
"""Names of the row numbers that pandas writes to CSV and Parquet files."""
ANSWER_COLUMNS = ("answer", "probability", "state", "set", "novelty", "reason")
"""Adjacent columns that `unitail predict` adds to a table, in this order."""
MORE_COLUMNS = re.compile(r"because|because_columns|row|source|answer_\d+|probability_\d+")
"""Optional columns after these."""
ANSWER_PREFIX = "unitail_"
"""Prefix of all of them if the user's table already has a column of such a name."""


def read_excel(content: bytes, name: str) -> Columns:
    """Read the active sheet, without empty rows and columns without a name."""
    openpyxl = optional("openpyxl", extra="excel")
    with _broken(name, "an Excel file", "a whole .xlsx file with a sheet of cells"):
        file = io.BytesIO(content)
        unpacked = sum(member.file_size for member in ZipFile(file).infolist())
        _require_at_most(name, unpacked, MAX_UNPACKED, "bytes, unpacked")
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        sheet, sheets = book.active, book.sheetnames
        header, *rows = list(_rows(sheet, name)) or [[]]
    named = [place for place, title in enumerate(header) if title is not None]
    rows = [row + [None] * (len(header) - len(row)) for row in rows if any(_filled(row))]
    guesses = [f"only the sheet {sheet.title!r} of {name} was read"] if sheets[1:] else []
    names = [str(header[place]).strip() for place in named]
    return names, [[row[place] for row in rows] for place in named], guesses


def read_parquet(content: bytes, name: str) -> Columns:
    """Read all columns of a Parquet file."""
    parquet = optional("pyarrow.parquet", extra="encoders")
    with _broken(name, "a Parquet file", "a whole Parquet file"):
        file = parquet.ParquetFile(io.BytesIO(content))
        metadata = file.metadata
        _require_at_most(name, metadata.num_rows * metadata.num_columns, MAX_CELLS, "cells")
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
    """Read one JSON object per line."""
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
    """Read a JSON list of objects."""
    try:
        rows = parse_json(text)
    except ValueError as error:
        rows = str(error)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidInput(
            f"{name} is not a table",
            got=rows if isinstance(rows, str) else f"JSON of another form ({type(rows).__name__})",
            allowed="a list of JSON objects, one for each row, or one object in each line (.jsonl)",
            remedy="Write it in that form; in pandas with to_json(name, orient='records').",
        )
    return _columns(rows)


def unpacked(content: bytes, name: str) -> bytes:
    """Decompress gzipped content, up to a limit."""
    with _broken(name, "a gzip file", "a whole file"):
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


def _filled(row: list[Any]) -> list[bool]:
    return [cell is not None for cell in row]


@contextmanager
def _broken(name: str, kind: str, allowed: str) -> Iterator[None]:
    """Turn any error of a reader into `InvalidInput`, and silence its warnings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except InvalidInput:
        raise
    except Exception as error:
        message = excerpt(str(error))
        raise InvalidInput(
            f"{name} is not {kind}",
            got=f"{type(error).__name__}: {message}" if message else type(error).__name__,
            allowed=allowed,
        ) from error


def _require_at_most(name: str, number: int, limit: int, what: str) -> None:
    if number > limit:
        raise InvalidInput(
            f"{name} holds a table that is too large",
            got=f"{number:,} {what}",
            allowed=f"at most {limit:,}",
            remedy="Split it into several files, or leave columns out.",
        )


def _columns(rows: Sequence[Mapping[str, Any]]) -> Columns:
    rows = [{storable(name): storable(cell) for name, cell in row.items()} for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return names, [[row.get(name) for row in rows] for name in names], []


def storable(cell: Any) -> Any:  # noqa: ANN401 - whatever a cell holds
    """Replace lone surrogates, which JSON can escape but no file can hold."""
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
    """Read a table as a frame with named, distinct columns and at least one row.

    Cells of CSV and TSV files stay text, so "NA" may be a label and "01" a name;
    `cells.as_features` finds numbers and missing values. Columns that `unitail predict` added are
    left out. Notes on what was guessed are in `guesses_of`.
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
    """Return whether a file is a table, by its suffix."""
    return table_suffix(path) in TABLES


def table_suffix(path: Path) -> str:
    """Return the suffix of a file without `.gz`, in lower case."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() if last == ".gz" else last


def guesses_of(frame: Any) -> tuple[str, ...]:  # noqa: ANN401 - a DataFrame
    """Return notes on what was guessed when reading a table."""
    return tuple(frame.attrs.get(GUESSES, ()))


def without_row_numbers(frame: Any) -> Any:  # noqa: ANN401 - a DataFrame
    """Drop nameless columns, which are row numbers that pandas wrote."""
    return frame.loc[:, [not _NAMELESS.fullmatch(name) for name in frame.columns]]


def without_answers(frame: Any) -> Any:  # noqa: ANN401 - a DataFrame
    """Drop the columns that `unitail predict` added: answers are neither features nor labels."""
    return frame.iloc[:, beside_answers(list(map(str, frame.columns)))]


def beside_answers(names: Sequence[str]) -> list[int]:
    """Return the indices of the columns that `unitail predict` did not add."""
    for start in range(len(names) - len(ANSWER_COLUMNS) + 1):
        prefix = names[start].removesuffix(ANSWER_COLUMNS[0])
        end = start + len(ANSWER_COLUMNS)
        is_ours = not prefix.replace(ANSWER_PREFIX, "")
        if is_ours and names[start:end] == [f"{prefix}{name}" for name in ANSWER_COLUMNS]:
            while end < len(names) and MORE_COLUMNS.fullmatch(names[end].removeprefix(prefix)):
                end += 1
            return [*range(start), *range(end, len(names))]
    return list(range(len(names)))


def prefix_beside(columns: Collection[str], added: Sequence[str]) -> str:
    """Return the prefix that keeps the names of added columns distinct from existing ones."""
    prefix = ""
    while any(f"{prefix}{name}" in columns for name in added):
        prefix += ANSWER_PREFIX
    return prefix


def decode(content: bytes, where: str) -> str:
    """Decode UTF-8, or UTF-16 or UTF-32 as spreadsheets write it; zero bytes are an error."""
    try:
        text = content.decode(_encoding_of(content))
        if "\0" not in text:
            return text
        wrong = content.index(0)
    except UnicodeDecodeError as error:
        wrong = error.start
    raise InvalidInput(
        f"{where} is not text in UTF-8",
        got=f"byte {content[wrong]:#04x} at offset {wrong:,}",
        allowed="UTF-8, UTF-16, or UTF-32 with a byte order mark",
        remedy="Save it again as UTF-8.",
    )


def _encoding_of(content: bytes) -> str:
    """Return the encoding by its byte order mark, or by zeros in every other byte (UTF-16)."""
    marks = ((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for name, both in zip(("utf-32", "utf-16"), marks, strict=True):
        if content.startswith(both):
            return name
    even, odd = (content[start:SAMPLE:2].count(0) for start in (0, 1))
    more, less = max(even, odd), min(even, odd)
    if more < max(3, MIN_ZEROS * len(content[:SAMPLE]), 4 * less):
        return "utf-8-sig"
    wide = "utf-16-le" if odd > even else "utf-16-be"
    return wide if "\n" in content[:SAMPLE].decode(wide, "ignore") else "utf-8-sig"


def _decode_table(content: bytes, where: str) -> tuple[str, list[str]]:
    """Decode a table, falling back to Windows-1252 if it is not Unicode; return also notes."""
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
        cells = list(checked_rows(rows, len(header)))
    except csv.Error as error:
        raise InvalidInput(
            f"{where} is not a table, line {rows.line_num}",
            got=str(error),
            allowed="as many cells in each line as the header has, and quotes around cells that"
            f" hold the delimiter {delimiter!r}",
            remedy="Correct the line.",
        ) from error
    columns = [list(column) for column in zip(*cells, strict=True)] or [[] for _ in header]
    return header, columns, guesses


class DelimitedRows(Iterator[list[str]]):
    """Iterates over the cells of each row like `csv.reader`, but without its limit on their length.

    That limit is global to the process, so it is lifted only while a row is read.
    """

    def __init__(self, lines: Iterable[str], *, delimiter: str = ",", strict: bool = False) -> None:
        self._rows = csv.reader(lines, delimiter=delimiter, strict=strict)

    @property
    def line_num(self) -> int:
        """Number of the last line that was read."""
        return self._rows.line_num

    def __next__(self) -> list[str]:
        with _LIMIT:
            previous = csv.field_size_limit(MAX_CELL)
            try:
                return next(self._rows)
            finally:
                csv.field_size_limit(previous)


def checked_rows(rows: Iterable[list[str]], width: int) -> Iterator[list[str]]:
    """Yield the rows without empty lines and lines of blanks; others must have `width` cells."""
    for row in rows:
        if len(row) == width:
            yield row
        elif row and (len(row) > 1 or row[0].strip()):
            raise csv.Error(f"{len(row)} cells under a header of {width}")


def delimiter_of(text: str) -> str:
    """Return the delimiter that splits the header into the most columns."""
    line = text.lstrip("\r\n").partition("\n")[0].partition("\r")[0]
    return max(DELIMITERS, key=lambda each: len(next(DelimitedRows([line], delimiter=each))))


def _frame(
    names: Iterable[str],
    columns: list[list[Any]],
    guesses: Iterable[str] = (),
) -> Any:  # noqa: ANN401
    """Make a DataFrame of dtype object; names may be duplicates at this point."""
    pandas = optional("pandas", extra="encoders")
    frame = pandas.DataFrame(dict(enumerate(columns)), dtype=object)
    frame.columns = list(names)
    frame.attrs[GUESSES] = list(guesses)
    return frame


def check_distinct(columns: Iterable[object], where: str) -> None:
    """Raise an error if several columns share a name, since neither could be selected."""
    repeated = [name for name, number in Counter(columns).items() if number > 1]
    if repeated:
        raise InvalidInput(
            f"{where} has several columns with the same name",
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
            remedy="Split or remove them; keep images and sounds as files and give their paths.",
        )
    return frame


def _content(path: Path) -> bytes:
    if path.exists() and not path.is_file():  # reading may never end
        raise InvalidInput(
            f"{shown(path)} cannot be read",
            got="a pipe, a socket or a device",
            allowed="a file",
            remedy="Write its output to a file, and name that file.",
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"{shown(path)} cannot be read", got=str(error.strerror), allowed="a file"
        ) from error
    return unpacked(content, shown(path)) if path.suffix.lower() == ".gz" else content
