"""`unitail cache`: what encoders have computed, kept so that it is not computed again."""

from typing import Annotated

import typer
from rich.filesize import decimal

from unitail.cli.console import say_trouble
from unitail.encoders.cache import default_cache

app = typer.Typer(no_args_is_help=True, help="Vectors of files, kept so that each is made once.")


@app.command()
def info() -> None:
    """Say where the cache is, how large it is and what it holds."""
    cache = default_cache()
    found = cache.info()
    typer.echo(f"folder:  {found.folder}")
    typer.echo(f"size:    {decimal(found.bytes)} of at most {decimal(found.limit)}")
    typer.echo(f"vectors: {found.entries}")
    for encoder in found.encoders:
        name = encoder.name or "no name"
        typer.echo(f"{encoder.entries:>9}  {name} ({encoder.fingerprint[:12]})")
    say_trouble(cache)


@app.command()
def clear(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before.")] = False,
) -> None:
    """Remove all vectors; those that are needed again are computed again."""
    cache = default_cache()
    entries = cache.info().entries
    if entries and not yes:
        typer.confirm(f"Remove {_vectors(entries)} from {cache.folder}?", abort=True)
    typer.echo(f"Removed {_vectors(cache.clear())} from {cache.folder}.")


def _vectors(number: int) -> str:
    return f"{number} vector{'' if number == 1 else 's'}"
