"""`unitail demo`: the shipped model on real tasks, beside simple methods."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    episodes: Annotated[int, typer.Option(min=2, help="Test episodes for each number.")] = 300,
    report: Annotated[Path | None, typer.Option(help="File to write the table to as well.")] = None,
) -> None:
    """Solve few-shot tasks from real data with the model that comes with the package."""
    from unitail.cli.demo import run

    run(episodes, report)
