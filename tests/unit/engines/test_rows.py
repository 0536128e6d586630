from collections import Counter
from pathlib import Path

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest

from helpers.sounds import write_sounds
from unitail.encoders.encoder import Modality
from unitail.engines import chunks
from unitail.engines.engine import Chunk
from unitail.engines.rows import JobRows, open_rows, rows_of_items
from unitail.errors import InvalidInput
from unitail.inputs.items import ReadOptions
from unitail.inputs.read import read_labelled, read_unlabelled


def _items(rows: JobRows) -> list[object]:
    with rows.reading.items(next(rows.stream.chunks())) as items:
        return list(items.items)


def test_the_column_of_items_is_found_by_the_first_rows(tmp_path: Path) -> None:
    sounds = write_sounds(tmp_path / "sounds", count=1)
    files = [str(path.relative_to(tmp_path)) for path in sorted(sounds.rglob("*.wav"))]
    lines = ["n,sound,note", *(f"{n},{file},hm" for n, file in enumerate([*files, "", "gone.wav"]))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    rows = open_rows([str(tmp_path / "t.csv")])
    assert (rows.reading.modality, rows.reading.column) == (Modality.AUDIO, "sound")
    with rows.reading.items(next(rows.stream.chunks())) as items:
        assert items.items == tuple(tmp_path / file for file in [*files, "gone.wav"])
        assert [record.item for record in items.records] == [0, 1, 2, None, 3]
        assert items.records[3].reason == "no audio in 'sound'"
        assert items.records[3].cells == {"n": "3", "sound": "", "note": "hm"}
    with pytest.raises(InvalidInput, match="a table has no column 'other'"):
        open_rows([str(tmp_path / "t.csv")], ReadOptions(content_column="other"))


def test_texts_are_found_if_there_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("n,say\n1,how are you today\n2,where is my parcel now\n")
    rows = open_rows([str(tmp_path / "t.csv")])
    assert (rows.reading.modality, rows.reading.column) == (Modality.TEXT, "say")
    assert _items(rows) == ["how are you today", "where is my parcel now"]


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path) -> None:
    for number in (0, 1):
        table = pyarrow.table({"text": [f"{number} a b c d", f"{number} e f g h"]})
        pyarrow.parquet.write_table(table, tmp_path / f"{number}.parquet")
    (tmp_path / "_SUCCESS").touch()
    rows = open_rows([str(tmp_path)])
    assert rows.stream.total == 4
    assert len(_items(rows)) == 4


def test_bytes_of_files_are_items_and_do_not_go_into_the_result(tmp_path: Path) -> None:
    content = next(write_sounds(tmp_path / "s").rglob("*.wav")).read_bytes()
    table = pyarrow.table({"id": [1, 2], "sound": [content, None]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    rows = open_rows([str(tmp_path / "t.parquet")], ReadOptions(modality=Modality.AUDIO))
    assert _items(rows) == [content]
    assert rows.reading.kept(Chunk(0, 0, table)).column_names == ["id"]
    with pytest.raises(InvalidInput, match="in a column of bytes is not known: got 'sound'"):
        open_rows([str(tmp_path / "t.parquet")])


def test_classes_are_named_by_folders_or_a_column(tmp_path: Path) -> None:
    sounds = write_sounds(tmp_path / "sounds", count=1)
    here = open_rows([str(sounds)], labelled=True)
    there = open_rows([f"file://{sounds}"], labelled=True)
    for rows in (here, there):
        chunk = next(rows.stream.chunks())
        assert chunk.rows.column("label").to_pylist() == ["beep", "hiss", "hum"]
        with rows.reading.items(chunk) as items:
            assert [Path(str(item)).read_bytes() for item in items.items] == [
                path.read_bytes() for path in sorted(sounds.rglob("*.wav"))
            ]
    (tmp_path / "t.csv").write_text("text,Intent\na b c d,x\n")
    message = r"t\.csv has no column of labels named 'label': got 'text', .*--label-column Intent\."
    with pytest.raises(InvalidInput, match=message):
        open_rows([str(tmp_path / "t.csv")], labelled=True)
    with pytest.raises(InvalidInput, match="holds no audio files in class folders: got 1 files"):
        open_rows([f"file://{sounds}/hum"], labelled=True)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([b"x", b"y"], "binary"),
        (pyarrow.array([b"x", b"y"]).dictionary_encode(), "dictionary<values=binary"),
        ([["x"], ["y"]], "list<"),
    ],
)
def test_labels_that_are_not_text_are_refused_before_anything_is_encoded(
    tmp_path: Path,
    labels: object,
    kind: str,
) -> None:
    path = tmp_path / "t.parquet"
    table = pyarrow.table({"text": ["a b", "c d"], "label": labels})
    pyarrow.parquet.write_table(table, path)
    message = f"no text or number in each cell of 'label': got {kind}.*--label-column"
    for labelled in (True, False):
        with pytest.raises(InvalidInput, match=message):
            open_rows([str(path)], labelled=labelled)
    rows = open_rows([str(path)], ReadOptions(label_column="other", content_column="text"))
    assert rows.reading.column == "text"


def test_items_that_were_read_are_rows(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text,label\nhow are you,x\nwhere is it now,y\n")
    rows = rows_of_items(read_labelled(tmp_path / "t.csv", ReadOptions(modality=Modality.TEXT)))
    assert next(rows.stream.chunks()).rows.to_pylist() == [
        {"text": "how are you", "label": "x"},
        {"text": "where is it now", "label": "y"},
    ]


def test_features_need_examples_to_be_read_like(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,label\n1,2,x\n3,4,y\n")
    rows = open_rows([str(tmp_path / "t.csv")], like=read_labelled(tmp_path / "t.csv"))
    assert rows.reading.modality is Modality.TABLE
    with pytest.raises(InvalidInput, match="such tables cannot be streamed: got features"):
        open_rows([str(tmp_path / "t.csv")], ReadOptions(modality=Modality.TABLE))


def test_a_table_that_is_read_whole_has_the_columns_that_are_named(tmp_path: Path) -> None:
    cells = {"say": ["so be it", "no way"], "said": ["x y", "y z"], "mood": ["a", "b"]}
    pandas.DataFrame({**cells, "label": ["l", "m"]}).to_excel(tmp_path / "t.xlsx", index=False)
    names, how = [str(tmp_path / "t.xlsx")], ReadOptions("mood", content_column="said")
    [chunk] = open_rows(names, how).stream.chunks()
    assert chunk.rows.to_pydict() == {"text": ["x y", "y z"]}, "also where labels are not asked for"
    rows = open_rows(names, how, labelled=True)
    [chunk] = rows.stream.chunks()
    assert chunk.rows.to_pydict() == {"text": ["x y", "y z"], "label": ["a", "b"]}
    assert rows.reading.label_column == "label"


def test_the_size_of_chunks_does_not_change_how_cells_are_read(tmp_path: Path) -> None:
    """The examples leave open which number of a date is the day, and what commas mean."""
    examples = tmp_path / "s.csv"
    examples.write_text("day,mass,label\n2021-02-03,1250,a\n2021-11-02,2.5,b\n")
    queries = tmp_path / "q.csv"
    days = ("02/11/2021", "03/11/2021", "13/02/2021", "01/05/2021")
    masses = ("2,125", "1,750", "1,5", "3")
    lines = [f"{day};{mass}" for day, mass in zip(days, masses, strict=True)]
    queries.write_text("\n".join(["day;mass", *lines]))
    like = read_labelled(examples)
    whole = read_unlabelled([queries], like=like).items
    assert whole["day"].tolist() == ["2021-11-02", "2021-11-03", "2021-02-13", "2021-05-01"]
    assert whole["mass"].tolist() == [2.125, 1.75, 1.5, 3]
    rows = open_rows([str(queries)], like=like)
    assert "the dates of 'day' have the day first" in rows.notes
    assert "the first 4 rows decided the formats of 'day', 'mass'" in rows.notes
    for size in (1, 2, 3, 4):
        read = []
        for chunk in rows.stream.chunks(size):
            with rows.reading.items(chunk) as items:
                read.append(items.items)
        pandas.testing.assert_frame_equal(pandas.concat(read, ignore_index=True), whole)


def test_what_the_first_rows_leave_open_is_not_decided_by_a_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "READ_ROWS", 2)
    (tmp_path / "s.csv").write_text("day,mass,label\n2021-02-03,1,a\n2021-11-02,2,b\n")
    lines = ["day;mass", "2021-02-03;1", "2021-02-04;2", "13/02/2021;1,5", "02/13/2021;1 000"]
    (tmp_path / "q.csv").write_text("\n".join(lines))
    rows = open_rows([str(tmp_path / "q.csv")], like=read_labelled(tmp_path / "s.csv"))
    assert rows.notes == (
        "neither the examples nor the first 2 rows show whether the dates of 'day' have the day or"
        " the month first: later ones are read with the month first",
    )
    for size in (1, 2, 4):
        days, masses, unread = list[str](), list[float](), Counter[str]()
        for chunk in rows.stream.chunks(size):
            with rows.reading.items(chunk) as items:
                days.extend(items.items["day"])
                masses.extend(items.items["mass"])
                unread.update(rows.reading.unread_cells(chunk, items))
        assert unread == {"day": 1, "mass": 2}
        assert days == ["2021-02-03", "2021-02-04", None, "2021-02-13"]
        np.testing.assert_array_equal(masses, [1, 2, np.nan, np.nan])


def test_a_column_without_any_date_is_refused_before_anything_is_encoded(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("day,mass,label\n2021-02-03,1,a\n2021-11-02,2,b\n")
    like = read_labelled(tmp_path / "s.csv")
    (tmp_path / "q.csv").write_text("day,mass\n,1\nsoon,2\nlater,3\n")
    with pytest.raises(InvalidInput, match=r"column 'day' holds no dates, .*: got 'soon'"):
        open_rows([str(tmp_path / "q.csv")], like=like)
    (tmp_path / "q.csv").write_text("mass,more\n1,2\n3,4\n")  # refused by the encoder
    rows = open_rows([str(tmp_path / "q.csv")], like=like)
    with rows.reading.items(next(rows.stream.chunks())) as items:
        assert list(items.items) == ["mass"]


def test_an_order_that_was_shown_needs_no_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The examples say that days come first; blank cells are missing, and not unread."""
    monkeypatch.setattr(chunks, "READ_ROWS", 2)
    (tmp_path / "s.csv").write_text("day,mass,label\n13/02/2021,1,a\n02/11/2021,2,b\n")
    lines = ["day;mass", "2021-02-03;1", "2021-02-04;2", "03/02/2021;", "n/a;3", "none of it;4"]
    (tmp_path / "q.csv").write_text("\n".join(lines))
    rows = open_rows([str(tmp_path / "q.csv")], like=read_labelled(tmp_path / "s.csv"))
    assert not any("decided" in note or "neither" in note for note in rows.notes)
    [chunk] = rows.stream.chunks(8)
    with rows.reading.items(chunk) as items:
        assert items.items["day"][2] == "2021-02-03"
        unread = rows.reading.unread_cells(chunk, items)
    assert unread == {"day": 1}
    expected = "1 cell of 'day' without a date: formats were decided by the examples and the first"
    assert rows.note_unread(unread) == f"{expected} 2 rows"


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_columns_of_answers_are_left_out(suffix: str, tmp_path: Path) -> None:
    cells = {"text": ["how are you today", "where is my parcel"], "label": ["x", "y"]}
    frame = pandas.DataFrame(cells)
    for name in ("answer", "probability", "state", "set", "novelty", "reason", "answer_2"):
        frame[name] = "an answer in several words"
    path = tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        frame.to_parquet(path)
    elif suffix == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=True)
    rows = open_rows([str(path)])
    chunk = next(rows.stream.chunks())
    assert (rows.reading.column, chunk.rows.to_pydict()) == ("text", cells)
    assert rows.reading.kept(chunk).column_names == ["text", "label"]


def test_lines_of_blanks_are_skipped_as_in_one_piece(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text,label\n  \nhow are you,a\n\t\n\nsee you soon,b\n \n")
    examples = read_labelled(path)
    assert examples.items == ("how are you", "see you soon")
    [chunk] = open_rows([str(path)]).stream.chunks()
    assert chunk.rows.to_pydict() == {"text": list(examples.items), "label": ["a", "b"]}


def test_empty_rows_are_no_items_and_labels_are_as_in_one_piece(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("a,b,label\n1,2,0\n3,4,1\n")
    frame = pandas.DataFrame({"a": [1.0, None], "b": [2.0, None], "label": [0.0, None]})
    frame.to_parquet(tmp_path / "q.parquet")
    rows = open_rows([str(tmp_path / "q.parquet")], like=read_labelled(tmp_path / "s.csv"))
    with rows.reading.items(next(rows.stream.chunks())) as items:
        assert [record.label for record in items.records] == ["0", ""]
        assert [record.reason for record in items.records] == ["", rows.reading.nothing]
