"""`unitail reproduce` from end to end: data are measured, killed, resumed and reported."""

import signal
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from helpers.forks import COMMAND, KILLED_AFTER_A_RESULT, finish, fork
from unitail.cli import main
from unitail.errors import UserError


def _options(folder: Path, *more: str) -> list[str]:
    places = [f"--{name}={folder / name}" for name in ("banks", "runs", "out")]
    learners = ["--learner=proto_head_paper", "--learner=linear_probe_shrunk"]
    return ["reproduce", *places, *learners, "--device=cpu", *more]


@pytest.mark.slow
def test_killed_and_resumed_it_measures_nothing_twice(tmp_path: Path) -> None:
    options = _options(tmp_path, "--suite=smoke", "--suite=paper_cross_modal", "--episodes=12")
    parts = tmp_path / "out" / "smoke" / "parts"
    killed = fork(KILLED_AFTER_A_RESULT, *options, output=tmp_path / "first.log")
    assert finish(killed) == -signal.SIGKILL, (tmp_path / "first.log").read_text()
    [path] = parts.glob("*.parquet")
    done = pd.read_parquet(path)
    assert list(done["learner"]) == ["proto_head_paper"] * 12
    assert finish(fork(COMMAND, *options, output=tmp_path / "second.log")) == 0
    resumed = pd.read_parquet(path)
    assert resumed[:12].equals(done)  # their seconds, too, which no second try would have
    assert list(resumed["learner"][12:]) == ["linear_probe_shrunk"] * 12
    said = (tmp_path / "second.log").read_text()
    assert "smoke: measured on 3 data sets." in said
    assert "paper_cross_modal: skipped, none of its data are here" in said
    text = (tmp_path / "out" / "README.md").read_text()
    page = (tmp_path / "out" / "report.html").read_text()
    for words in ("Cross-modal generalisation", "89.33 (0.44)", "unitail data prepare imdb"):
        assert words in text
        assert words in page
    assert "unitail reproduce --banks BANKS --runs RUNS --suite smoke" in text
    assert str(tmp_path) not in text + page


def test_a_wrong_suite_is_reported_before_anything_is_measured(tmp_path: Path) -> None:
    result = CliRunner().invoke(main.app, _options(tmp_path, "--suite=smoke", "--suite=other"))
    assert isinstance(result.exception, UserError)
    assert "unknown suite: got other" in str(result.exception)
    assert not (tmp_path / "out").exists()
