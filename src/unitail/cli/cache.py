"""Run `unitail cache`."""

import typer
from rich.filesize import decimal

from unitail.cli.console import print_cache_trouble
from unitail.encoders.cache import default_cache
from unitail.wording import numbered


def describe() -> None:
    """Print the folder, size and content of the cache."""
    cache = default_cache()
    content = cache.info()
    typer.echo(f"folder:  {content.folder}")
    typer.echo(f"size:    {decimal(content.bytes)} of at most {decimal(content.limit)}")
    typer.echo(f"vectors: {content.entries}")
    for encoder in content.encoders:
        name = encoder.name or "no name"
        typer.echo(f"{encoder.entries:>9}  {name} ({encoder.fingerprint[:12]})")
    print_cache_trouble(cache)


def remove_all(*, ask: bool) -> None:
    """Empty the cache."""
    cache = default_cache()
    entries = cache.info().entries
    if entries and ask:
        typer.confirm(f"Remove {numbered(entries, 'vector')} from {cache.folder}?", abort=True)
    typer.echo(f"Removed {numbered(cache.clear(), 'vector')} from {cache.folder}.")
