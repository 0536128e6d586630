"""`unitail demo`: compare the shipped model with simple methods on real data."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    episodes: Annotated[
        int, typer.Option(min=2, help="Test episodes behind each number in the table.")
    ] = 300,
    report: Annotated[
        Path | None, typer.Option(help="Also write the tables to this text file.")
    ] = None,
) -> None:
    """Compare the default model with simple methods on few-shot tasks from real data."""
    from unitail.cli.demo import run

    run(episodes, report)
