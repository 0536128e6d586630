import json
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
import typer
from typer.testing import CliRunner

from unitail.cli.main import app

HEAVY = ("torch", "numpy", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib", "transformers")


def _paths(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Give the words of every command and subcommand that can be typed."""
    yield path
    for name, sub in getattr(command, "commands", {}).items():
        yield from _paths(sub, (*path, name))


PATHS = list(_paths(typer.main.get_command(app)))
SCRIPT = f"""
import json, sys
from typer.testing import CliRunner
from unitail.cli.main import app

for path in json.loads(sys.argv[1]):
    result = CliRunner().invoke(app, [*path, "--help"])
    print(json.dumps([path, result.exit_code, [m for m in {HEAVY} if m in sys.modules]]))
"""


def test_every_command_is_found() -> None:
    names = {" ".join(path) for path in PATHS}
    assert {"", "predict", "evaluate", "train", "bench", "bank import", "cache clear"} <= names


def test_no_help_loads_a_heavy_package() -> None:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(PATHS)],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines == [[list(path), 0, []] for path in PATHS]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: " ".join(path) or "unitail")
def test_every_command_has_help_of_its_own(path: tuple[str, ...]) -> None:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*path, "--help"])
    assert result.exit_code == 0, result.output
    assert " ".join(["Usage:", "root", *path]) in result.output
    command = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]  # type: ignore[attr-defined]
    assert command.help
    assert command.help.splitlines()[0] in result.output


def test_the_commands_for_users_come_first() -> None:
    output = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["--help"]).output
    places = [output.index(f" {name} ") for name in ("predict", "evaluate", "demo", "bank", "info")]
    assert places == sorted(places)


def test_an_unknown_command_is_a_wrong_call() -> None:
    result = CliRunner().invoke(app, ["forecast"])
    assert result.exit_code == 2
    assert "No such command 'forecast'" in result.output
