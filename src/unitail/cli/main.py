"""The `unitail` command."""

import sys
from typing import Annotated

import typer

import unitail
from unitail.cli.commands import bank, cache
from unitail.cli.commands.bench import bench
from unitail.cli.commands.compare import compare
from unitail.cli.commands.demo import demo
from unitail.cli.commands.encode import encode
from unitail.cli.commands.evaluate import evaluate
from unitail.cli.commands.info import info
from unitail.cli.commands.predict import predict
from unitail.cli.commands.train import train
from unitail.errors import UserError

RESEARCH = "Banks, training and benchmarks"
INSTALLATION = "This installation"

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command()(predict)
app.command()(evaluate)
app.command()(demo)
app.command(rich_help_panel=RESEARCH)(encode)
app.command(rich_help_panel=RESEARCH)(train)
app.command(rich_help_panel=RESEARCH)(bench)
app.command(rich_help_panel=RESEARCH)(compare)
app.add_typer(bank.app, name="bank", rich_help_panel=RESEARCH)
app.command(rich_help_panel=INSTALLATION)(info)
app.add_typer(cache.app, name="cache", rich_help_panel=INSTALLATION)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.")
    ] = False,
) -> None:
    """Universal few-shot learning in one forward pass."""
    if version:
        typer.echo(unitail.__version__)
        raise typer.Exit


def main() -> None:
    """Run a command; an error that the caller can fix is one line and exit code 2."""
    try:
        app()
    except UserError as error:
        typer.echo(f"unitail: {error}", err=True)
        sys.exit(2)
