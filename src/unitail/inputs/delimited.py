"""Rows of CSV and TSV files, whose cells may be as long as a text."""

import csv
import threading
from collections.abc import Iterable, Iterator

MAX_CELL = 2**31 - 1
"""Characters of a cell; what Python's reader takes on every platform."""
_LIMIT = threading.Lock()


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
