"""`unitail train`: meta-train a model from a recipe."""

from pathlib import Path
from typing import Annotated

import typer


def train(
    recipe: Annotated[Path, typer.Argument(help="What to train, and how.")],
    out: Annotated[
        Path | None, typer.Option(help="Run folder; else runs/NAME, of the recipe.")
    ] = None,
    banks: Annotated[Path | None, typer.Option(help="Folder of feature banks.")] = None,
    start: Annotated[
        str | None,
        typer.Option(help="Begin with the weights of a model: a shipped name, or a folder."),
    ] = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="Do not use a GPU.")] = False,
    shard: Annotated[
        bool, typer.Option("--shard", help="Shard the model over the processes (FSDP).")
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Log for TensorBoard as well.")
    ] = False,
) -> None:
    """Meta-train a model; the same command again resumes a run that was interrupted."""
    from unitail.cli.train import run

    run(
        recipe,
        out or Path("runs") / recipe.stem,
        banks=banks,
        start=start,
        cpu=cpu,
        shard=shard,
        tensorboard=tensorboard,
    )
