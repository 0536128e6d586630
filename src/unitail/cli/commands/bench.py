"""`unitail bench`: all learners on the same episodes of many data sets."""

from pathlib import Path
from typing import Annotated

import typer


def bench(
    suite: Annotated[str, typer.Option(help="What to test on: banks.")] = "banks",
    banks: Annotated[Path, typer.Option(help="Folder of feature banks.")] = Path("banks"),
    runs: Annotated[Path, typer.Option(help="Trained models: RUNS/*/model.")] = Path("runs"),
    out: Annotated[
        Path | None, typer.Option(help="Folder of results; results/bench_SUITE.")
    ] = None,
    episodes: Annotated[int, typer.Option(min=2, help="Episodes of each data set.")] = 600,
    shots: Annotated[
        list[int] | None, typer.Option(min=1, help="Labelled examples of a class; 1 and 5.")
    ] = None,
    ways: Annotated[int, typer.Option(min=2, help="Classes of an episode.")] = 5,
    queries: Annotated[int, typer.Option(min=1, help="Queries of a class, on average.")] = 15,
    shares: Annotated[
        str, typer.Option(help="Class shares of the queries: balanced or random (Dirichlet).")
    ] = "balanced",
    concentration: Annotated[float, typer.Option(help="Of the Dirichlet distribution.")] = 1.0,
    learner: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only these learners.")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Draws that trained models average.")] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, ...")] = "auto",
    seed: Annotated[int, typer.Option(help="Which episodes.")] = 0,
) -> None:
    """Measure all learners on the same episodes; the same command again goes on where it was."""
    from unitail.cli.bench import run

    run(
        suite=suite,
        banks=banks,
        runs=runs,
        folder=out or Path("results") / f"bench_{suite}",
        shots=shots or (1, 5),
        learners=learner or (),
        draws=draws,
        device=device,
        episodes=episodes,
        ways=ways,
        queries=queries,
        query_shares=shares,
        concentration=concentration,
        seed=seed,
    )
