"""`unitail validity`: who is a valid learning algorithm, and on which tasks."""

from pathlib import Path
from typing import Annotated

import typer


def validity(
    tasks: Annotated[
        Path | None,
        typer.Argument(
            metavar="TASKS",
            help="TOML file that declares the tasks; else widths 2 to 2048, 2 to 100 classes, "
            "tables, and images, texts and sounds where --banks has them.",
        ),
    ] = None,
    banks: Annotated[Path | None, typer.Option(help="Folder of feature banks.")] = None,
    runs: Annotated[Path, typer.Option(help="Trained models: RUNS/*/model.")] = Path("runs"),
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("validity"),
    curves: Annotated[
        Path | None,
        typer.Option(
            help="Folder where curves are kept as they are measured, and found; else OUT/curves."
        ),
    ] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A learner, as often as needed: a name as in `unitail bench`, a run in RUNS, the "
            "folder of a model, or FILE.py:NAME, your own; else unitail, tail, tail_50w and simple "
            "methods.",
        ),
    ] = None,
    shots: Annotated[
        list[int] | None, typer.Option(min=1, help="Examples of a class; else those of TASKS.")
    ] = None,
    draws: Annotated[int, typer.Option(min=2, help="Support sets of each size.")] = 60,
    queries: Annotated[
        int | None,
        typer.Option(min=1, help="Queries of a class; else 15, and fewer of many classes."),
    ] = None,
    epsilon: Annotated[
        float, typer.Option(help="The residual risk to reach, where the Bayes risk is known.")
    ] = 0.1,
    level: Annotated[float, typer.Option(help="The chance of even one false rise.")] = 0.05,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, ...")] = "auto",
    seed: Annotated[int, typer.Option(help="Which tasks and examples.")] = 0,
) -> None:
    """Estimate learning curves on many tasks: whether more data ever hurt."""
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
