from pathlib import Path

import pytest
from typer.testing import CliRunner

from unitail.cli.main import app
from unitail.cli.validity import named_learners
from unitail.errors import UserError
from unitail.learners.checkpoint import save_model
from unitail.learners.registry import build_model, preset

TASKS = "shots = [1, 4]\n[[synthetic]]\nwidth = 3\nways = 2\n[[banks]]\nbank = 'a/b'\nways = 2\n"


def test_a_declared_set_of_tasks_becomes_a_report(tmp_path: Path) -> None:
    tasks, out, model = tmp_path / "tasks.toml", tmp_path / "out", tmp_path / "mine"
    tasks.write_text(TASKS)
    save_model(build_model(preset("tiny", layers=1)), model)
    words = ["validity", str(tasks), "--out", str(out), "--draws", "4", "--device", "cpu"]
    words += ["--learner", "proto_head_centred", "--learner", str(model)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "2 learners, 1 task, on cpu." in result.output
    assert "Missing: a/b, 2 classes." in result.output
    text = (out / "README.md").read_text()
    assert "unitail validity tasks.toml --learner proto_head_centred" in text
    assert "gaussian, width 3, 2 classes" in text
    assert "| mine |" in text
    assert (out / "report.html").exists()


def test_an_unknown_learner_is_refused_with_the_names_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown learner.*nobody.*proto_head_centred"):
        named_learners(["nobody"], tmp_path, "cpu")
