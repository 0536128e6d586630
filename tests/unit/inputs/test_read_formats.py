"""Tables in other clothes: more formats, numbers with units, labels that may be slips."""

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unitail.encoders.encoder import Modality
from unitail.encoders.tables import TableEncoder
from unitail.errors import InvalidCheckpoint, InvalidInput
from unitail.inputs import table_files
from unitail.inputs.cells import as_features, with_reading
from unitail.inputs.encode import fit_encoder
from unitail.inputs.input_encoder import describe_encoder, restore_encoder
from unitail.inputs.items import ReadOptions
from unitail.inputs.read import read_labelled, read_unlabelled


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_money_shares_and_units_are_read_as_numbers_with_a_note(tmp_path: Path) -> None:
    header = "price|share|weight|room|code|label"
    rows = [
        "$1,200.50|5 %|1 300 kg|A1|PK-1|a",
        "-$3|12.5 %|750 kg|B2|PK-2|b",
        "-|7%|1 kg|C3|PK-3|a",
    ]
    examples = read_labelled(_write(tmp_path / "t.csv", "\n".join([header, *rows]) + "\n"))
    np.testing.assert_array_equal(examples.items["price"], [1200.5, -3, np.nan])
    assert list(examples.items["share"]) == [5, 12.5, 7]
    assert list(examples.items["weight"]) == [1300, 750, 1]
    assert list(examples.items["room"]) == ["A1", "B2", "C3"]
    assert list(examples.items["code"]) == ["PK-1", "PK-2", "PK-3"]
    assert examples.guesses == (
        "the commas in the numbers of 'price' separate thousands",
        "symbols and units next to numbers are ignored: 'price' ($), 'share' (%), 'weight' (kg)",
    )
    asked = _write(tmp_path / "q.csv", "price|share|weight\n$12|3|20 lb\n7|4 %|(30)\n")
    items = read_unlabelled([asked], like=examples)
    assert items.items["price"].tolist() == [12, 7]
    assert items.items["share"].tolist() == [3, 4]
    np.testing.assert_array_equal(items.items["weight"], [np.nan, -30])  # pounds are no kilograms
    assert items.ignored[0] == "1 cell of 'weight' without a number ('20 lb')"


@pytest.mark.parametrize("suffix", [".json", ".feather", ".arrow", ".csv.gz", ".JSONL.GZ"])
def test_more_formats_hold_the_same(suffix: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"x": [1.5, 2.0, None], "colour": ["red", "blue", "rot"], "label": list("aba")}
    )
    path = tmp_path / f"t{suffix}"
    if suffix == ".json":
        frame.to_json(path, orient="records")
    elif suffix.endswith((".gz", ".GZ")):
        lines = frame.to_json(orient="records", lines=True)
        written = frame.to_csv(index=False) if suffix == ".csv.gz" else lines
        path.write_bytes(gzip.compress(written.encode()))
    else:
        frame.to_feather(path)
    examples = read_labelled(path)
    assert examples.labels == ("a", "b", "a")
    np.testing.assert_array_equal(examples.items["x"], [1.5, 2, np.nan])
    assert list(examples.items["colour"]) == ["red", "blue", "rot"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "t.json",
            b'{"x": 1}',
            r"t\.json is not a table: got JSON of another form \(dict\); allowed",
        ),
        ("t.json", b"[1, 2", r"t\.json is not a table: got Expecting"),
        ("t.feather", b"ARROW1", r"t\.feather is not an Arrow file: got "),
        ("t.csv.gz", b"x,label\n1,a\n", r"t\.csv\.gz is not a gzip file: got BadGzipFile"),
        ("t.csv.gz", gzip.compress(bytes(10**6)), r"too large: got 1,001 bytes or more, unpacked"),
    ],
)
def test_broken_files_of_these_formats_are_reported(
    name: str, content: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "MAX_UNPACKED", 1000)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=message):
        read_labelled(tmp_path / name)


def test_labels_that_may_be_slips_are_reported(tmp_path: Path) -> None:
    rows = "".join(
        f"{place},{label}\n" for place, label in enumerate(["Cat", "cat ", "c-1", "c_1", "-1", "1"])
    )
    examples = read_labelled(_write(tmp_path / "t.csv", "x,label\n" + rows))
    assert examples.classes == ("-1", "1", "Cat", "c-1", "c_1", "cat")
    assert examples.guesses == ("'Cat' and 'cat'; 'c-1' and 'c_1' are different classes",)
    numbers = _write(tmp_path / "n.csv", "x,label\n1,1\n2,2\n3,1.0\n4,-1\n5,10\n6,02\n")
    assert read_labelled(numbers).guesses == ("'02' and '2'; '1' and '1.0' are different classes",)
    long = [f"1,{'1' * 40}{last}\n" for last in ("1", "2", "2.0")] + ["2,9007199254740993\n"]
    longer = _write(tmp_path / "l.csv", "x,label\n2,9007199254740992\n" + "".join(long))
    twos = "1" * 40 + "2"
    assert read_labelled(longer).guesses == (f"'{twos}' and '{twos}.0' are different classes",)
    many = "".join(f"{place % 3},{place // 3},{place}\n" for place in range(12))
    examples = read_labelled(
        _write(tmp_path / "u.csv", "kind,y,size\n" + many), ReadOptions(label_column="size")
    )
    assert examples.guesses == (
        "'size' holds the labels, though 12 rows have 12 different ones;"
        " to use another column: --label-column NAME",
    )
    with pytest.raises(InvalidInput, match="that holds the labels: --label-column size"):
        read_labelled(tmp_path / "u.csv", ReadOptions(label_column="sise"))


def test_a_file_that_is_no_table_is_reported_with_tables_alone(tmp_path: Path) -> None:
    examples = read_labelled(_write(tmp_path / "t.csv", "x,label\n1,a\n2,b\n"))
    words = (
        r"q\.doc is not a table like the examples: got another kind of file; allowed: tables: \.csv"
    )
    with pytest.raises(InvalidInput, match=words) as caught:
        read_unlabelled([_write(tmp_path / "q.doc", "x")], like=examples)
    assert ".jpg" not in str(caught.value)


def test_dates_in_any_order_are_read_with_a_note(tmp_path: Path) -> None:
    rows = "3.2.2021,02/03/2021,,a\n14.2.2021,02/14/2021,2021-02-03,b\n"
    examples = read_labelled(_write(tmp_path / "t.csv", "x,y,z,label\n" + rows))
    for name in "xy":
        assert list(examples.items[name]) == ["2021-02-03", "2021-02-14"]
    assert list(examples.items["z"]) == [None, "2021-02-03"]
    assert examples.guesses == ("the dates of 'y' have the month first",)
    asked = _write(tmp_path / "q.csv", "y,x,z\n03/04/2021,4.3.2021,5.6.2021\n")
    items = read_unlabelled([asked], like=examples)
    assert items.items.iloc[0].to_dict() == {
        "x": "2021-03-04",
        "y": "2021-03-04",
        "z": "2021-06-05",
    }


def test_how_files_are_written_is_kept_with_what_was_learned(tmp_path: Path) -> None:
    """Alone, 38,125 would be thousands, and 02/03/2021 a name."""
    rows = "39,5;13/02/2021;a\n40,25;14/02/2021;b\n"
    examples = read_labelled(_write(tmp_path / "t.csv", "bill;when;label\n" + rows))
    by = fit_encoder("auto", examples.items, Modality.TABLE)
    description = json.loads(json.dumps(describe_encoder(by)))
    restored = restore_encoder(description, None, "cpu")
    assert isinstance(restored, TableEncoder)
    like = examples.items.iloc[:0].copy()
    like.attrs.clear()
    asked = pd.DataFrame({"bill": ["38,125"], "when": ["02/03/2021"]})
    alone, _ = as_features(asked, like)
    assert alone.iloc[0].tolist() == [38125, "02/03/2021"]
    read, _ = as_features(asked, with_reading(like, restored.reading))
    assert read.iloc[0].tolist() == [38.125, "2021-03-02"]
    description["columns"]["reading"]["styles"]["bill"]["beside"] = 5
    with pytest.raises(InvalidCheckpoint, match="the saved encoder is damaged"):
        restore_encoder(description, None, "cpu")


@pytest.mark.parametrize("name", ["t.csv.zip", "t.zip", "t.csv.xz", "t.tar.gz"])
def test_what_is_packed_in_another_way_is_refused_with_what_to_do(
    name: str, tmp_path: Path
) -> None:
    path = _write(tmp_path / name, "packed")
    table = _write(tmp_path / "t.csv", "x,label\n1,a\n2,b\n")
    suffix = ".tar" if name.endswith(".tar.gz") else path.suffix
    message = rf"got a packed file \({suffix}\); allowed: .* Unpack it: only tables with .gz are"
    with pytest.raises(InvalidInput, match=message):
        read_labelled(path)
    with pytest.raises(InvalidInput, match=message):
        read_unlabelled([path], like=read_labelled(table))
