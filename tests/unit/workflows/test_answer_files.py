import csv
import datetime
import io
import json
from dataclasses import replace
from pathlib import Path

import openpyxl
import pandas as pd
import pytest

from unitail.encoders.encoder import Modality
from unitail.errors import CannotWrite
from unitail.inputs.encode import Among, Unread
from unitail.inputs.items import Items, Record
from unitail.inputs.table_files import read_table
from unitail.workflows import answer_files
from unitail.workflows.answer_files import (
    SUFFIXES,
    AnswerTable,
    as_csv,
    check_target,
    write_answers,
)
from unitail.workflows.answers import Answer, Answers

ADDED = ["answer", "probability", "state", "set", "novelty", "reason"]


def _answer(place: int, label: str = "a", p: float = 0.875) -> Answer:
    return Answer(
        place=place,
        name="cut…",
        label=label,
        probability=p,
        top=((label, p), ("ö|b", 1 - p)),
        members=(label, "ö|b"),
        novelty=1 / 3,
    )


def _answers(*answers: Answer, unreadable: tuple[Unread, ...] = ()) -> Answers:
    return Answers(
        answers=answers,
        unreadable=unreadable,
        modality=Modality.TEXT,
        encoder="some",
        examples={"a": 2, "ö|b": 1},
        coverage=0.9,
        joint=False,
    )


LONG = "a long text, " * 40
RECORDS = (
    Record(cells={"id": "0100", "text": LONG, "label": ""}, item=0, row=1, source="q.csv"),
    Record(
        cells={"id": "0101", "text": "", "label": ""},
        item=None,
        row=2,
        source="q.csv",
        reason="no text in 'text'",
    ),
    Record(cells={"id": "0102", "text": "bad", "label": ""}, item=1, row=3, source="q.csv"),
    Record(
        cells={"id": "0103", "text": "x", "label": "b"},
        item=None,
        row=4,
        source="q.csv",
        label="b",
    ),
    Record(cells={"id": "0104", "text": "=1+1", "label": ""}, item=2, row=5, source="q.csv"),
)


def _items(records: tuple[Record, ...] = RECORDS) -> Items:
    number = sum(record.item is not None for record in records)
    names = tuple(f"name {place}" for place in range(number))
    return Items(items=names, names=names, modality=Modality.TEXT, records=records)


RESULT = _answers(
    _answer(0),
    _answer(2, label="=bad", p=0.51),
    unreadable=(Unread(Among.FILES, "bad", "no words", 1), Unread(Among.EXAMPLES, "x", "empty", 0)),
)


def _read(path: Path) -> list[dict[str, object]]:
    """Read a file of answers as another program would; missing cells are None."""
    match path.suffix:
        case ".csv":
            frame = pd.read_csv(path, dtype=str, keep_default_na=False).astype(object)
        case ".parquet":
            frame = pd.read_parquet(path).astype(object)
        case ".jsonl":
            return [json.loads(line) for line in path.read_text().splitlines()]
        case ".json":
            return json.loads(path.read_text())["answers"]
        case _:
            header, *rows = openpyxl.load_workbook(path).active.iter_rows(values_only=True)
            return [dict(zip(header, row, strict=True)) for row in rows]
    frame = frame.where(frame.notna() & (frame != ""), None)
    return frame.to_dict("records")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_has_every_row_and_column_of_the_input(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"out{suffix}"
    write_answers(RESULT, _items(), path)
    rows = _read(path)
    more = ["answer_2", "probability_2"]
    assert list(rows[0]) == ["id", "text", "label", *ADDED, "row", *more]
    for row, record in zip(rows, RECORDS, strict=True):
        assert row["id"] == record.cells["id"]
        assert (row["text"] or "") == record.cells["text"]
        assert str(row["row"]) == str(record.row)
    assert [row["state"] for row in rows] == ["likely", "skipped", "skipped", "given", "doubtful"]
    assert [row["answer"] for row in rows[:4]] == ["a", None, None, "b"]
    assert str(rows[4]["answer"]).removeprefix("'") == "=bad"
    assert [row["reason"] for row in rows] == [None, "no text in 'text'", "no words", None, None]
    assert [row["probability"] is None for row in rows] == [False, True, True, True, False]
    assert float(str(rows[0]["probability"])) == 0.875
    members = rows[0]["set"]
    assert (json.loads(members) if isinstance(members, str) else members) == ["a", "ö|b"]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_file_of_answers_is_read_again_without_the_answers(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"out{suffix}"
    write_answers(RESULT, _items(), path)
    assert list(read_table(path).columns) == ["id", "text", "label"]


def test_a_link_stays_one_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link = tmp_path / "link.csv"
    link.symlink_to("disk/real.csv")
    for _ in range(2):
        write_answers(RESULT, _items(), link)
    assert link.is_symlink()
    assert (tmp_path / "disk" / "real.csv").read_text().count("\n") > 1


def test_columns_that_are_there_are_kept_and_ours_have_a_prefix(tmp_path: Path) -> None:
    cells = {"answer": "42", "unitail_set": "mine", "row": "7"}
    items = _items((Record(cells=cells, item=0, row=1, source="q.csv"),))
    path = tmp_path / "out.csv"
    write_answers(_answers(_answer(0)), items, path)
    (row,) = _read(path)
    assert {name: row[name] for name in cells} == cells
    prefix = "unitail_unitail_"
    assert list(row) == [
        *cells,
        "label",
        *(f"{prefix}{name}" for name in (*ADDED, "row", "answer_2", "probability_2")),
    ]
    assert row[f"{prefix}answer"] == "a"
    assert list(read_table(path).columns) == [*cells, "label"]


def test_a_correction_replaces_the_cell_of_the_label_column() -> None:
    cells: list[tuple[object, str]] = [(1, "1"), (1.0, "1"), (None, ""), ("", "b"), ("a", "b")]
    cells += [(" a ", "a"), ("a", "")]
    records = tuple(
        Record(cells={"x": place, "label": cell}, item=None, label=label)
        for place, (cell, label) in enumerate(cells)
    )
    queries = Items(items=(), names=(), modality=Modality.TEXT, records=records)
    table = AnswerTable.of(replace(RESULT, answers=(), unreadable=()), queries)
    assert [row["label"] for row in table.rows] == [1, 1.0, None, "b", "b", " a ", "a"]


def test_files_have_their_path_and_a_column_to_write_labels_into() -> None:
    items = _items((Record(cells={"file": "new/a.png"}, item=0, label="b"),))
    text = as_csv(AnswerTable.of(_answers(_answer(0)), items, "class"))
    assert text == (
        "file,class,answer,probability,state,set,novelty,reason,answer_2,probability_2\n"
        'new/a.png,b,a,0.875,likely,"[""a"", ""ö|b""]",0.333333,,ö|b,0.125\n'
    )


def test_items_made_in_python_have_their_names() -> None:
    table = AnswerTable.of(_answers(_answer(0)), _items(()), "label")
    assert table.rows == []
    bare = replace(_items(()), items=("x",), names=("x",))
    assert AnswerTable.of(_answers(_answer(0)), bare).rows[0]["name"] == "x"


@pytest.mark.parametrize(
    "cell", ['say "hi", you', "two\nlines", "ünï ✓ 名", "'quoted'", "-1", "+.5e3", "=1+1", "\t=1"]
)
def test_cells_of_the_input_come_back_from_csv_as_they_were(cell: str) -> None:
    items = _items((Record(cells={"id": cell}, item=0, row=1),))
    text = as_csv(AnswerTable.of(_answers(_answer(0)), items))
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row["id"] == cell


@pytest.mark.parametrize("label", ["=1+1", "@SUM(A1)", "+cmd|x", "-2+3", "\t=1"])
def test_spreadsheets_compute_nothing_of_what_was_added(label: str, tmp_path: Path) -> None:
    answer = replace(_answer(0, label), top=((label, 0.75), (label, 0.25)))
    items = _items((Record(cells={"file": "x.png"}, item=0, label=label),))
    (row,) = csv.DictReader(io.StringIO(as_csv(AnswerTable.of(_answers(answer), items))))
    assert [row[name] for name in ("label", "answer", "answer_2")] == [f"'{label}"] * 3
    write_answers(_answers(answer), items, tmp_path / "x.xlsx")
    cells = {cell.data_type for cell in openpyxl.load_workbook(tmp_path / "x.xlsx").active[2]}
    assert "f" not in cells


def test_types_of_parquet_stay_and_mixed_cells_become_text(tmp_path: Path) -> None:
    day = datetime.date(2026, 1, 2)
    records = (
        Record(cells={"n": 1, "day": day, "mixed": 1}, item=0, row=1),
        Record(cells={"n": 2, "day": None, "mixed": "x"}, item=None, row=2, reason="empty"),
    )
    write_answers(_answers(_answer(0)), _items(records), tmp_path / "x.parquet")
    frame = pd.read_parquet(tmp_path / "x.parquet")
    assert frame["n"].tolist() == [1, 2]
    assert frame["day"][0] == day
    assert frame["mixed"].tolist() == ["1", "x"]
    write_answers(_answers(_answer(0)), _items(records), tmp_path / "x.jsonl")
    assert json.loads((tmp_path / "x.jsonl").read_text().splitlines()[0])["day"] == "2026-01-02"


def test_numbers_that_json_does_not_know_are_null(tmp_path: Path) -> None:
    record = Record(cells={"x": float("nan")}, item=0, row=1)
    write_answers(_answers(_answer(0)), _items((record,)), tmp_path / "x.jsonl")
    text = (tmp_path / "x.jsonl").read_text()
    assert json.loads(text, parse_constant=pytest.fail)["x"] is None


def test_what_a_sheet_cannot_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.xlsx"
    huge = Record(cells={"text": "x" * 40_000}, item=0, row=1)
    with pytest.raises(CannotWrite, match="this many characters in a cell: got 40,000"):
        write_answers(_answers(_answer(0)), _items((huge,)), path)
    monkeypatch.setattr(answer_files, "MAX_SHEET_ROWS", 5)
    with pytest.raises(CannotWrite, match=r"this many rows: got 6; .*Write a \.csv or \.parquet"):
        write_answers(RESULT, _items(), path)
    assert not path.exists()


def test_json_has_all_else(tmp_path: Path) -> None:
    write_answers(RESULT, _items(), tmp_path / "out.json")
    content = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert len(content.pop("answers")) == len(RECORDS)
    assert content == {
        "format": 2,
        "modality": "text",
        "encoder": "some",
        "examples": {"a": 2, "ö|b": 1},
        "coverage": 0.9,
        "joint": False,
        "unreadable": [
            {"source": "files", "name": "bad", "reason": "no words"},
            {"source": "examples", "name": "x", "reason": "empty"},
        ],
        "repeated": [],
        "scores": None,
    }


def test_an_old_file_stays_if_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.CSV"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(CannotWrite, match="No space left on device"):
        write_answers(RESULT, _items(), path)
    assert path.read_text() == "old"


def test_targets_that_cannot_be_written_are_reported_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CannotWrite, match=r"allowed: a name that ends in \.csv or \.jsonl or "):
        write_answers(RESULT, _items(), tmp_path / "out.txt")
    with pytest.raises(CannotWrite, match=r"got no folder .*none; allowed: a file in a folder"):
        check_target(tmp_path / "none" / "x.csv", ".csv")
    monkeypatch.setattr("os.access", lambda *_: False)  # whoever runs the tests may write anywhere
    with pytest.raises(CannotWrite, match="got no permission to write to"):
        check_target(tmp_path / "y.csv", ".csv")
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(CannotWrite, match="got a folder of that name"):
        check_target(tmp_path / "x.csv", ".csv")
