"""The campaigns of bench/reliability at their smallest size, so that they cannot rot."""

import os
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from helpers.forks import finish, fork
from helpers.markdown import lines
from helpers.scripts import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the campaigns fork"),
]
SCRIPT = """
import runpy, sys
from pathlib import Path
sys.argv = sys.argv[1:]
sys.path.insert(0, str(Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
SCRIPTS = {
    "bad_input": ["--commands", 20, "--reads", 4, "--only", "tables_csv", "banks", "recipes"],
    "kills": ["--kills", 2, "--only", "bank", "cache"],
    "same_answers": ["--tasks", 2],
    "disk_and_memory": ["--steps", 1, "--only", "predict --out"],
    "soak": ["--seconds", 0.5],
}
ELSEWHERE = {"cluster"}
"""What it runs is in tests/unit/engines/test_ray_cluster.py: a second cluster would take long."""


def test_every_campaign_is_run_here() -> None:
    names = {path.stem for path in (ROOT / "bench" / "reliability").glob("*.py")}
    assert names - ELSEWHERE == set(SCRIPTS)


def test_rows_that_a_cluster_loses_or_does_twice_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    monkeypatch.syspath_prepend(str(ROOT / "bench" / "reliability"))
    differences = runpy.run_path(str(ROOT / "bench" / "reliability" / "cluster.py"))["differences"]
    wanted = {"rows": ["a", "b", "c"]}, {"probability": np.array([0.5, np.nan, 0.7])}
    assert differences(wanted, wanted) == (0, 0, 0.0, [])
    other = {"rows": ["a", "a", "c"]}, {"probability": np.array([0.5, np.nan, 0.9])}
    assert differences(wanted, other) == (1, 1, pytest.approx(0.2), ["rows"])


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_campaign_finds_no_fault(name: str, tmp_path: Path) -> None:
    page, output = tmp_path / "page.md", tmp_path / "output"
    path = ROOT / "bench" / "reliability" / f"{name}.py"
    code = finish(fork(SCRIPT, path, *SCRIPTS[name], "--out", page, output=output))
    assert code == 0, output.read_text()
    header, *rows = lines(page)
    assert rows
    assert all(len(row) == len(header) for row in rows)
    assert _names_command_and_version(page, name)


def _names_command_and_version(page: Path, name: str) -> bool:
    command = rf"    python bench/reliability/{name}\.py .*--out "
    version = r"(Commit [0-9a-f]{7,}(-dirty)?|Version \d[\w.]*) of \d{4}-\d\d-\d\d\. Written by"
    return all(re.search(each, page.read_text()) for each in (command, version))


@pytest.mark.parametrize("name", [*SCRIPTS, *ELSEWHERE])
def test_results_name_their_command_and_version(name: str) -> None:
    page = ROOT / "results" / "reliability" / f"{name}.md"
    assert _names_command_and_version(page, name)
    assert any(cell.strip().isdigit() for row in lines(page) for cell in row)


WORKERS = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from campaign.shards import Shard, Workers
root, seed, bad = Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

def work(name, place):
    with (root / "began").open("a") as file:
        file.write(name)
    assert name != bad, "it is bad"
    return {"name": name}

shards = [Shard(name, lambda place, name=name: work(name, place)) for name in "abc"]
workers = Workers(root / sys.argv[5], 1, root / "notes.jsonl", {"seed": seed})
print(json.dumps(workers.run(shards)))
if len(sys.argv) > 6:
    workers.finish()
"""


def test_a_campaign_that_was_stopped_resumes_with_the_rest(tmp_path: Path) -> None:
    folder, turns = ROOT / "bench" / "reliability", iter(range(9))

    def run(seed: int, bad: str, *more: str) -> tuple[int, str]:
        output, turn = tmp_path / "output", next(turns)
        code = finish(fork(WORKERS, folder, tmp_path, seed, bad, turn, *more, output=output))
        began = (tmp_path / "began").read_text()
        (tmp_path / "began").write_text("")
        return code, began

    assert run(0, "c") == (1, "abc")
    assert "c ended by 70" in (tmp_path / "output").read_text()
    assert run(0, "-") == (0, "c")
    assert '"a": {"name": "a"}' in (tmp_path / "output").read_text()
    assert run(1, "b") == (1, "ab")  # with other settings all is done anew
    with (tmp_path / "notes.jsonl").open("a") as file:
        file.write('["b", {"na')  # cut short
    assert run(1, "-", "finish") == (0, "bc")
    assert not (tmp_path / "notes.jsonl").exists()
