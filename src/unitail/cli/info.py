"""`unitail info`: versions, device, weights, encoders and cache."""

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from unitail.workflows.installation import Extra

COLUMN = 20
"""Letters before the facts."""


def info() -> None:
    """Say what is installed, where the weights are and what the feature cache holds."""
    from rich.filesize import decimal

    from unitail.cli.console import say_trouble
    from unitail.encoders.cache import default_cache
    from unitail.workflows import installation

    for name, version in installation.versions().items():
        _tell(name, version)
    _tell("device", installation.devices())
    for extra in installation.extras():
        _tell(f"extra {extra.name}", _state(extra))
    weights = installation.shipped_weights()
    if isinstance(weights, str):
        _tell("default model", weights)
    else:
        _tell("default model", f"{weights.number:,} weights, sha256 {weights.sha256}")
        _tell("", f"card: {weights.card}")
    for encoder in installation.encoders():
        ready = "ready" if encoder.ready else "-"
        _tell(encoder.name, f"{encoder.modality:<6} {ready:<6} {encoder.where}")
    cache = default_cache()
    found = cache.info()
    size = f"{found.entries:,} vectors, {decimal(found.bytes)} of at most {decimal(found.limit)}"
    _tell("cache", f"{found.folder}: {size}")
    say_trouble(cache)


def _tell(name: str, fact: str) -> None:
    typer.echo(f"{name:<{COLUMN}} {fact}")


def _state(extra: "Extra") -> str:
    """List the packages of an extra, or those that are missing."""
    if not extra.complete:
        missing = [name for name, version in extra.packages.items() if version is None]
        return f"missing {', '.join(missing)}; pip install 'unitail[{extra.name}]'"
    return ", ".join(f"{name} {version}" for name, version in extra.packages.items())
