import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from unitail.encoders import vector_file
from unitail.encoders.vector_file import EncoderCount, Vector, VectorFile

PLENTY = 10**9


def _vectors(*names: str, width: int = 4) -> dict[str, Vector]:
    return {name: np.full(width, place, np.float32) for place, name in enumerate(names)}


@pytest.fixture
def file(tmp_path: Path) -> VectorFile:
    return VectorFile(tmp_path / "deep" / "vectors.sqlite")


def test_what_is_written_is_read(file: VectorFile) -> None:
    vectors = {"a": np.array([1.5, -2.0, np.pi], np.float32), "b": np.zeros(2, np.float32)}
    file.write("net", "Net", vectors, PLENTY)
    stored = file.read("net", ["a", "b", "c"])
    assert stored.keys() == vectors.keys()
    for name, vector in vectors.items():
        np.testing.assert_array_equal(stored[name], vector)
        assert stored[name].dtype == np.float32
        assert stored[name].flags.writeable


def test_encoders_do_not_see_each_other(file: VectorFile) -> None:
    file.write("one", "One", _vectors("a", "b"), PLENTY)
    file.write("two", "Two", _vectors("x", "a"), PLENTY)
    assert file.read("one", ["a"])["a"][0] == 0
    assert file.read("two", ["a"])["a"][0] == 1
    assert file.read("three", ["a"]) == {}
    assert file.count() == [EncoderCount("One", "one", 2), EncoderCount("Two", "two", 2)]


def test_a_vector_can_be_replaced(file: VectorFile) -> None:
    file.write("net", "", _vectors("a"), PLENTY)
    file.write("net", "", {"a": np.ones(2, np.float32)}, PLENTY)
    assert file.read("net", ["a"])["a"].tolist() == [1, 1]


def test_more_than_one_statement_can_take_are_read(file: VectorFile) -> None:
    names = [f"{number}" for number in range(2 * vector_file.READ_CHUNK + 1)]
    file.write("net", "", _vectors(*names, width=1), PLENTY)
    stored = file.read("net", names)
    assert [stored[name][0] for name in names] == list(range(len(names)))


def test_nothing_is_made_by_reading(file: VectorFile) -> None:
    assert file.read("net", ["a"]) == {}
    assert file.count() == []
    assert file.clear() == 0
    assert file.bytes == 0
    assert not file.path.parent.exists()


# The limit


def test_the_least_recently_used_give_way(
    file: VectorFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_file, "EVICTED_CHUNK", 1)
    clock = [1e6]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    limit = 100_000
    for name in "abcdefgh":
        file.write("net", "", {name: np.ones(4000, np.float32)}, limit)
        clock[0] += vector_file.USE_NOTED_SECONDS + 1
        file.read("net", ["a"])
        assert file.bytes <= limit
    left = file.read("net", list("abcdefgh"))
    assert len(left) >= 4
    assert sorted(left) == ["a", *"abcdefgh"[-len(left) + 1 :]]  # the oldest, but in use


def test_a_limit_that_nothing_fits_in_keeps_nothing(file: VectorFile) -> None:
    file.write("net", "", _vectors("a", "b"), 1)
    assert file.count() == []


def test_clearing_shrinks_the_file(file: VectorFile) -> None:
    file.write("one", "", _vectors("a", "b", width=50_000), PLENTY)
    file.write("two", "", _vectors("a"), PLENTY)
    full = file.bytes
    assert full > 400_000
    assert file.clear() == 3
    assert file.bytes < 50_000
    assert file.count() == []


# Damage


def _flip(path: Path, pattern: bytes) -> None:
    content = path.read_bytes()
    assert content.count(pattern) == 1
    path.write_bytes(content.replace(pattern, bytes(byte ^ 1 for byte in pattern)))


def test_a_damaged_vector_is_passed_over(file: VectorFile) -> None:
    marked = np.array([1.25, 7.75, -3.5], np.float32)
    file.write("net", "", {"a": marked, **_vectors("b", "c")}, PLENTY)
    _flip(file.path, marked.tobytes())
    assert sorted(file.read("net", ["a", "b", "c"])) == ["b", "c"]
    file.write("net", "", {"a": marked}, PLENTY)
    assert sorted(file.read("net", ["a", "b", "c"])) == ["a", "b", "c"]


@pytest.mark.parametrize("content", [b"no database" * 1000, b"SQLite format 3\0" + b"\7" * 5000])
def test_a_damaged_file_is_moved_aside(file: VectorFile, content: bytes) -> None:
    file.path.parent.mkdir()
    file.path.write_bytes(content)
    assert file.read("net", ["a"]) == {}
    assert file.broken.read_bytes() == content
    file.write("net", "", _vectors("a"), PLENTY)
    assert list(file.read("net", ["a"])) == ["a"]
    file.clear()
    assert not file.broken.exists()


def test_a_cut_off_file_is_moved_aside(file: VectorFile) -> None:
    names = [f"{number}" for number in range(200)]
    file.write("net", "", _vectors(*names, width=500), PLENTY)
    file.path.write_bytes(file.path.read_bytes()[: file.bytes // 2])
    for name in names:
        file.read("net", [name])
    file.write("net", "", _vectors(*names), PLENTY)
    file.write("net", "", _vectors(*names), PLENTY)
    assert len(file.read("net", names)) == 200


def test_a_database_with_other_tables_is_moved_aside(file: VectorFile) -> None:
    file.path.parent.mkdir()
    other = sqlite3.connect(file.path)
    other.execute("CREATE TABLE vectors (something REAL)")
    other.close()
    assert file.count() == []
    assert file.broken.exists()


def test_a_file_that_can_only_be_read_is_read(
    file: VectorFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write("net", "", _vectors("a"), PLENTY)
    connect, later = sqlite3.connect, time.time() + 2 * vector_file.USE_NOTED_SECONDS
    monkeypatch.setattr(
        sqlite3, "connect", lambda path, **rest: connect(f"file:{path}?mode=ro", uri=True, **rest)
    )
    monkeypatch.setattr(time, "time", lambda: later)  # so that the use would be noted
    assert list(file.read("net", ["a"])) == ["a"]
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        file.write("net", "", _vectors("b"), PLENTY)


# Several processes

WRITER = """
import sys
import numpy as np
from pathlib import Path
from unitail.encoders.vector_file import VectorFile
file, name, endless = VectorFile(Path(sys.argv[1])), sys.argv[2], len(sys.argv) > 3
number = 0
while endless or number < 10:
    rows = {f"{name}{number}-{row}": np.full(64, number, np.float32) for row in range(16)}
    file.write("net", "", rows, 10**9)
    assert len(file.read("net", list(rows))) == 16
    number += 1
    print(number, flush=True)
"""


def _writer(file: VectorFile, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(file.path), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_write_at_once(file: VectorFile) -> None:
    writers = [_writer(file, name) for name in ("x", "y")]
    for writer in writers:
        writer.communicate(timeout=60)
    assert [writer.returncode for writer in writers] == [0, 0]
    assert file.count() == [EncoderCount("", "net", 2 * 10 * 16)]


def test_writers_wait_for_each_other(file: VectorFile) -> None:
    def write(name: str) -> None:
        for number in range(4):
            file.write("net", "", _vectors(f"{name}{number}"), PLENTY)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, "wxyz"))  # raises what was raised
    assert file.count() == [EncoderCount("", "net", 16)]


def test_a_killed_writer_leaves_whole_batches(file: VectorFile) -> None:
    for attempt in range(3):
        writer = _writer(file, f"{attempt}.", "endless")
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(0.01 * attempt)
        os.kill(writer.pid, signal.SIGKILL)
        written = 1 + len(writer.communicate()[0].splitlines())
        names = [f"{attempt}.{number}-0" for number in range(written + 1)]
        batches = len(file.read("net", names))
        assert written <= batches <= written + 1
        whole = [f"{attempt}.{number}-{row}" for number in range(batches) for row in range(16)]
        assert len(file.read("net", whole)) == 16 * batches
    assert not file.broken.exists()
    check = sqlite3.connect(file.path)
    assert check.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    check.close()


@pytest.mark.parametrize("column", ["vector", "checksum", "used"])
@pytest.mark.parametrize("value", [None, "text", 3, -1.5])
def test_cells_of_another_type_are_damage(file: VectorFile, column: str, value: object) -> None:
    file.write("net", "", _vectors("a", "b"), PLENTY)
    with sqlite3.connect(file.path) as connection:
        connection.execute(f"UPDATE vectors SET {column} = ? WHERE content = 'a'", (value,))
    connection.close()
    whole = {"b"} if column != "used" else {"a", "b"}
    assert file.read("net", ["a", "b"]).keys() == whole
