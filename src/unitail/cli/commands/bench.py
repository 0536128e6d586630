"""`unitail bench`: all learners on the same episodes of many data sets."""

from pathlib import Path
from typing import Annotated

import typer

from unitail.cli.commands import options


def bench(
    suite: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="What to test on: all (every bank there is), banks, smoke (needs no data), mteb, "
            "intents, "
            "paper_in_domain, paper_cross_domain, paper_cross_modal, paper_resnet18, "
            "paper_extrapolation, paper_ablations, or your own .toml file.",
        ),
    ] = "all",
    banks: options.Banks = Path("banks"),
    runs: options.Runs = Path("runs"),
    out: Annotated[
        Path | None, typer.Option(help="Folder of results; results/bench_SUITE.")
    ] = None,
    encoder: options.Encoders = None,
    episodes: Annotated[
        int | None, typer.Option(min=2, help="Episodes of each data set; else as the suite says.")
    ] = None,
    shots: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Labelled examples of a class; else as the suite says."),
    ] = None,
    ways: Annotated[
        list[int] | None,
        typer.Option(min=2, help="Classes of an episode; else as the suite says."),
    ] = None,
    queries: Annotated[
        int | None,
        typer.Option(min=1, help="Queries of a class, on average; else as the suite says."),
    ] = None,
    shares: Annotated[
        str | None,
        typer.Option(
            help="Class shares of the queries: balanced, random (Dirichlet), or absent (half of "
            "the classes have none)."
        ),
    ] = None,
    concentration: Annotated[
        float | None, typer.Option(help="Concentration of unequal shares; else the suite's.")
    ] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only these learners, as often as needed; FILE.py:NAME is one of your own.",
        ),
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Draws that trained models average.")] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, ...")] = "auto",
    seed: Annotated[
        int | None, typer.Option(help="Decides the episodes; else the suite's.")
    ] = None,
    against: Annotated[
        str, typer.Option(help="Compare all with this learner; else with the strongest simple one.")
    ] = "",
    merge: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER", help="Take results over that another machine measured; repeatable."
        ),
    ] = None,
    processes: options.Processes = 1,
) -> None:
    """Measure all learners on the same episodes; the same command again goes on where it was.

    On several machines: `torchrun -m unitail bench ...` with one folder of results for all, or
    --merge of what each has measured.
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
