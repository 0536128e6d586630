"""Run `unitail info`."""

import typer
from rich.filesize import decimal

from unitail.cli.console import print_cache_trouble
from unitail.encoders.cache import default_cache
from unitail.learners.pretrained import SHIPPED_DRAWS
from unitail.workflows import installation

COLUMN = 20
"""Width of the first column, in characters."""


def run() -> None:
    """Print installed versions, devices, models, encoders and the feature cache."""
    for name, version in installation.versions().items():
        _print_fact(name, version)
    _print_fact("device", installation.devices())
    for extra in installation.extras():
        _print_fact(f"extra {extra.name}", _state(extra))
    for name in SHIPPED_DRAWS:
        weights = installation.shipped_weights(name)
        if isinstance(weights, str):
            _print_fact(f"{name} model", weights)
        else:
            _print_fact(f"{name} model", f"{weights.number:,} weights, sha256 {weights.sha256}")
            _print_fact("", f"card: {weights.card}")
    for encoder in installation.encoders():
        ready = "ready" if encoder.ready else "-"
        _print_fact(encoder.name, f"{encoder.modality:<6} {ready:<6} {encoder.where}")
    cache = default_cache()
    content = cache.info()
    size = f"{decimal(content.bytes)} of at most {decimal(content.limit)}"
    _print_fact("cache", f"{content.folder}: {content.entries:,} vectors, {size}")
    print_cache_trouble(cache)


def _print_fact(name: str, fact: str) -> None:
    typer.echo(f"{name:<{COLUMN}} {fact}")


def _state(extra: installation.Extra) -> str:
    """Return the installed packages of an extra, or how to install the missing ones."""
    missing = [name for name, version in extra.packages.items() if version is None]
    if missing:
        return f"missing {', '.join(missing)}; pip install 'unitail[{extra.name}]'"
    return ", ".join(f"{name} {version}" for name, version in extra.packages.items())
