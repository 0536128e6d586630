"""The interface of loaders: items with their labels, or an error about the files on disk."""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from unitail.encoders.encoder import Modality
from unitail.errors import InvalidInput
from unitail.inputs.recognise import SUFFIXES
from unitail.inputs.table_files import DelimitedRows
from unitail.wording import numbered, some

CLASS_LISTS = Path(__file__).parent / "class_lists"
EXTRA_SUFFIXES = {Modality.AUDIO: (".au",)}
"""Suffixes that occur in published data sets only."""


@dataclass(frozen=True, eq=False)
class Found:
    """The items of a data set, or of a part of it."""

    items: Sequence[Path | str]
    """Files or texts."""
    labels: Sequence[str]
    left_out: dict[str, int] = field(default_factory=dict)
    """Number of items left out, by reason."""
    absent: Sequence[str] = ()
    """Expected classes that have no items."""

    @property
    def class_sizes(self) -> dict[str, int]:
        """Number of items of each class, sorted by name."""
        return dict(sorted(Counter(self.labels).items()))


@dataclass(frozen=True)
class DataSetPart:
    """A data set within a collection."""

    name: str
    """Appended to the name of the collection; empty for a single data set."""
    shape: "Shape"
    root: Path


class Shape(Protocol):
    """A file layout: how to find the items of a data set and their labels."""

    def parts(self, root: Path) -> list[DataSetPart]:
        """List the data sets in a folder: one, or those of a collection."""
        ...

    def read(self, root: Path, modality: Modality) -> Found:
        """Find all items and their labels, without opening the items."""
        ...


@dataclass(frozen=True, kw_only=True)
class OneSet:
    """A layout of a single data set."""

    def parts(self, root: Path) -> list[DataSetPart]:
        """Return the single data set."""
        return [DataSetPart("", self, root)]  # type: ignore[arg-type]


def read_lines(path: Path) -> list[str]:
    """Read the lines of a file, without empty lines and comments."""
    lines = read_text(path).splitlines()
    return [line.strip() for line in lines if line.strip() and line[0] != "#"]


def read_text(path: Path) -> str:
    """Read a text file of a data set."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _missing(path, error) from error


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Read the rows of a CSV file with their line numbers.

    Single or double quotes around cells are removed; rows of empty cells are skipped.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = DelimitedRows(file)
            header = [_bare(cell) for cell in next(rows, [])]
            for number, row in enumerate(rows, start=2):
                if not any(row):
                    continue
                if len(row) == len(header):
                    yield number, dict(zip(header, map(_bare, row), strict=True))
                else:
                    raise InvalidInput(
                        f"line {number} of {path} is not a row of the table",
                        got=numbered(len(row), "cell"),
                        allowed=f"{numbered(len(header), 'cell')}: {some(header, 6)}",
                        remedy="Fetch the file again.",
                    )
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise _missing(path, error) from error


def column(row: dict[str, str], name: str, path: Path) -> str:
    """Return a cell; a missing column is an error that names the existing ones."""
    if name not in row:
        raise InvalidInput(
            f"{path} has no column {name!r}",
            got=some(row, 8),
            allowed=f"a table with the column {name!r}",
            remedy="Fetch the file again: this may be another version.",
        )
    return row[name]


def shipped_list(name: str) -> list[str]:
    """Read a list of classes that comes with the package."""
    return read_lines(CLASS_LISTS / f"{name}.txt")


def is_item(path: Path, modality: Modality) -> bool:
    """Return whether a file has this modality, by its suffix."""
    suffixes = (*SUFFIXES[modality], *EXTRA_SUFFIXES.get(modality, ()))
    return path.suffix.lower() in suffixes and not path.name.startswith(".")


def check_files_exist(items: Sequence[Path | str], where: Path) -> None:
    """Raise an error if files that the data set lists do not exist."""
    missing = [item for item in items if isinstance(item, Path) and not item.is_file()]
    if missing:
        names = some([_within(path, where) for path in missing])
        raise InvalidInput(
            f"files of {where} are missing",
            got=f"{len(missing):,} of {len(items):,}: {names}",
            allowed="all files that its lists name",
            remedy="Unpack the archive again, into the same folder.",
        )


def _within(path: Path, folder: Path) -> Path:
    """Return a path relative to a folder; unchanged if it is elsewhere."""
    return path.relative_to(folder) if path.is_relative_to(folder) else path


def _bare(cell: str) -> str:
    """Strip spaces and single quotes from a cell."""
    cell = cell.strip()
    quoted = len(cell) > 1 and cell[0] == cell[-1] == "'"
    return cell[1:-1].strip() if quoted else cell


def _missing(path: Path, error: Exception) -> InvalidInput:
    return InvalidInput(
        f"{path} cannot be read",
        got="no such file" if isinstance(error, FileNotFoundError) else str(error),
        allowed="the published file",
        remedy="Name the folder that holds it with --root; `unitail data info` shows the layout.",
    )
