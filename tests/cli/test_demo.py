from pathlib import Path

import pytest
from short_runs import write_recipe
from typer.testing import CliRunner

import unitail
from unitail.cli import main
from unitail.learners.checkpoint import load_model


def test_the_demo_trains_saves_and_compares(tmp_path: Path) -> None:
    model = {"projected_dim": 64, "hidden_dim": 72, "dictionary_size": 10}
    recipe = write_recipe(tmp_path / "recipe.toml", model=model)
    arguments = ["demo", str(recipe), "--out", str(tmp_path / "run")]
    options = ["--episodes", "2", "--draws", "1", "--report", str(tmp_path / "report.txt")]
    found = CliRunner().invoke(main.app, [*arguments, *options])
    assert found.exit_code == 0, found.output
    for word in ("Meta-training", "digits", "wine", "breast", "TAIL", "prototypes", "±", "95 %"):
        assert word in found.output
    assert load_model(tmp_path / "run" / "model").config.dictionary_size == 10
    report = (tmp_path / "report.txt").read_text()
    assert report.startswith("$ unitail demo")
    assert "digits" in report


def test_a_mistake_is_one_line_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["unitail", "demo", str(tmp_path / "none.toml")])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("unitail: the recipe cannot be read: got ")
    assert error.count("\n") == 1


def test_the_version_is_printed() -> None:
    found = CliRunner().invoke(main.app, ["--version"])
    assert found.output.strip() == unitail.__version__
