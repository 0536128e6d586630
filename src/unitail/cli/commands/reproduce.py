"""`unitail reproduce`: the paper's tables from the data at hand."""

from pathlib import Path
from typing import Annotated

import typer

from unitail.cli.commands import options


def reproduce(
    suite: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE",
            help="What to measure, as often as needed; else all of the paper's, and `validity`."
            " `smoke` needs no data.",
        ),
    ] = None,
    banks: options.Banks = Path("banks"),
    runs: options.Runs = Path("runs"),
    out: Annotated[Path, typer.Option(help="Folder of results and of the report.")] = Path(
        "results/reproduction"
    ),
    encoder: options.Encoders = None,
    episodes: Annotated[
        int | None, typer.Option(min=2, help="Episodes of each data set; else as the suites say.")
    ] = None,
    learner: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only these learners.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, ...")] = "auto",
    processes: options.Processes = 1,
) -> None:
    """Measure what the data at hand allow of the paper's experiments; say how to get the rest.

    Writes report.html, which needs nothing else, and README.md: tables as the paper prints them,
    with its numbers below ours. The same command goes on where it was broken off.
    """
    from unitail.cli.reproduce import run

    run(
        suites=suite or (),
        banks=banks,
        runs=runs,
        folder=out,
        encoders=encoder or (),
        episodes=episodes,
        learners=learner or (),
        device=device,
        processes=processes,
    )
