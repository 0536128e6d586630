import csv
import io
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unitail.encoders.encoder import Modality
from unitail.encoders.tables import APART
from unitail.errors import InvalidInput, MissingExtra
from unitail.inputs.columns import Layout
from unitail.inputs.encode import fit_layout
from unitail.inputs.items import ReadOptions
from unitail.inputs.read import read_labelled, read_unlabelled

TEXTS = "text,label\nhow are you,greeting\nsee you soon,farewell\n"


def _write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def _lines(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_delimiters_and_byte_order_marks(
    delimiter: str, encoding: str, newline: str, tmp_path: Path
) -> None:
    text = TEXTS.replace(",", delimiter).replace("\n", newline).replace("soon", "söon")
    examples = read_labelled(_write(tmp_path / "t.csv", text, encoding))
    assert examples.items == ("how are you", "see you söon")
    assert examples.labels == ("greeting", "farewell")
    assert (examples.modality, examples.content_column) == (Modality.TEXT, "text")


def test_quoted_cells_and_words_that_mean_missing_elsewhere(tmp_path: Path) -> None:
    text = 'label,text\n NA ,"well, ""yes""\nor no"\nnull,None\n\nNA,<b> 1 </b>\n'
    examples = read_labelled(_write(tmp_path / "t.csv", text))
    assert examples.items == ('well, "yes"\nor no', "None", "<b> 1 </b>")
    assert examples.labels == ("NA", "null", "NA")
    assert examples.names[0] == 'well, "yes" or no'


def test_rows_without_label_or_text_are_reported(tmp_path: Path) -> None:
    examples = read_labelled(_write(tmp_path / "t.csv", TEXTS + "who is it,\n,greeting\n"))
    assert examples.items == ("how are you", "see you soon")
    assert examples.labels == ("greeting", "farewell")
    assert examples.skipped == ("1 row without a label", "1 row without text content")


def test_row_numbers_beside_a_text_are_passed_over(tmp_path: Path) -> None:
    text = ",id,text,label\n0,7,how are you,a\n1,9,see you soon,b\n"
    examples = read_labelled(_write(tmp_path / "t.csv", text))
    assert examples.items == ("how are you", "see you soon")
    assert examples.ignored == ("1 column (id)",)


def test_columns_of_numbers_and_names_are_features(tmp_path: Path) -> None:
    text = "size,colour,class\n1.5,red,a\nNA,,b\n-2e3,blue,a\n"
    examples = read_labelled(_write(tmp_path / "t.csv", text), ReadOptions(label_column="class"))
    assert examples.modality is Modality.TABLE
    np.testing.assert_array_equal(examples.items["size"], [1.5, np.nan, -2000.0])
    assert examples.items["size"].dtype == np.float64
    assert examples.items["colour"].tolist() == ["red", None, "blue"]
    assert examples.names == ("row 1", "row 2", "row 3")


def test_features_of_queries_are_read_as_those_of_the_support(tmp_path: Path) -> None:
    support = read_labelled(_write(tmp_path / "s.csv", "code,size,label\n1,1,a\nx,2,b\n"))
    query = "size,label,code,more\nold,a,1,z\n3,b,01,z\n"
    queries = read_unlabelled([_write(tmp_path / "q.csv", query)], like=support)
    assert queries.items["code"].tolist() == ["1", "01"]
    np.testing.assert_array_equal(queries.items["size"], [np.nan, 3])
    assert queries.ignored == ("1 cell of 'size' without a number ('old')", "1 column (more)")
    narrow = read_unlabelled([_write(tmp_path / "q.csv", "code\n1\n")], like=support)
    assert list(narrow.items) == ["code"]  # whether that is enough is up to the encoder


def test_several_tables_are_put_together(tmp_path: Path) -> None:
    support = read_labelled(_write(tmp_path / "s.csv", "a,b,label\n1,1,a\n0,2,b\n"))
    paths = [
        _write(tmp_path / name, f"a,b\n{n},{n}\n") for n, name in enumerate(("y.csv", "x.csv"))
    ]
    queries = read_unlabelled(paths, like=support)
    assert queries.items["a"].tolist() == [0, 1]
    assert queries.names == tuple(f"{path} row 1" for path in paths)


def test_paths_are_relative_to_the_table(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "1 ä.png").write_bytes(b"")
    text = "file,width,label\np/1 ä.png,3,a\np/none.png,4,b\n,5,b\nx.wav,5,b\n"
    path = _write(tmp_path / "t.csv", text)
    with pytest.raises(InvalidInput, match="column 'file' holds files of several kinds"):
        read_labelled(path)
    examples = read_labelled(path, ReadOptions(modality=Modality.IMAGE))
    assert examples.items == (tmp_path / "p" / "1 ä.png", tmp_path / "p" / "none.png")
    assert examples.labels == ("a", "b")
    assert examples.ignored == ("2 rows without image content", "1 column (width)")


def test_paths_of_files_that_are_elsewhere_are_reported(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.csv", "file,label\n1.png,a\n2.png,b\n")
    with pytest.raises(InvalidInput, match="none of the files named in column 'file' exists"):
        read_labelled(path)


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_other_tables_hold_the_same(suffix: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1.5, None, 2], "on": [True, False, None], "label": [3, None, 4]})
    path = tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        frame.index = [7, 3, 5]  # which pandas writes as a column, unlike 0, 1, 2
        frame.astype({"label": "Int64"}).to_parquet(path)
    else:
        rows = [{"x": 1.5, "on": True, "label": 3}, {"on": False}, {"x": 2, "label": 4}]
        path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    examples = read_labelled(path)
    assert examples.labels == ("3", "4")
    assert examples.names == ("row 1", "row 3")
    assert list(examples.items) == ["x", "on"]
    assert examples.items["x"].tolist() == [1.5, 2]
    assert examples.items["on"].tolist() == ["True", None]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "t.csv",
            "text,class\na b c,x\n",
            r"no column of labels named 'label': got 'text', 'class'",
        ),
        ("t.csv", "a,a,label\n1,2,x\n", "several columns with the same name: got 'a'"),
        ("t.csv", "text,label\n", "holds no rows: got an empty table"),
        ("t.csv", "", "holds no rows"),
        ("t.csv", "text,label\na b,x,y\n", "line 2: got 3 cells under a header of 2; .*quotes"),
        ("t.csv", 'text,label\nok,x\n"a b,x\n', "not a table, line 3: got unexpected end of data"),
        ("t.csv", "text,label\nhi,\nho,\n", "no row of .* has a label"),
        ("t.csv", "text,label\nhi,x\nho,x\n", "one class only: got 'x'"),
        ("t.jsonl", '{"a": 1}\n{"a": ', "not a table, line 2: got Expecting value"),
        ("t.jsonl", "[1]", "not a table, line 1: got list; allowed: one JSON object"),
        ("t.jsonl", '{"a": [1], "label": "x"}', "cells hold several values or bytes: got 'a'"),
        ("t.parquet", "PAR1", "is not a Parquet file"),
    ],
)
def test_tables_that_are_refused(name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_labelled(_write(tmp_path / name, text))


def test_windows_encoding_is_read_with_a_note(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.csv", TEXTS.replace("soon", "söon €"), "cp1252")
    examples = read_labelled(path)
    assert any("söon €" in text for text in examples.items)
    assert examples.guesses == (f"{path} is not in UTF-8 and was read as Windows-1252",)
    assert read_labelled(_write(tmp_path / "u.csv", TEXTS)).guesses == ()


@pytest.mark.parametrize("content", [b"text,label\n\x00\xff,x\n", b"text,label\n\x81,x\n"])
def test_what_is_no_text_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="not text in UTF-8: got byte 0x"):
        read_labelled(path)


def test_columns_that_do_not_fit_the_call(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.csv", TEXTS)
    with pytest.raises(InvalidInput, match="no column 'body' to take its items from: got 'text'"):
        read_labelled(path, ReadOptions(content_column="body"))
    with pytest.raises(InvalidInput, match="no column names image files: got 'text'"):
        read_labelled(path, ReadOptions(modality=Modality.IMAGE))
    with pytest.raises(InvalidInput, match="no column names audio files: got 'text'"):
        read_labelled(path, ReadOptions(modality=Modality.AUDIO, content_column="text"))
    with pytest.raises(InvalidInput, match="a table of features has no content column"):
        read_labelled(path, ReadOptions(modality=Modality.TABLE, content_column="text"))


def test_queries_may_name_their_only_column_otherwise(tmp_path: Path) -> None:
    support = read_labelled(_write(tmp_path / "s.csv", TEXTS))
    queries = read_unlabelled([_write(tmp_path / "q.csv", "question\nwho\n")], like=support)
    assert queries.items == ("who",)
    several = _write(tmp_path / "q.csv", "question,text,topic\n1 2 3 4,who,x\n")
    assert read_unlabelled([several], like=support).items == ("who",)


def test_lines_of_standard_input_are_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    _lines(monkeypatch, "hello\r\n\n grüß dich \n".encode())
    queries = read_unlabelled([Path("-")])
    assert queries.items == queries.names == ("hello", "grüß dich")
    assert queries.ignored == ("1 empty line",)
    _lines(monkeypatch, b"\n")
    with pytest.raises(InvalidInput, match="standard input is empty"):
        read_unlabelled([Path("-")])
    with pytest.raises(InvalidInput, match="standard input are texts: got '-' for image items"):
        read_unlabelled([Path("-")], ReadOptions(modality=Modality.IMAGE))
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InvalidInput, match="standard input is closed: got '-'"):
        read_unlabelled([Path("-")])


def test_long_texts_are_named_by_their_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    _lines(monkeypatch, b"word " * 100)
    queries = read_unlabelled([Path("-")])
    assert len(queries.names[0]) == 120
    assert queries.names[0].endswith("…")
    assert queries.items[0].endswith("word")


def test_without_pandas_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"pip install 'unitail\[encoders\]'"):
        read_labelled(_write(tmp_path / "t.csv", TEXTS))


# What spreadsheets write


def test_decimal_commas_are_read_as_numbers_with_a_note(tmp_path: Path) -> None:
    rows = ["39,1;1.234,5;1,250;a", "40;2.000,25;2,500;b", "NA;3;3,750;a"]
    table = "\n".join(["bill;mass;price;label", *rows]) + "\n"
    examples = read_labelled(_write(tmp_path / "t.csv", table))
    np.testing.assert_array_equal(examples.items["bill"], [39.1, 40, np.nan])
    np.testing.assert_array_equal(examples.items["mass"], [1234.5, 2000.25, 3])
    assert list(examples.items["price"]) == [1.25, 2.5, 3.75]  # thousands, if alone
    said = "the commas in the numbers of 'bill', 'mass', 'price' are decimal points"
    assert examples.guesses == (said,)
    asked = _write(tmp_path / "q.csv", "bill;mass\n38,125;1.234\n")  # thousands, if alone
    items = read_unlabelled([asked], like=examples)
    assert items.items.to_numpy().tolist() == [[38.125, 1234]]


def test_points_stay_points(tmp_path: Path) -> None:
    table = 'x,y,label\n"1,5",1.5,a\n2.5,"1,234",b\n'
    examples = read_labelled(_write(tmp_path / "t.csv", table))
    assert list(examples.items["x"]) == ["1,5", "2.5"]
    assert list(examples.items["y"]) == [1.5, 1234]
    assert examples.guesses == ("the commas in the numbers of 'y' separate thousands",)


def test_large_cells_are_read_and_pythons_own_limit_stays(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    long = "word " * 50_000
    examples = read_labelled(_write(tmp_path / "t.csv", TEXTS + f"{long},greeting\n"))
    assert examples.items[2] == long.strip()
    assert csv.field_size_limit() == before


def test_excel_files_are_read(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    for row in [["x", None, "colour", "label"], [1.5, None, "red", "a"], [], [2, None, None, "b"]]:
        sheet.append(row)
    path = tmp_path / "t.xlsx"
    book.save(path)
    examples = read_labelled(path)
    assert list(examples.items["x"]) == [1.5, 2]
    assert list(examples.items) == ["x", "colour"]
    assert (examples.labels, examples.guesses) == (("a", "b"), ())
    book.create_sheet("notes")
    book.save(path)
    assert read_labelled(path).guesses == (f"only the sheet 'Sheet' of {path} was read",)
    with pytest.raises(InvalidInput, match="is not an Excel file: got BadZipFile"):
        read_labelled(_write(tmp_path / "u.xlsx", "x,label\n"))


def test_a_column_of_labels_with_capitals_is_named(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.csv", TEXTS.replace("label", "Label"))
    with pytest.raises(InvalidInput, match=r"labels: --label-column Label\.$"):
        read_labelled(path)
    path = _write(tmp_path / "t.csv", TEXTS.replace("label", "Intent"))
    with pytest.raises(InvalidInput, match=r"labels: --label-column Intent\.$"):
        read_labelled(path)
    path = _write(tmp_path / "t.csv", TEXTS.replace("label", "what"))
    with pytest.raises(InvalidInput, match=r"labels: --label-column NAME\.$"):
        read_labelled(path)


def test_row_numbers_are_left_out_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,size,label\n3,1.5,a\n1,2.5,b\n2,9.5,b\n")
    examples = read_labelled(path)
    assert list(examples.items.columns) == ["size"]
    assert examples.layout == Layout({}, ("size",), {"id": APART})
    fitted = fit_layout(examples.layout, examples.items, "auto", "cpu")
    assert fitted.notes == (
        "Column 'id' is not used: it only tells rows apart; to use it: --column id=table, in"
        " Python encoder={'id': 'table'}",
    )
    queries = read_unlabelled([path], like=examples)
    assert (list(queries.items.columns), queries.ignored) == (["size"], ())
    used = read_labelled(path, ReadOptions(columns={"id": "table"}))
    assert list(used.items.columns) == ["id", "size"]


def test_empty_rows_are_not_answered(tmp_path: Path) -> None:
    """Rows whose cells are all said to be missing are, as all else may tell classes apart."""
    examples = read_labelled(_write(tmp_path / "s.csv", "size,colour,label\n1,red,a\n2,,b\n"))
    path = _write(tmp_path / "q.csv", "size,colour,label\n3,red,\n, ,\nNA,,\n,,a\n,blue,\n")
    items = read_unlabelled([path], like=examples)
    assert items.names == ("row 1", "row 3", "row 5")
    assert items.items["colour"].tolist() == ["red", None, "blue"]
    assert [record.item for record in items.records] == [0, None, 1, None, 2]
    assert [record.reason for record in items.records] == ["", "empty row", "", "empty row", ""]
    assert items.ignored == ("2 empty rows",)
    empty = read_unlabelled([_write(tmp_path / "q.csv", "size,colour\n,\n")], like=examples)
    assert (len(empty), list(empty.items)) == (0, ["size", "colour"])


@pytest.mark.parametrize("suffix", ["csv", "xlsx", "parquet", "jsonl"])
def test_labels_of_every_format_are_the_same(suffix: str, tmp_path: Path) -> None:
    """Other than a column of CSV files, a column of numbers with gaps is one of floats."""
    frame = pd.DataFrame({"size": [1.5, 2.5, 3.5], "label": [0.0, None, 1.0]})
    path = tmp_path / f"t.{suffix}"
    if suffix == "xlsx":
        frame.to_excel(path, index=False)
    elif suffix == "parquet":
        frame.to_parquet(path)
    else:
        frame["label"] = frame["label"].astype("Int64" if suffix == "csv" else float)
        rows = frame.to_csv if suffix == "csv" else frame.to_json
        rows(
            path, **({"index": False} if suffix == "csv" else {"orient": "records", "lines": True})
        )
    examples = read_labelled(path)
    assert examples.labels == ("0", "1")
    labels = [record.label for record in read_unlabelled([path], like=examples).records]
    assert labels == ["0", "", "1"]
