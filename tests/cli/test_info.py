from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import unitail
from unitail.cli.commands.info import info
from unitail.learners import pretrained
from unitail.workflows import installation

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(info)


def test_versions_encoders_and_extras_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNITAIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(installation, "EXTRAS", {"odd": ("no-such-package",), "fine": ("numpy",)})
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 0, result.output
    lines = dict(line.split(maxsplit=1) for line in result.output.splitlines() if line[0] != " ")
    assert lines["unitail"] == unitail.__version__
    assert lines["log-mel"].split() == ["audio", "ready", "needs", "no", "weights"]
    assert pretrained.fingerprint() in result.output
    assert "no-such-package; pip install 'unitail[odd]'" in result.output
    assert "extra fine           numpy " in result.output
    assert lines["cache"].startswith(f"{tmp_path / 'cache'}: 0 vectors, 0 bytes of at most ")


def test_problems_are_reported_and_do_not_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "features-1.sqlite").mkdir()
    monkeypatch.setenv("UNITAIL_CACHE", str(tmp_path))
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 0
    assert "the shipped model cannot be found" in result.stdout
    assert "cannot be used" in result.stderr
