"""Files of answers: the user's own table, or a row for each file, with columns of answers added.

Nothing is dropped and nothing is moved: every row that was read is there in its order, with all of
its cells, whether it has an answer or not. So the file can be joined to what it came from, or take
its place; and the labels that somebody writes into it are examples for the next call.
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
from pathlib import Path
from typing import Any

from unitail.errors import CannotWrite, optional
from unitail.files import disk_errors, followed, write_bytes, write_json, write_text
from unitail.inputs.cells import escape_formula
from unitail.inputs.items import Items, Record
from unitail.inputs.table_files import prefix_beside
from unitail.workflows.answers import Answer, Answers, State, score, scores_as_json

STDOUT = Path("-")
"""Stands for JSON lines on standard output."""
FORMAT = 2
SUFFIXES = (".csv", ".jsonl", ".parquet", ".xlsx", ".json")
DIGITS = 6
"""Of probabilities and novelty in files."""
MAX_SHEET_ROWS = 1_048_576
MAX_SHEET_CELL = 32_767
"""What a sheet of Excel holds."""
NOT_IN_SHEETS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")

Row = Mapping[str, Any]


def check_target(path: Path, *suffixes: str) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    if path.suffix.lower() not in suffixes:
        raise CannotWrite(
            "unsupported file extension",
            got=repr(str(path)),
            allowed=f"a name that ends in {' or '.join(suffixes)}",
            remedy=f"Name another file, such as {path.with_suffix(suffixes[0])}.",
        )
    if path.suffix.lower() == ".xlsx":
        optional("openpyxl", extra="excel")
    check_place(path)


def check_place(path: Path) -> None:
    """Refuse a file whose folder cannot take it."""
    if path.is_dir():
        problem = "a folder of that name"
    elif not path.parent.is_dir():
        problem = f"no folder {path.parent}"
    elif not os.access(path.parent, os.W_OK):
        problem = f"a folder that is closed to you, {path.parent}"
    else:
        return
    raise CannotWrite(
        f"{path} cannot be written",
        got=problem,
        allowed="a file in a folder that can be written to",
        remedy="Make the folder, or name another file.",
    )


@dataclass(frozen=True)
class AnswerTable:
    """What was read with what was answered; every row has all columns, in their order."""

    rows: Sequence[Row]
    columns: Sequence[str]
    own: int
    """How many of the columns are the user's; those that were added come after."""

    @classmethod
    def of(cls, result: Answers, queries: Items, label_column: str = "label") -> "AnswerTable":
        """Add the columns of answers to what was read.

        If there is no column of labels, an empty one is added too, for corrections. The others
        have a prefix if the user's table has a column of such a name.
        """
        records = queries.records or _bare_records(queries)
        own = list(dict.fromkeys(name for record in records for name in record.cells))
        said = _said(records, result)
        prefix = prefix_beside([*own, label_column], list(said[0]) if said else [])
        rows = [
            {
                **{name: record.cells.get(name) for name in own},
                label_column: record.cells.get(label_column, record.label or None),
                **{f"{prefix}{name}": value for name, value in added.items()},
            }
            for record, added in zip(records, said, strict=True)
        ]
        return cls(rows, list(rows[0]) if rows else [*own, label_column], len(own))


def write_answers(
    result: Answers, queries: Items, path: Path, *, label_column: str = "label"
) -> None:
    """Write the table in the format of the suffix, whole or not at all; "-" is standard output."""
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
    """Write a line for each row; `set` is a JSON list.

    What was added is never a formula for a spreadsheet; the user's own cells stay as they are.
    """
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table.rows:
        cells = list(_flat(row).values())
        writer.writerow([*cells[: table.own], *map(escape_formula, cells[table.own :])])
    return file.getvalue()


def json_lines(table: AnswerTable) -> Iterable[str]:
    """Write an object for each row."""
    for row in table.rows:
        yield json.dumps(_plain(row), ensure_ascii=False, default=str) + "\n"


def as_json(result: Answers, queries: Items, table: AnswerTable) -> dict[str, Any]:
    """Return all that is known, for `json`."""
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


def _said(records: Sequence[Record], result: Answers) -> list[dict[str, Any]]:
    """Return what is added to each record, all with the same names."""
    answers = {answer.place: answer for answer in result.answers}
    reasons = {item.place: item.reason for item in result.unreadable if item.among == "files"}
    ranks = range(1, max((len(answer.top) for answer in result.answers), default=1))
    numbered = any(record.row is not None for record in records)
    several = len({record.source for record in records}) > 1
    rows = []
    for record in records:
        answer = None if record.item is None else answers.get(record.item)
        reason = record.reason or (reasons.get(record.item, "") if record.item is not None else "")
        row = _about(answer, record, reason)
        row |= _why(answer) if result.why else {}
        row |= {"row": record.row} if numbered else {}
        row |= {"source": record.source or None} if several else {}
        for rank in ranks:
            label, p = answer.top[rank] if answer and rank < len(answer.top) else (None, None)
            row |= {f"answer_{rank + 1}": label, f"probability_{rank + 1}": _rounded(p)}
        rows.append(row)
    return rows


def _about(answer: Answer | None, record: Record, reason: str) -> dict[str, Any]:
    """Return the columns that every table of answers has, see `inputs.tables`."""
    given = record.label if record.item is None else ""
    state = answer.state if answer else State.GIVEN if given else State.SKIPPED
    return {
        "answer": answer.label if answer else given or None,
        "probability": _rounded(answer.probability) if answer else None,
        "state": str(state),
        "set": list(answer.members) if answer else None,
        "novelty": _rounded(answer.novelty) if answer else None,
        "reason": reason or None,
    }


def _why(answer: Answer | None) -> dict[str, Any]:
    """Return what speaks for an answer."""
    if answer is None:
        return {"because": None, "because_columns": None}
    examples = [
        {"example": each.name, "label": each.label, "share": _rounded(each.share)}
        for each in answer.because
    ]
    columns = [{"column": name, "share": _rounded(share)} for name, share in answer.because_columns]
    return {"because": examples or None, "because_columns": columns or None}


def _bare_records(queries: Items) -> list[Record]:
    """Return records of items that were made in Python."""
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
    longest = max((len(cell) for row in rows for cell in row if isinstance(cell, str)), default=0)
    _require_fits(len(rows) + 1, MAX_SHEET_ROWS, "rows")
    _require_fits(longest, MAX_SHEET_CELL, "characters in a cell")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("answers")
    cell_of = optional("openpyxl.cell", extra="excel").WriteOnlyCell

    def cell(value: object) -> Any:  # noqa: ANN401
        if not isinstance(value, str):
            return value if isinstance(value, bool | int | float) or value is None else str(value)
        made = cell_of(sheet, NOT_IN_SHEETS.sub("\N{REPLACEMENT CHARACTER}", value))
        made.data_type = "s"  # never a formula
        return made

    for row in (list(table.columns), *rows):
        sheet.append([cell(value) for value in row])
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def _require_fits(number: int, most: int, what: str) -> None:
    if number > most:
        raise CannotWrite(
            f"a sheet of Excel cannot hold this many {what}",
            got=f"{number:,}",
            allowed=f"at most {most:,}",
            remedy="Write a .csv or .parquet file.",
        )


def _plain(row: Row) -> dict[str, Any]:
    """Return a row without numbers that JSON does not know."""
    odd = (
        name for name, cell in row.items() if isinstance(cell, float) and not math.isfinite(cell)
    )
    return {**row, **dict.fromkeys(odd)}


def _flat(row: Row) -> dict[str, Any]:
    """Return a row without lists: those are written as JSON."""
    return {
        name: json.dumps(cell, ensure_ascii=False) if isinstance(cell, list) else cell
        for name, cell in row.items()
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)
