"""The `unitail` command."""

import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import unitail
from unitail.errors import UserError

COMMANDS = {
    "predict": ("predict:predict", "Label files, texts or rows from a few labelled ones."),
    "evaluate": ("evaluate:evaluate", "Estimate how well your own labelled examples teach."),
    "demo": ("demo:demo", "Solve few-shot tasks from real data with the shipped model."),
    "encode": ("encode:encode", "Turn labelled files into a feature bank."),
    "bank": ("bank:app", "Import, list and check feature banks."),
    "train": ("train:train", "Meta-train a model from a recipe."),
    "bench": ("bench:bench", "Measure all learners on the same episodes of many data sets."),
    "compare": ("compare:compare", "Compare two learners of a benchmark, episode by episode."),
    "cache": ("cache:app", "Look at the cache of features, or empty it."),
    "info": ("info:info", "Tell versions, device, weights, encoders and cache."),
}
"""Where each command is, under `unitail.cli`, and what it does in a line."""


class LazyGroup(TyperGroup):
    """Loads a command when it is called, so that help does not wait for torch."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - click's context
        """Name the commands, most wanted first."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:  # noqa: ANN401
        """Return what help needs to know of a command."""
        if cmd_name not in COMMANDS:
            return None
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name][1])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401
        """Find the command that is called, and load it."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, load_command(str(name)), rest


def load_command(name: str) -> Any:  # noqa: ANN401 - click's command
    """Import a command, or a group of them."""
    module, attribute = COMMANDS[name][0].split(":")
    found = getattr(import_module(f"unitail.cli.{module}"), attribute)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False)
        alone.command(name)(found)
        found = alone
    return typer.main.get_command(found)


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
    """Run a command; an error that the caller can mend is one line and exit code 2."""
    try:
        app()
    except UserError as error:
        typer.echo(f"unitail: {error}", err=True)
        sys.exit(2)
