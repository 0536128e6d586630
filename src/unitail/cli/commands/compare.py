"""`unitail compare`: which of two learners is better, if either."""

from pathlib import Path
from typing import Annotated

import typer


def compare(
    results: Annotated[Path, typer.Argument(help="Folder that `unitail bench` wrote.")],
    first: Annotated[str, typer.Argument(metavar="A", help="A learner.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    group: Annotated[list[str] | None, typer.Option(help="Only these groups of data sets.")] = None,
    shots: Annotated[list[int] | None, typer.Option(help="Only these shots.")] = None,
    seed: Annotated[int, typer.Option(help="Of the resampling.")] = 0,
) -> None:
    """Compare two learners pair by pair on the same episodes, with a sentence for each group."""
    from unitail.cli.compare import run

    run(results, first, second, groups=group, shots=shots, seed=seed)
