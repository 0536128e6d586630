"""Stops of every kind, and what is left of an unfinished bank."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.banks import (
    NAMES,
    ROWS,
    SIZES,
    WIDTH,
    bank_writer,
    contents,
    manifest_of,
    rows_of,
    stop_after,
    write_rest,
)
from unitail.banks.bank import FeatureBank
from unitail.banks.writer import BankWriter
from unitail.errors import CannotWrite, InvalidBank

TESTS = Path(__file__).parents[2]

WRITE = """
import os, signal, sys, time
from pathlib import Path
from helpers.banks import NAMES, manifest_of, rows_of
from unitail.banks.writer import BankWriter

features, indices = rows_of((30, 20, 40), 16)

def write(folder, pause=0.0):
    manifest = manifest_of(90, 16)
    with BankWriter(folder, manifest, NAMES, record_seconds=0) as writer:
        for start in range(writer.rows_written, 90, 30):
            writer.append(features[start : start + 30], indices[start : start + 30])
            print(writer.rows_written, flush=True)
            time.sleep(pause)
"""
"""A module that writes a bank in three chunks."""

KILLED_BY_HAND = """
write(Path(sys.argv[1]), pause=60)
"""

KILLED_BEFORE_EVERY_CALL = """
def kill_before(number):
    '''Replace the calls that decide what is on the disk; the last moment is before call number.'''
    calls = 0
    for name in ("fsync", "replace", "rename", "unlink", "mkdir"):
        def call(*arguments, real=getattr(os, name), **options):
            nonlocal calls
            calls += 1
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)
        setattr(os, name, call)

number, killed = 0, True
while killed:
    number += 1
    folder = Path(sys.argv[1]) / str(number)
    child = os.fork()
    if child == 0:
        kill_before(number)
        write(folder)
        os._exit(0)
    killed = os.waitpid(child, 0)[1] == signal.SIGKILL
"""


def _python(script: str, argument: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITE + script, str(argument)],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_an_error_in_the_block_keeps_the_rows_written(tmp_path: Path) -> None:
    stop_after(tmp_path / "bank", 40)
    assert write_rest(tmp_path / "bank") == 40
    write_rest(tmp_path / "whole")
    assert contents(tmp_path / "bank") == contents(tmp_path / "whole")


def test_a_killed_process_is_continued(tmp_path: Path) -> None:
    with _python(KILLED_BY_HAND, tmp_path / "bank") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "30\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "bank").exists()
    with (tmp_path / ".bank.part" / "features.npy").open("ab") as file:
        file.write(b"half a chunk that was never recorded")

    assert write_rest(tmp_path / "bank") == 30
    write_rest(tmp_path / "whole")
    assert contents(tmp_path / "bank") == contents(tmp_path / "whole")


def test_a_kill_at_any_moment_leaves_a_bank_or_one_to_be_continued(tmp_path: Path) -> None:
    with _python(KILLED_BEFORE_EVERY_CALL, tmp_path) as process:
        process.communicate()
    assert process.returncode == 0
    write_rest(tmp_path / "whole")
    begun = []
    folders = sorted({path.name.removesuffix(".part").strip(".") for path in tmp_path.iterdir()})
    for folder in (tmp_path / name for name in folders if name != "whole"):
        if not folder.exists():
            begun.append(write_rest(folder))
        files = contents(folder)
        files.pop("progress.json", None)  # left by a kill just after the renaming
        assert files == contents(tmp_path / "whole")
    assert set(begun) == {0, 30, 60, 90}


def test_two_writers_at_once_are_refused(tmp_path: Path) -> None:
    features, indices = rows_of(SIZES, WIDTH)
    with bank_writer(tmp_path / "bank") as writer:
        writer.append(features[:50], indices[:50])
        with (
            pytest.raises(CannotWrite, match=r"another process is writing .*\.bank\.part: got a l"),
            bank_writer(tmp_path / "bank"),
        ):
            pass
        writer.append(features[50:], indices[50:])
    FeatureBank.open(tmp_path / "bank").verify()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"licence": "MIT"}, "does not match: got licence = ''; allowed: licence = 'MIT'. Use the"),
        ({"dtype": "float32"}, "got dtype = 'float16'; allowed: dtype = 'float32'"),
        ({"feature_dim": 17}, "got feature_dim = 16; allowed: feature_dim = 17"),
        ({"rows": 91}, "got rows = 90; allowed: rows = 91"),
        ({"names": ("ant", "bee", "cat")}, "got class_names = ['ant', 'bee', 'cow']; allowed: cl"),
    ],
)
def test_an_unfinished_bank_of_another_kind_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    stop_after(tmp_path / "bank", 60)
    facts = {"rows": ROWS, "feature_dim": WIDTH, **change}
    names = facts.pop("names", NAMES)
    manifest = manifest_of(facts.pop("rows"), facts.pop("feature_dim"), **facts)
    with pytest.raises(InvalidBank) as caught, BankWriter(tmp_path / "bank", manifest, names):
        pass
    assert message in str(caught.value)
    assert f"delete {tmp_path / '.bank.part'} to start again" in str(caught.value)
    assert write_rest(tmp_path / "bank") == 60  # the refusal harmed nothing


def test_an_unfinished_bank_that_lost_rows_is_refused(tmp_path: Path) -> None:
    stop_after(tmp_path / "bank", 60)
    path = tmp_path / ".bank.part" / "features.npy"
    os.truncate(path, 1000)
    message = r"lost rows that were recorded as written: got 1000 bytes; allowed: 2048 or more"
    with pytest.raises(InvalidBank, match=message):
        write_rest(tmp_path / "bank")


def test_a_progress_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    stop_after(tmp_path / "bank", 60)
    (tmp_path / ".bank.part" / "progress.json").write_text(json.dumps({"rows": 60}))
    with pytest.raises(InvalidBank, match=r"progress.json cannot be read: got KeyError: 'bank'"):
        write_rest(tmp_path / "bank")


def test_leaving_early_is_an_error_that_keeps_the_rows(tmp_path: Path) -> None:
    features, indices = rows_of(SIZES, WIDTH)
    message = "is not complete: got 60 rows; allowed: the 90 rows .* from row 60 on"
    with pytest.raises(InvalidBank, match=message), bank_writer(tmp_path / "bank") as writer:
        writer.append(features[:60], indices[:60])
    assert write_rest(tmp_path / "bank") == 60
