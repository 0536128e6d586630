"""Tables that are damaged, odd or hostile: read as they are, or refused in one sentence."""

import io
import os
import time
import zipfile
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unitail.errors import InvalidInput
from unitail.inputs import table_files
from unitail.inputs.read import read_labelled, read_unlabelled

ROWS = "x,label\n1,a\n2,b\n"


def _write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def _sheet(**changes: bytes) -> bytes:
    """Return an Excel file of two rows in which some members are others."""
    file, book = io.BytesIO(), openpyxl.Workbook()
    for row in (["x", "label"], [1, "a"], [2, "b"]):
        book.active.append(row)
    book.save(file)
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, changes.get(Path(name).stem, content))
    return file.getvalue()


def test_lines_may_end_as_on_old_macs(tmp_path: Path) -> None:
    examples = read_labelled(_write(tmp_path / "t.csv", ROWS.replace("\n", "\r")))
    assert examples.labels == ("a", "b")


def test_a_header_may_be_longer_than_pythons_usual_limit(tmp_path: Path) -> None:
    examples = read_labelled(_write(tmp_path / "t.csv", ROWS.replace("x", "x" * 200_000, 1)))
    assert list(examples.items) == ["x" * 200_000]


def test_endless_nesting_is_reported(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.jsonl", '{"label": ' + "[" * 100_000)
    with pytest.raises(InvalidInput, match="line 1: got it is nested too deeply"):
        read_labelled(path)


def test_halves_of_characters_are_replaced(tmp_path: Path) -> None:
    lines = [
        '{"text": "so \\ud83d", "label": "\\ud800"}',
        '{"text": "é \\ud83d\\ude00", "label": "b"}',
    ]
    examples = read_labelled(_write(tmp_path / "t.jsonl", "\n".join(lines)))
    assert examples.items == ("so \N{REPLACEMENT CHARACTER}", "é \N{GRINNING FACE}")
    assert examples.labels == ("\N{REPLACEMENT CHARACTER}", "b")


@pytest.mark.parametrize("member", ["sheet1", "workbook", "[Content_Types]", "styles"])
def test_a_damaged_sheet_is_reported(member: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "t.xlsx", _sheet(**{member: b"<a><b"}))
    with pytest.raises(
        InvalidInput, match=r"is not an Excel file: got .*; allowed: a whole \.xlsx"
    ):
        read_labelled(path)


def test_a_small_file_that_stands_for_a_huge_table_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    column = pa.array(["a", "b"] * 500)
    pq.write_table(pa.table({"x": column, "label": column}), tmp_path / "t.parquet")
    monkeypatch.setattr(table_files, "MAX_CELLS", 1999)
    message = "holds a table that is too large: got 2,000 cells; allowed: at most 1,999"
    with pytest.raises(InvalidInput, match=message):
        read_labelled(tmp_path / "t.parquet")
    monkeypatch.setattr(table_files, "MAX_CELLS", 5)
    with pytest.raises(InvalidInput, match="got 6 cells; allowed: at most 5"):
        read_labelled(_write(tmp_path / "t.xlsx", _sheet()))
    monkeypatch.setattr(table_files, "MAX_UNPACKED", 10**6)
    with pytest.raises(InvalidInput, match="bytes, unpacked; allowed: at most 1,000,000"):
        read_labelled(_write(tmp_path / "t.xlsx", _sheet(sheet1=bytes(10**6))))


def test_dates_beyond_all_calendars_are_reported(tmp_path: Path) -> None:
    times = pa.array([2**63 - 1, 1], pa.int64()).cast(pa.timestamp("us"))
    pq.write_table(pa.table({"x": times, "label": ["a", "b"]}), tmp_path / "t.parquet")
    with pytest.raises(InvalidInput, match="is not a Parquet file: got "):
        read_labelled(tmp_path / "t.parquet")


def test_a_cell_too_long_for_a_path_is_no_path(tmp_path: Path) -> None:
    names = ["a.png", "b" * 5000 + ".png"]
    (tmp_path / "a.png").write_bytes(b"")
    path = _write(tmp_path / "t.csv", f"file,label\n{names[0]},a\n{names[1]},b\n")
    assert [Path(item).name for item in read_labelled(path).items] == names


def test_many_pages_are_not_counted(tmp_path: Path) -> None:
    """To count them takes the square of their number."""
    entry = bytes.fromhex("0001 0400 01000000 01000000".replace(" ", ""))
    pages = b"".join(
        b"\1\0" + entry + (8 + 18 * (number + 1)).to_bytes(4, "little") for number in range(20_000)
    )
    _write(tmp_path / "scan.tif", b"II*\0\x08\0\0\0" + pages)
    begun = time.process_time()
    read_unlabelled([tmp_path / "scan.tif"])
    assert time.process_time() - begun < 1


def test_a_table_that_may_never_end_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "zeros.csv").symlink_to("/dev/zero")
    for name in ("pipe.csv", "zeros.csv"):
        with pytest.raises(InvalidInput, match=rf"{name} cannot be read: got a pipe, a socket or"):
            read_labelled(tmp_path / name)


def test_a_pipe_among_paths_is_not_opened(tmp_path: Path) -> None:
    """To open it would wait for someone to write."""
    os.mkfifo(tmp_path / "pipe.tif")
    (tmp_path / "a.tif").write_bytes(b"II*")
    path = _write(tmp_path / "t.csv", "file,label\na.tif,a\npipe.tif,b\n")
    assert len(read_labelled(path)) == 2
