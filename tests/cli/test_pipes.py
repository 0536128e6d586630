"""Commands whose output is not read to its end, in real pipes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.forks import COMMAND, finish, fork
from unitail.cli.pipes import CLOSED_PIPE

pytestmark = pytest.mark.slow
ROWS = 1000
"""Enough that their answers do not fit into a pipe."""


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    for name, number in (("support", 12), ("queries", ROWS)):
        lines = [f"n{n},{generator.normal(9 * (n % 2)):.4f},{'ab'[n % 2]}" for n in range(number)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,size,kind", *lines]))
    return tmp_path


@pytest.mark.parametrize("reader", ["head -1", "true"])
def test_files_are_whole_although_nobody_reads_the_screen(tables: Path, reader: str) -> None:
    screen, out, report = (tables / name for name in ("screen", "z.csv", "z.html"))
    os.mkfifo(screen)
    arguments = ["predict", tables / "support.csv", tables / "queries.csv", "--label-column=kind"]
    process = fork(COMMAND, *arguments, "--out", out, "--report", report, output=screen)
    seen = subprocess.run(
        ["sh", "-c", f"{reader} < {screen}"], capture_output=True, text=True, check=True
    )
    assert finish(process) == CLOSED_PIPE
    assert "Traceback" not in seen.stdout
    assert len(out.read_text().splitlines()) == ROWS + 1
    assert report.read_text().endswith("</html>\n")


def test_json_lines_may_be_cut_off(tables: Path) -> None:
    screen, errors = tables / "screen", tables / "errors"
    os.mkfifo(screen)
    errors.touch()
    code = f"import os, sys; os.dup2(os.open(sys.argv.pop(1), os.O_WRONLY), 2); {COMMAND}"
    arguments = ["predict", tables / "support.csv", tables / "queries.csv", "--label-column=kind"]
    process = fork(code, errors, *arguments, "--out", "-", "--no-cache", output=screen)
    with screen.open() as pipe:
        seen = subprocess.run(["head", "-2"], stdin=pipe, capture_output=True, check=True)
    assert [json.loads(line)["id"] for line in seen.stdout.splitlines()] == ["n0", "n1"]
    assert finish(process) == CLOSED_PIPE
    assert "Traceback" not in errors.read_text()
    assert "least certain first" in errors.read_text()


def test_all_json_lines_arrive(tables: Path, tmp_path: Path) -> None:
    arguments = ["predict", tables / "support.csv", tables / "queries.csv", "--label-column=kind"]
    output = tmp_path / "output"
    assert finish(fork(COMMAND, *arguments, "--out", "-", output=output)) == 0
    lines = [line for line in output.read_text().splitlines() if line.startswith("{")]
    assert [json.loads(line)["row"] for line in lines] == list(range(1, ROWS + 1))


def test_a_bug_is_not_reported_as_an_unreadable_file() -> None:
    code = "import unitail.cli.main as command; command.app = lambda: 1 / 0; command.main()"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 70
    assert "ZeroDivisionError" in result.stderr


@pytest.mark.parametrize(("where", "code"), [("> /dev/full", 2), (">&-", 0), (">&- 2>&-", 0)])
def test_a_full_disk_or_a_closed_stream_is_no_bug(tmp_path: Path, where: str, code: int) -> None:
    result = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m unitail --version {where}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == code
    full = "unitail: the output could not be written: [Errno 28] No space left on device\n"
    assert result.stderr == (full if code else "")


def test_answers_are_not_computed_for_an_output_that_is_closed(tables: Path) -> None:
    code = f"import sys; sys.stdout = None; {COMMAND}"
    arguments = ["predict", tables / "support.csv", "--label-column=kind", "--out", "-"]
    assert finish(fork(code, *arguments, output=tables / "output")) == 2
    said = (tables / "output").read_text()
    assert said.startswith("unitail: standard output is closed: got --out -; allowed: an open")


def test_names_that_are_not_text_are_reported_all_the_same(tables: Path) -> None:
    arguments = ["predict", tables / "support.csv", tables / "support.csv", "--label-column=kind"]
    out = os.fsdecode(bytes(tables / "answers") + b"\xff.csv")
    output = tables / "output"
    assert finish(fork(COMMAND, *arguments, "--out", out, output=output)) == 0
    assert "answers\\udcff.csv" in output.read_text().replace("\n", "")  # lines end at 80
    assert Path(out).exists()
