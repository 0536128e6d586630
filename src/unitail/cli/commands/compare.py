"""`unitail compare`: compare two learners on the results of a benchmark."""

from pathlib import Path
from typing import Annotated

import typer


def compare(
    results: Annotated[Path, typer.Argument(help="Folder of results written by `unitail bench`.")],
    first: Annotated[str, typer.Argument(metavar="A", help="Name of a learner.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Name of the learner to compare.")],
    group: Annotated[
        list[str] | None,
        typer.Option(help="Only this group of data sets. Default: all groups. Repeatable."),
    ] = None,
    shots: Annotated[
        list[int] | None,
        typer.Option(help="Only this number of shots. Default: all. Repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the resampling.")] = 0,
) -> None:
    """Compare two learners on the same episodes, group by group."""
    from unitail.cli.compare import run

    run(results, first, second, groups=group, shots=shots, seed=seed)
