import pickle
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from unitail.engines.chunks import ListedStream, RowStream, TableStream
from unitail.engines.storage import Storage
from unitail.errors import InvalidInput


def _texts(source: RowStream, size: int) -> list[list[str]]:
    return [chunk.rows.column("text").to_pylist() for chunk in source.chunks(size)]


def _table(path: Path, content: str | bytes) -> TableStream:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return TableStream([Storage(path)])


EXPECTED = [["a", "b, c"], ["d\ne", ""], ["f"]]


def test_tables_of_all_kinds_are_cut_alike(tmp_path: Path) -> None:
    csv = _table(tmp_path / "t.csv", 'n,text\n1,a\n2,"b, c"\n\n3,"d\ne"\n4,\n5,f\n')
    tabs = _table(tmp_path / "t.tsv", 'n\ttext\n1\ta\n2\tb, c\n3\t"d\ne"\n4\t\n5\tf\n')
    lines = ['{"n": 1, "text": "a"}', '{"text": "b, c", "n": 2}', '{"text": "d\\ne"}']
    json = _table(tmp_path / "t.jsonl", "\n".join([*lines, "", '{"text": ""}', '{"text": "f"}']))
    texts = ["a", "b, c", "d\ne", "", "f"]
    pyarrow.parquet.write_table(
        pyarrow.table({"n": range(5), "text": texts}), tmp_path / "t.parquet", row_group_size=3
    )
    parquet = TableStream([Storage(tmp_path / "t.parquet")])
    for source in (csv, tabs, json, parquet):
        assert _texts(source, 2) == EXPECTED
        assert [chunk.first for chunk in source.chunks(2)] == [0, 2, 4]
    assert (csv.total, parquet.total) == (None, 5)
    assert _texts(TableStream([Storage(tmp_path / "t.parquet")] * 2), 4) == [
        texts[:4], ["f", "a", "b, c", "d\ne"], ["", "f"],
    ]  # fmt: skip


def test_a_chunk_that_is_sent_to_a_worker_is_small(tmp_path: Path) -> None:
    table = pyarrow.table({"text": [f"{n:01000}" for n in range(4096)], "n": range(4096)})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    chunks = list(TableStream([Storage(tmp_path / "t.parquet")]).chunks(300))
    assert pyarrow.concat_tables([chunk.rows for chunk in chunks]).equals(table)
    assert [len(chunk) for chunk in chunks] == [300] * 13 + [196]
    assert all(len(pickle.dumps(chunk)) < 1100 * len(chunk) for chunk in chunks)


def test_a_source_knows_its_rows_again(tmp_path: Path) -> None:
    table = _table(tmp_path / "t.csv", "text\na\nb\n")
    same = TableStream([Storage(tmp_path / "t.csv")])
    assert table.identity == same.identity
    assert _table(tmp_path / "t.csv", "text\na\nc\nd\n").identity != same.identity
    listed = ListedStream("text", ["a", "b"], ["x", "y"])
    assert listed.identity == ListedStream("text", ["a", "b"], ["x", "y"]).identity
    others = [
        ListedStream("text", ["a", "b"]),
        ListedStream("text", ["b", "a"], ["x", "y"]),
        ListedStream("text", ["a", "b"], ["x", "x"]),
        ListedStream("text", ["a", "b"], ["x", "y"], [1, 2]),
    ]
    assert listed.identity not in [other.identity for other in others]


def test_listed_items_have_labels_beside_them() -> None:
    source = ListedStream("file", ["a.png", "b\udcff.png", "c.png"], ["x", "x\udcff", "y"])
    [first, last] = source.chunks(2)
    assert first.rows.to_pydict() == {"file": ["a.png", "b\ufffd.png"], "label": ["x", "x\ufffd"]}
    assert last.rows.to_pylist() == [{"file": "c.png", "label": "y"}]
    assert source.total == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "text,n\na,1\nb\n", r"is not a table, line 3: got 1 cells under a header of 2"),
        ("t.csv", b"text\na\n\xff\n", "is not text in UTF-8: got byte 0xff"),
        ("t.csv", "text,text\na,b\n", "no distinct column names: got 'text'"),
        ("t.csv", "", "no distinct column names: got an empty file"),
        ("t.jsonl", '{"text": "a"}\nnonsense\n', "is not a table, line 2: got Expecting value"),
        ("t.jsonl", '{"text": "a"}\n{"other": 1}\n', "line 2: got not an object, or other names"),
        ("t.jsonl", '{"a": ' * 100_000, "line 1: got it is nested too deeply"),
        ("t.csv", 'text,n\n"a" b,1\n', "is not a table, line 2: got ',' expected"),
        ("t.csv", '"text" x,n\na,1\n', "is not a table, line 1: got ',' expected"),
        ("t.jsonl", "[1]\n", "line 1: got not an object"),
    ],
)
def test_what_is_not_a_table_is_said_where(
    name: str, content: str | bytes, message: str, tmp_path: Path
) -> None:
    source = _table(tmp_path / name, content)
    with pytest.raises(InvalidInput, match=message):
        list(source.chunks(2))


def test_half_characters_and_long_headers_are_read(tmp_path: Path) -> None:
    half = _table(tmp_path / "t.jsonl", '{"text": "a\\ud800", "\\udc00": ["\\ud801"]}\n')
    [chunk] = half.chunks()
    assert chunk.rows.to_pylist() == [{"text": "a\ufffd", "\ufffd": '["\ufffd"]'}]
    long = "x" * 200_000
    [chunk] = _table(tmp_path / "t.csv", f"{long},text\na,b\n").chunks()
    assert chunk.rows.column_names == [long, "text"]


def test_other_types_than_the_first_table_s_are_refused(tmp_path: Path) -> None:
    for name, cells in (("a", [1]), ("b", ["x"])):
        table = pyarrow.table({"n": cells, "same": ["s"]})
        pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet")
    both = TableStream([Storage(tmp_path / f"{name}.parquet") for name in "ab"])
    with pytest.raises(
        InvalidInput, match=r"b\.parquet has columns of other types .* got n: string;"
    ):
        list(both.chunks(2))


def test_a_broken_parquet_file_and_other_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is not a Parquet file"):
        _table(tmp_path / "t.parquet", b"PAR1 or not")
    for name, column in (("a", "text"), ("b", "other")):
        pyarrow.parquet.write_table(pyarrow.table({column: ["x"]}), tmp_path / f"{name}.parquet")
    both = TableStream([Storage(tmp_path / f"{name}.parquet") for name in "ab"])
    with pytest.raises(InvalidInput, match="other columns than the first table: got other"):
        list(both.chunks(2))
    with pytest.raises(InvalidInput, match="there are no rows"):
        _table(tmp_path / "empty.csv", "text\n").head()
