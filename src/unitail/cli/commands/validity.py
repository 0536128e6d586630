"""`unitail validity`: test on which tasks a learner is a valid learning algorithm."""

from pathlib import Path
from typing import Annotated

import typer

from unitail.cli.commands import options


def validity(
    tasks: Annotated[
        Path | None,
        typer.Argument(
            metavar="TASKS",
            help="TOML file that declares the tasks. Default: tasks with widths from 2 to 2048 and "
            "2 to 100 classes, tables, and the images, texts and sounds in --banks.",
        ),
    ] = None,
    banks: Annotated[Path | None, typer.Option(help="Folder of feature banks.")] = None,
    runs: options.Runs = Path("runs"),
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("validity"),
    curves: Annotated[
        Path | None,
        typer.Option(
            help="Folder where measured curves are stored and reused. Default: OUT/curves."
        ),
    ] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Learner to test: a name as in `unitail bench`, a run in RUNS, the folder of a "
            "model, or FILE.py:NAME for one of your own. Default: unitail, tail, tail_50w and "
            "simple methods. Repeatable.",
        ),
    ] = None,
    shots: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Examples per class. Default: as in TASKS. Repeatable."),
    ] = None,
    draws: Annotated[
        int, typer.Option(min=2, help="Support sets drawn for each number of examples.")
    ] = 60,
    queries: Annotated[
        int | None,
        typer.Option(
            min=1, help="Queries per class. Default: 15, fewer if there are many classes."
        ),
    ] = None,
    epsilon: Annotated[
        float, typer.Option(help="Residual risk to reach, where the Bayes risk is known.")
    ] = 0.1,
    level: Annotated[
        float,
        typer.Option(help="Probability of reporting even one rise in risk that is not real."),
    ] = 0.05,
    device: options.Device = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the tasks and examples.")] = 0,
) -> None:
    """Test whether more data ever makes a learner worse, from learning curves on many tasks."""
    from unitail.cli.validity import run

    run(
        tasks,
        banks=banks,
        runs=runs,
        folder=out,
        curves=curves,
        names=learner or (),
        shots=tuple(shots or ()),
        draws=draws,
        queries=queries,
        epsilon=epsilon,
        level=level,
        device=device,
        seed=seed,
    )
