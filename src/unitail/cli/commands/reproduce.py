"""`unitail reproduce`: reproduce the paper's tables with the data on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from unitail.cli.commands import options


def reproduce(
    suite: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Suite to measure; `smoke` needs no data. Default: all suites of the paper, and "
            "`validity`. Repeatable.",
        ),
    ] = None,
    banks: options.Banks = Path("banks"),
    runs: options.Runs = Path("runs"),
    out: Annotated[Path, typer.Option(help="Folder for the results and the report.")] = Path(
        "results/reproduction"
    ),
    encoder: options.Encoders = None,
    episodes: Annotated[
        int | None, typer.Option(min=2, help="Episodes per data set. Default: as in the suites.")
    ] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Test this learner only. Default: all learners of the suites. Repeatable.",
        ),
    ] = None,
    device: options.Device = "auto",
    processes: options.Processes = 1,
) -> None:
    """Reproduce the paper's experiments with the feature banks on this machine.

    Writes report.html, a self-contained page, and README.md: tables in the
    layout of the paper, with its numbers below ours. The report says how to get
    data that are missing.

    To resume an interrupted run, repeat the command.
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
