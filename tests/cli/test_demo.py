from pathlib import Path

import pytest
from typer.testing import CliRunner

import unitail
from unitail.cli import main
from unitail.learners.checkpoint import load_model

RECIPE = """
[model]
preset = "tiny"
[tasks]
feature_dims = [8]
[training]
steps = 2
tokens_per_step = 100
ways = [2, 3]
shots = [1, 2]
queries = 2
learning_rate = 1e-3
"""


def test_the_demo_trains_saves_and_compares(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    arguments = ["demo", str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "model")]
    found = CliRunner().invoke(main.app, [*arguments, "--episodes", "2", "--draws", "1"])
    assert found.exit_code == 0, found.output
    for word in ("Meta-training", "digits", "wine", "breast", "TAIL", "prototypes", "±", "95 %"):
        assert word in found.output
    assert load_model(tmp_path / "model").config.dictionary_size == 16


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
