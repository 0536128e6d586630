import re

import pytest
from typer.testing import CliRunner

from unitail.cli.main import app

COMMANDS = [
    "predict",
    "fit",
    "evaluate",
    "studio open",
    "studio export",
    "serve",
    "mcp",
    "export",
    "demo",
    "encode",
    "train",
    "bench",
    "compare",
    "validity",
    "reproduce",
    "data list",
    "info",
    "bank import",
    "bank info",
    "bank check",
    "cache info",
    "cache clear",
]


def _help(command: str) -> str:
    result = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("command", ["", "studio", "data", "bank", "cache", *COMMANDS])
def test_no_help_text_contains_python(command: str) -> None:
    text = _help(command)
    assert re.findall(r"<\w[^>]*>|list\[", text) == []
    assert not re.search(r"\b(SUPPORT|QUERIES)\b", text)
    assert "{" not in text


def test_every_command_is_looked_at() -> None:
    names = {command.split()[0] for command in COMMANDS}
    rows = re.findall(r"^│ (\w+) ", _help("").replace("--help", ""), re.M)
    assert set(rows) == names


def test_options_say_what_to_write() -> None:
    words = " ".join(_help("predict").replace("│", " ").split())
    assert "--label-column COLUMN Column of a table that holds the labels." in words
    assert "--top NUMBER" in words
    assert "--joint Answer all files together" in words
    assert "ruins the answers" in words


def test_help_prints_the_same_twice() -> None:
    assert _help("predict") == _help("predict")
