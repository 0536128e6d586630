import subprocess
import sys

import pytest
from typer.testing import CliRunner

from unitail.cli.main import COMMANDS, app, load_command


def test_help_lists_every_command_with_its_line() -> None:
    found = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["--help"])
    assert found.exit_code == 0
    for name, (_, line) in COMMANDS.items():
        assert name in found.output
        assert line in found.output


def test_help_does_not_wait_for_heavy_packages() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from unitail.cli.main import app;"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0;"
        "print([name for name in ('torch', 'numpy', 'sklearn', 'pandas') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_there_and_has_help_of_its_own(name: str) -> None:
    found = CliRunner(env={"COLUMNS": "200"}).invoke(app, [name, "--help"])
    assert found.exit_code == 0, found.output
    assert f" {name} " in found.output
    assert load_command(name).help


def test_an_unknown_command_is_a_wrong_call() -> None:
    found = CliRunner().invoke(app, ["forecast"])
    assert found.exit_code == 2
    assert "No such command 'forecast'" in found.output
