import pytest
from typer.testing import CliRunner

from unitail.cli import mcp
from unitail.cli.main import app
from unitail.errors import InvalidInput, MissingExtra


def test_a_missing_path_is_reported() -> None:
    result = CliRunner().invoke(app, ["mcp", "nothing-here"])
    assert isinstance(result.exception, InvalidInput), result.output


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mcp.server.mcpserver", None)
    with pytest.raises(MissingExtra, match=r"pip install 'unitail\[mcp\]'"):
        mcp.run(["x"], save_changes=False, device="cpu")
