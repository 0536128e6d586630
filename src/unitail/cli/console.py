"""What several commands say to the user."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from unitail.encoders.cache import FeatureCache

TOLD = 10
"""Unreadable files on the screen."""


def say(console: "Console", *lines: str) -> None:
    """Print lines in which names are never read as markup."""
    for line in lines:
        console.print(line, markup=False, highlight=False)


def say_trouble(cache: "FeatureCache | None") -> None:
    """Say on the error stream why the cache was not used, if so."""
    if cache is not None and cache.trouble:
        typer.echo(f"unitail: {cache.trouble}", err=True)


def say_unreadable(lost: Sequence[str], *, all_in: str) -> None:
    """List what could not be read, on the error stream, and leave with 1 if there is any."""
    if not lost:
        return
    were = "was" if len(lost) == 1 else "were"
    typer.echo(f"unitail: {len(lost):,} could not be read and {were} skipped:", err=True)
    for line in lost[:TOLD]:
        typer.echo(f"  {line}", err=True)
    if len(lost) > TOLD:
        typer.echo(f"  and {len(lost) - TOLD:,} more; {all_in}.", err=True)
    raise typer.Exit(1)
