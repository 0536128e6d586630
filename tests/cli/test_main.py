import json
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
import typer
from typer.testing import CliRunner

from unitail.cli.main import app, main
from unitail.errors import UserError

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


def _main(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int | str | None, str]:
    """Run the command in this process; return its exit code and the error stream."""
    monkeypatch.setattr(sys, "argv", ["unitail", *arguments])
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code, capfd.readouterr().err


@pytest.mark.parametrize("command", ["predict", "fit --save x", "bank info", "bench --suite"])
def test_a_name_too_long_for_the_system_is_one_sentence(
    command: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    name = "a" * 5000 + (".toml" if "suite" in command else "")
    code, said = _main(monkeypatch, capfd, *command.split(), name)
    assert code == 2
    assert "File name too long" in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError("9 GB"), "unitail: out of memory: got 9 GB; allowed: as much as this"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory"),
            "unitail: out of memory",
        ),
        (
            ImportError("x.so: failed to map segment from shared object"),
            "unitail: out of memory",
        ),
        (
            UserError("a\nb\x1b[2J is odd", got=1, allowed="2"),
            "unitail: a b\ufffd[2J is odd: got 1",
        ),
        (OSError(28, "No space left", "a\nb"), "unitail: a\ufffdb cannot be used: got No space"),
        (OSError("odd"), "unitail: a system error: got odd; allowed: files"),
    ],
)
def test_what_the_system_refuses_is_one_sentence(
    error: Exception,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr("unitail.cli.main.app", fail)
    code, written = _main(monkeypatch, capfd)
    assert code == 2
    assert written.startswith(said)
    assert len(written.splitlines()) == 1
