import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from helpers.short_runs import write_recipe
from unitail.cli import main
from unitail.training.trainer import Trainer


def test_training_says_where_the_model_is_and_that_it_was_done_before(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "recipe.toml")
    arguments = ["train", str(recipe), "--out", str(tmp_path / "run"), "--cpu"]
    first, again = (CliRunner().invoke(main.app, arguments) for _ in range(2))
    assert first.exit_code == again.exit_code == 0, first.output
    assert "The model is in" in first.output
    assert "resumed" not in first.output
    assert "Resumed at step 12 of 12." in again.output


def test_a_run_that_was_stopped_leaves_with_the_signals_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = write_recipe(tmp_path / "recipe.toml")
    monkeypatch.setattr(Trainer, "_should_stop", lambda self, stop, done: done == 3)
    result = CliRunner().invoke(main.app, ["train", str(recipe), "--out", str(tmp_path / "run")])
    assert result.exit_code == 128 + signal.SIGTERM
    assert "Stopped at step 3 and saved" in result.output


def test_training_begins_with_a_model_that_is_named(tmp_path: Path) -> None:
    recipe, run = write_recipe(tmp_path / "recipe.toml"), tmp_path / "run"
    arguments = ["train", str(recipe), "--cpu", "--out"]
    assert CliRunner().invoke(main.app, [*arguments, str(run)]).exit_code == 0
    start = ["--start", str(run / "model")]
    result = CliRunner().invoke(main.app, [*arguments, str(tmp_path / "second"), *start])
    assert result.exit_code == 0, result.output
    assert '"start"' in (tmp_path / "second" / "recipe.json").read_text()
    shipped = CliRunner().invoke(main.app, [*arguments, str(tmp_path / "third"), "--start", "tail"])
    assert "do not fit the recipe's" in str(shipped.exception)
