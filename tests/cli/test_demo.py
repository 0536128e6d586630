from pathlib import Path

import pytest
from typer.testing import CliRunner

import unitail
from unitail.cli import main


def test_the_demo_compares_the_shipped_model(tmp_path: Path) -> None:
    options = ["--episodes", "2", "--report", str(tmp_path / "report.txt")]
    result = CliRunner().invoke(main.app, ["demo", *options])
    assert result.exit_code == 0, result.output
    for word in ("default model", "digits", "wine", "breast", "joint", "prototypes", "±", "95 %"):
        assert word in result.output
    assert "testing 24/24, " in result.stderr  # as there is no terminal to draw a bar on
    report = (tmp_path / "report.txt").read_text()
    assert report.startswith("$ unitail demo --episodes 2")
    rows = [line for line in report.splitlines() if "two circles" in line]
    assert "digits" in report
    alone, pooled, line, _ = (float(cell.split()[0]) for cell in rows[0].split("│")[3:7])
    assert min(alone, pooled) > line + 20, "a circle is no line"
    gains = report.partition("which gains ")[2].split()[0]
    assert float(gains) == pytest.approx(pooled - alone, abs=0.16), "of the first task"


def test_a_mistake_is_one_line_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["unitail", "train", str(tmp_path / "none.toml")])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("unitail: the recipe cannot be read: got ")
    assert error.count("\n") == 1


def test_the_version_is_printed() -> None:
    result = CliRunner().invoke(main.app, ["--version"])
    assert result.output.strip() == unitail.__version__
