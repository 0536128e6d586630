"""`unitail cache`: what encoders have computed, kept so that it is not computed again."""

from typing import Annotated

import typer

from unitail.cli.plain_help import PlainCommand, PlainGroup

app = typer.Typer(
    cls=PlainGroup, no_args_is_help=True, help="Vectors of files, kept so that each is made once."
)


@app.command(cls=PlainCommand)
def info() -> None:
    """Say where the cache is, how large it is and what it holds."""
    from unitail.cli.cache import describe

    describe()


@app.command(cls=PlainCommand)
def clear(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
) -> None:
    """Remove all vectors; those that are needed again are computed again."""
    from unitail.cli.cache import remove_all

    remove_all(ask=not yes)
