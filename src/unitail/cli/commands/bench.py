"""`unitail bench`: compare learners on the same episodes of many data sets."""

from pathlib import Path
from typing import Annotated

import typer

from unitail.cli.commands import options


def bench(
    suite: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="Suite of data sets and protocols: all (every bank in BANKS), banks, smoke (needs "
            "no data), mteb, intents, paper_in_domain, paper_cross_domain, paper_cross_modal, "
            "paper_resnet18, paper_extrapolation, paper_ablations, or a .toml file of your own.",
        ),
    ] = "all",
    banks: options.Banks = Path("banks"),
    runs: options.Runs = Path("runs"),
    out: Annotated[
        Path | None, typer.Option(help="Folder for results. Default: results/bench_SUITE.")
    ] = None,
    encoder: options.Encoders = None,
    episodes: Annotated[
        int | None,
        typer.Option(min=2, help="Episodes per data set. Default: as in the suite."),
    ] = None,
    shots: Annotated[
        list[int] | None,
        typer.Option(
            min=1, help="Labelled examples per class. Default: as in the suite. Repeatable."
        ),
    ] = None,
    ways: Annotated[
        list[int] | None,
        typer.Option(min=2, help="Classes per episode. Default: as in the suite. Repeatable."),
    ] = None,
    queries: Annotated[
        int | None,
        typer.Option(min=1, help="Queries per class, on average. Default: as in the suite."),
    ] = None,
    shares: Annotated[
        str | None,
        typer.Option(
            help="Class shares among the queries: balanced, random (Dirichlet), or absent (half of "
            "the classes have no queries). Default: as in the suite."
        ),
    ] = None,
    concentration: Annotated[
        float | None,
        typer.Option(
            help="Concentration of the Dirichlet distribution of unequal class shares. Default: as "
            "in the suite."
        ),
    ] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Test this learner only; FILE.py:NAME is one of your own. Default: all learners "
            "of the suite. Repeatable.",
        ),
    ] = None,
    draws: Annotated[
        int, typer.Option(min=1, help="Draws over which trained models average their answers.")
    ] = 1,
    device: options.Device = "auto",
    seed: Annotated[
        int | None, typer.Option(help="Seed of the episodes. Default: as in the suite.")
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            help="Learner that all others are compared with. Default: the strongest simple method."
        ),
    ] = "",
    merge: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER", help="Include results measured on another machine. Repeatable."
        ),
    ] = None,
    processes: options.Processes = 1,
) -> None:
    """Compare learners on the same episodes of many data sets.

    To resume an interrupted run, repeat the command. To use several machines,
    run `torchrun -m unitail bench ...` with one shared folder of results, or
    run each machine by itself and combine their results with --merge.
    """
    from unitail.cli.bench import run

    run(
        suite=suite,
        banks=banks,
        runs=runs,
        folder=out or Path("results") / f"bench_{Path(suite).stem}",
        encoders=encoder or (),
        learners=learner or (),
        draws=draws,
        device=device,
        against=against,
        merge=merge or (),
        processes=processes,
        episodes=episodes,
        shots=shots,
        ways=ways,
        queries=queries,
        query_shares=shares,
        concentration=concentration,
        seed=seed,
    )
