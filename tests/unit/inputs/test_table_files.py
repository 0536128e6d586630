import csv
import io

import pytest

from unitail.inputs.table_files import DelimitedRows

LONG = "word " * 50_000


def test_long_cells_are_read_and_pythons_own_limit_stays_between_rows() -> None:
    before = csv.field_size_limit()
    rows = DelimitedRows(io.StringIO(f"a;b\n{LONG};1\nx;2\n"), delimiter=";")
    assert next(rows) == ["a", "b"]
    assert next(rows) == [LONG, "1"]
    assert csv.field_size_limit() == before, "not all rows are read yet"
    assert (list(rows), rows.line_num) == ([["x", "2"]], 3)
    assert csv.field_size_limit() == before


def test_an_error_says_its_line_and_leaves_the_limit() -> None:
    before = csv.field_size_limit()
    rows = DelimitedRows(io.StringIO('a,b\n"a,b\n'), strict=True)
    next(rows)
    with pytest.raises(csv.Error, match="unexpected end of data"):
        next(rows)
    assert rows.line_num == 2
    assert csv.field_size_limit() == before
