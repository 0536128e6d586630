"""The campaigns of bench/reliability at their smallest size, so that they cannot rot."""

import os
from pathlib import Path

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
NOT_SCRIPTS = {"bombs", "campaign", "families", "hostile_arrays", "mutations", "seeds"}


def test_every_campaign_is_run_here() -> None:
    names = {path.stem for path in (ROOT / "bench" / "reliability").glob("*.py")}
    assert names - NOT_SCRIPTS == set(SCRIPTS)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_campaign_finds_no_fault(name: str, tmp_path: Path) -> None:
    page, output = tmp_path / "page.md", tmp_path / "output"
    path = ROOT / "bench" / "reliability" / f"{name}.py"
    code = finish(fork(SCRIPT, path, *SCRIPTS[name], "--out", page, output=output))
    assert code == 0, output.read_text()
    header, *rows = lines(page)
    assert rows
    assert all(len(row) == len(header) for row in rows)
    assert f"python bench/reliability/{name}.py " in page.read_text()
