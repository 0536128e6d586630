"""The `unitail` command."""

import sys
import traceback
from typing import Annotated

import typer

import unitail
from unitail.cli.commands import bank, cache, data, studio
from unitail.cli.commands.bench import bench
from unitail.cli.commands.compare import compare
from unitail.cli.commands.demo import demo
from unitail.cli.commands.encode import encode
from unitail.cli.commands.evaluate import evaluate
from unitail.cli.commands.export import export
from unitail.cli.commands.fit import fit
from unitail.cli.commands.info import info
from unitail.cli.commands.mcp import mcp
from unitail.cli.commands.predict import predict
from unitail.cli.commands.reproduce import reproduce
from unitail.cli.commands.serve import serve
from unitail.cli.commands.train import train
from unitail.cli.commands.validity import validity
from unitail.cli.memory import (
    REFUSED,
    is_about_memory,
    is_scarce,
    print_no_memory,
    threads_end_the_command,
)
from unitail.cli.pipes import CLOSED_PIPE, outlast_closed_pipes
from unitail.cli.plain_help import PlainCommand, PlainGroup
from unitail.errors import UserError
from unitail.wording import excerpt, one_line, shown

RESEARCH = "Banks, training and benchmarks"
INSTALLATION = "This installation"
BUG = 70
"""Exit code of an unexpected error (EX_SOFTWARE in sysexits.h)."""

app = typer.Typer(
    cls=PlainGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
app.command(cls=PlainCommand)(predict)
app.command(cls=PlainCommand)(fit)
app.command(cls=PlainCommand)(evaluate)
app.add_typer(studio.app, name="studio")
app.command(cls=PlainCommand)(serve)
app.command(cls=PlainCommand)(mcp)
app.command(cls=PlainCommand)(export)
app.command(cls=PlainCommand)(demo)
app.command(cls=PlainCommand, rich_help_panel=RESEARCH)(encode)
app.command(cls=PlainCommand, rich_help_panel=RESEARCH)(train)
app.command(cls=PlainCommand, rich_help_panel=RESEARCH)(bench)
app.command(cls=PlainCommand, rich_help_panel=RESEARCH)(compare)
app.command(cls=PlainCommand, rich_help_panel=RESEARCH)(reproduce)
app.command(cls=PlainCommand, rich_help_panel=RESEARCH)(validity)
app.add_typer(data.app, name="data", rich_help_panel=RESEARCH)
app.add_typer(bank.app, name="bank", rich_help_panel=RESEARCH)
app.command(cls=PlainCommand, rich_help_panel=INSTALLATION)(info)
app.add_typer(cache.app, name="cache", rich_help_panel=INSTALLATION)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Classify images, texts, sounds and rows of tables from a few labelled examples."""
    if version:
        typer.echo(unitail.__version__)
        raise typer.Exit


def main() -> None:
    """Run a command; an error that the caller can fix prints one line and exits with 2.

    If the reader of the output goes away, the command still does everything else, and then exits
    with the code of a closed pipe.
    """
    outputs = outlast_closed_pipes()
    with threads_end_the_command():
        code = _run()
    sys.stdout.flush()
    for output in outputs:
        if output.trouble is not None:
            typer.echo(f"unitail: the output could not be written: {output.trouble}", err=True)
            code = code or REFUSED
    sys.stderr.flush()
    sys.exit(CLOSED_PIPE if any(output.was_closed for output in outputs) else code)


def refusal_of(error: OSError) -> UserError:
    """Return the error for a user when the system refuses a file, such as a name too long."""
    wrong = f"{shown(str(error.filename))} cannot be used" if error.filename else "a system error"
    return UserError(
        wrong,
        got=error.strerror or excerpt(str(error)),
        allowed="files and folders that can be opened",
        remedy="Check the name, the permissions and the free space on the disk.",
    )


def _run() -> int | str | None:
    """Run the command and return its exit code; 1 is reserved for commands, bugs get `BUG`."""
    try:
        app()
    except UserError as error:
        typer.echo(f"unitail: {one_line(str(error))}", err=True)
        return REFUSED
    except SystemExit as end:
        return end.code
    except Exception as error:
        if is_about_memory(error) or (not isinstance(error, OSError) and is_scarce()):
            print_no_memory(error)
            return REFUSED
        if isinstance(error, OSError):
            typer.echo(f"unitail: {refusal_of(error)}", err=True)
            return REFUSED
        traceback.print_exc()
        return BUG
    return 0
