"""Run `unitail info`."""

import typer
from rich.filesize import decimal

from unitail.cli.console import say_trouble
from unitail.encoders.cache import default_cache
from unitail.learners.pretrained import SHIPPED_DRAWS
from unitail.workflows import installation

COLUMN = 20
"""Characters before the facts."""


def run() -> None:
    """Print what is installed, where the weights are and what the feature cache holds."""
    for name, version in installation.versions().items():
        _tell(name, version)
    _tell("device", installation.devices())
    for extra in installation.extras():
        _tell(f"extra {extra.name}", _state(extra))
    for name in SHIPPED_DRAWS:
        weights = installation.shipped_weights(name)
        if isinstance(weights, str):
            _tell(f"{name} model", weights)
        else:
            _tell(f"{name} model", f"{weights.number:,} weights, sha256 {weights.sha256}")
            _tell("", f"card: {weights.card}")
    for encoder in installation.encoders():
        ready = "ready" if encoder.ready else "-"
        _tell(encoder.name, f"{encoder.modality:<6} {ready:<6} {encoder.where}")
    cache = default_cache()
    content = cache.info()
    size = f"{decimal(content.bytes)} of at most {decimal(content.limit)}"
    _tell("cache", f"{content.folder}: {content.entries:,} vectors, {size}")
    say_trouble(cache)


def _tell(name: str, fact: str) -> None:
    typer.echo(f"{name:<{COLUMN}} {fact}")


def _state(extra: installation.Extra) -> str:
    """List the packages of an extra, or those that are missing."""
    missing = [name for name, version in extra.packages.items() if version is None]
    if missing:
        return f"missing {', '.join(missing)}; pip install 'unitail[{extra.name}]'"
    return ", ".join(f"{name} {version}" for name, version in extra.packages.items())
