"""`unitail cache`: inspect and clear the cache of vectors."""

from typing import Annotated

import typer

from unitail.cli.plain_help import PlainCommand, PlainGroup

app = typer.Typer(
    cls=PlainGroup,
    no_args_is_help=True,
    help="Inspect or clear the feature cache, which stores the vectors of encoded files.",
)


@app.command(cls=PlainCommand)
def info() -> None:
    """Show where the cache is, how large it is and what it contains."""
    from unitail.cli.cache import describe

    describe()


@app.command(cls=PlainCommand)
def clear(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Remove all cached vectors; they are computed again when needed."""
    from unitail.cli.cache import remove_all

    remove_all(ask=not yes)
