"""The `unitail` command."""

import sys
from typing import Annotated

import typer

import unitail
from unitail.cli import bank
from unitail.cli.bench import bench
from unitail.cli.compare import compare
from unitail.cli.demo import demo
from unitail.cli.train import train
from unitail.errors import UserError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command()(demo)
app.command()(train)
app.command()(bench)
app.command()(compare)
app.add_typer(bank.app, name="bank")


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option(help="Print the version and leave.")] = False,
) -> None:
    """Universal few-shot learning in one forward pass."""
    if version:
        typer.echo(unitail.__version__)
        raise typer.Exit


def main() -> None:
    """Run a command; an error that the caller can mend is one line and exit code 2."""
    try:
        app()
    except UserError as error:
        typer.echo(f"unitail: {error}", err=True)
        sys.exit(2)
