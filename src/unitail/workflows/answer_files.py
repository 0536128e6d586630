"""Write files of answers: the user's table, or one row per file, with columns of answers added.

No row is dropped or moved: every row that was read is in the file, in its order and with all its
cells, whether it has an answer or not. The file can therefore be joined to its source or replace
it, and labels that a user writes into it are examples for the next call.
"""

import csv
import io
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from unitail.errors import CannotWrite, optional
from unitail.files import disk_errors, followed, write_bytes, write_json, write_text
from unitail.inputs.cells import escape_formula, labels_of
from unitail.inputs.encode import Among
from unitail.inputs.items import Items, Record
from unitail.inputs.table_files import prefix_beside
from unitail.workflows.answers import DIGITS, Answer, Answers, State, score, scores_as_json

STDOUT = Path("-")
"""The path that means JSON lines on standard output."""
FORMAT = 2
SUFFIXES = (".csv", ".jsonl", ".parquet", ".xlsx", ".json")
MAX_SHEET_ROWS = 1_048_576
MAX_SHEET_CELL = 32_767
"""Limits of an Excel sheet: rows, and characters in a cell."""
NOT_IN_SHEETS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")

Row = Mapping[str, Any]


def check_target(path: Path, *suffixes: str) -> None:
    """Raise an error if a file cannot be written, before any work is done."""
    if path.suffix.lower() not in suffixes:
        raise CannotWrite(
            "unsupported file extension",
            got=repr(str(path)),
            allowed=f"a name that ends in {' or '.join(suffixes)}",
            remedy=f"Name another file, such as {path.with_suffix(suffixes[0])}.",
        )
    if path.suffix.lower() == ".xlsx":
        optional("openpyxl", extra="excel")
    if path.suffix.lower() == ".parquet":
        optional("pyarrow.parquet", extra="encoders")
    check_place(path)


def check_rows(path: Path, queries: Items) -> None:
    """Raise an error if the user's rows do not fit into the file, before they are answered."""
    if path.suffix.lower() == ".xlsx":
        texts = (cell for record in queries.records for cell in record.cells.values())
        _check_sheet(len(queries.records), texts)


def check_place(path: Path) -> None:
    """Raise an error if a path is a folder, or its parent folder cannot be written to."""
    if path.is_dir():
        problem = "a folder of that name"
    elif not path.parent.is_dir():
        problem = f"no folder {path.parent}"
    elif not os.access(path.parent, os.W_OK):
        problem = f"no permission to write to {path.parent}"
    else:
        return
    raise CannotWrite(
        f"{path} cannot be written",
        got=problem,
        allowed="a file in a folder that you may write to",
        remedy="Create the folder, or name another file.",
    )


@dataclass(frozen=True)
class AnswerTable:
    """The rows that were read, with columns of answers; every row has all columns, in order."""

    rows: Sequence[Row]
    columns: Sequence[str]
    num_input_columns: int
    """Number of columns that the user's table had; the added ones come after them."""

    @classmethod
    def of(cls, result: Answers, queries: Items, label_column: str = "label") -> "AnswerTable":
        """Add the columns of answers to the rows that were read.

        If there is no column of labels, an empty one is added too, for corrections. The added
        columns get a prefix if the user's table has a column of the same name.
        """
        records = queries.records or _bare_records(queries)
        names = list(dict.fromkeys(name for record in records for name in record.cells))
        new_cells = _answer_cells(records, result)
        prefix = prefix_beside([*names, label_column], list(new_cells[0]) if new_cells else [])
        rows = [
            {
                **{name: record.cells.get(name) for name in names},
                label_column: _label_cell(record, label_column),
                **{f"{prefix}{name}": value for name, value in added.items()},
            }
            for record, added in zip(records, new_cells, strict=True)
        ]
        return cls(rows, list(rows[0]) if rows else [*names, label_column], len(names))


def _label_cell(record: Record, column: str) -> Any:  # noqa: ANN401 - as the user's table has it
    """Return the user's label: the cell of the table, unless a correction replaces it."""
    cell = record.cells.get(column)
    is_replaced = record.label and labels_of([cell]) != [record.label]
    return record.label if is_replaced else cell


def write_answers(
    result: Answers, queries: Items, path: Path, *, label_column: str = "label"
) -> None:
    """Write the table atomically, in the format of the suffix; "-" means standard output."""
    table = AnswerTable.of(result, queries, label_column)
    if path == STDOUT:
        sys.stdout.writelines(json_lines(table))
        sys.stdout.flush()
        return
    check_target(path, *SUFFIXES)
    path = followed(path)
    with disk_errors(path):
        match path.suffix.lower():
            case ".csv":
                write_text(path, as_csv(table))
            case ".jsonl":
                write_text(path, "".join(json_lines(table)))
            case ".parquet":
                write_bytes(path, _as_parquet(table))
            case ".xlsx":
                write_bytes(path, _as_sheet(table))
            case _:
                write_json(path, as_json(result, queries, table))


def as_csv(table: AnswerTable) -> str:
    """Return the table as CSV; `set` is a JSON list.

    Added cells are escaped so that a spreadsheet does not read them as formulas; the user's own
    cells stay unchanged.
    """
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table.rows:
        cells = list(_flat(row).values())
        added = cells[table.num_input_columns :]
        writer.writerow([*cells[: table.num_input_columns], *map(escape_formula, added)])
    return file.getvalue()


def json_lines(table: AnswerTable) -> Iterable[str]:
    """Yield a line with a JSON object for each row."""
    for row in table.rows:
        yield json.dumps(_plain(row), ensure_ascii=False, default=str) + "\n"


def as_json(result: Answers, queries: Items, table: AnswerTable) -> dict[str, Any]:
    """Return the answers with their settings, unreadable items and scores, ready for JSON."""
    scores = score(result, queries)
    return {
        "format": FORMAT,
        "modality": str(result.modality),
        "encoder": result.encoder,
        "examples": dict(result.examples),
        "coverage": result.coverage,
        "joint": result.joint,
        "answers": [json.loads(line) for line in json_lines(table)],
        "unreadable": [
            {"source": item.among, "name": item.name, "reason": item.reason}
            for item in result.unreadable
        ],
        "repeated": list(result.repeated),
        "scores": None if scores is None else scores_as_json(scores),
    }


def _answer_cells(records: Sequence[Record], result: Answers) -> list[dict[str, Any]]:
    """Return the cells that are added to each record, all with the same names."""
    answers = {answer.place: answer for answer in result.answers}
    reasons = {item.place: item.reason for item in result.unreadable if item.among is Among.FILES}
    ranks = range(1, max((len(answer.top) for answer in result.answers), default=1))
    has_rows = any(record.row is not None for record in records)
    has_sources = len({record.source for record in records}) > 1
    rows = []
    for record in records:
        answer = None if record.item is None else answers.get(record.item)
        reason = record.reason or (reasons.get(record.item, "") if record.item is not None else "")
        row = _about(answer, record, reason)
        row |= _why(answer) if result.why else {}
        row |= {"row": record.row} if has_rows else {}
        row |= {"source": record.source or None} if has_sources else {}
        for rank in ranks:
            label, p = answer.top[rank] if answer and rank < len(answer.top) else (None, None)
            row |= {f"answer_{rank + 1}": label, f"probability_{rank + 1}": _rounded(p)}
        rows.append(row)
    return rows


def _about(answer: Answer | None, record: Record, reason: str) -> dict[str, Any]:
    """Return the columns that every table of answers has, see `inputs/table_files.py`."""
    user_label = record.label if record.item is None else ""
    state = answer.state if answer else State.GIVEN if user_label else State.SKIPPED
    return {
        "answer": answer.label if answer else user_label or None,
        "probability": _rounded(answer.probability) if answer else None,
        "state": str(state),
        "set": list(answer.members) if answer else None,
        "novelty": _rounded(answer.novelty) if answer else None,
        "reason": reason or None,
    }


def _why(answer: Answer | None) -> dict[str, Any]:
    """Return the cells with the examples and columns that support an answer."""
    if answer is None:
        return {"because": None, "because_columns": None}
    examples = [
        {"example": reason.name, "label": reason.label, "share": _rounded(reason.share)}
        for reason in answer.because
    ]
    columns = [{"column": name, "share": _rounded(share)} for name, share in answer.because_columns]
    return {"because": examples or None, "because_columns": columns or None}


def _bare_records(queries: Items) -> list[Record]:
    """Return records for items that were created in Python and have none."""
    return [Record(cells={"name": name}, item=place) for place, name in enumerate(queries.names)]


def _as_parquet(table: AnswerTable) -> bytes:
    pyarrow = optional("pyarrow", extra="encoders")
    parquet = optional("pyarrow.parquet", extra="encoders")
    rows = [_flat(row) for row in table.rows]
    columns = {}
    for name in table.columns:
        cells = [row[name] for row in rows]
        try:
            columns[name] = pyarrow.array(cells)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):  # cells of several types
            columns[name] = pyarrow.array([None if cell is None else str(cell) for cell in cells])
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


def _as_sheet(table: AnswerTable) -> bytes:
    openpyxl = optional("openpyxl", extra="excel")
    rows = [list(_flat(row).values()) for row in table.rows]
    _check_sheet(len(rows), chain.from_iterable(rows))
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("answers")
    cell_of = optional("openpyxl.cell", extra="excel").WriteOnlyCell

    def cell(value: object) -> Any:  # noqa: ANN401
        if not isinstance(value, str):
            return value if isinstance(value, bool | int | float) or value is None else str(value)
        text = cell_of(sheet, NOT_IN_SHEETS.sub("\N{REPLACEMENT CHARACTER}", value))
        text.data_type = "s"  # never a formula
        return text

    for row in (list(table.columns), *rows):
        sheet.append([cell(value) for value in row])
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def _check_sheet(num_rows: int, cells: Iterable[object]) -> None:
    """Raise an error for rows, or cells of text, that a sheet of Excel cannot hold."""
    longest = max((len(cell) for cell in cells if isinstance(cell, str)), default=0)
    _require_fits(num_rows + 1, MAX_SHEET_ROWS, "rows")
    _require_fits(longest, MAX_SHEET_CELL, "characters in a cell")


def _require_fits(number: int, limit: int, what: str) -> None:
    if number > limit:
        raise CannotWrite(
            f"an Excel sheet cannot hold this many {what}",
            got=f"{number:,}",
            allowed=f"at most {limit:,}",
            remedy="Write a .csv or .parquet file.",
        )


def _plain(row: Row) -> dict[str, Any]:
    """Return a row with None for NaN and infinity, which JSON cannot express."""
    non_finite = (
        name for name, cell in row.items() if isinstance(cell, float) and not math.isfinite(cell)
    )
    return {**row, **dict.fromkeys(non_finite)}


def _flat(row: Row) -> dict[str, Any]:
    """Return a row with its lists written as JSON."""
    return {
        name: json.dumps(cell, ensure_ascii=False) if isinstance(cell, list) else cell
        for name, cell in row.items()
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)
