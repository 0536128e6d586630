"""`unitail train`: meta-train a model from a recipe."""

from pathlib import Path
from typing import Annotated

import typer


def train(
    recipe: Annotated[
        Path, typer.Argument(help="TOML file with the model, the data and the training settings.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the run. Default: runs/NAME, with the recipe's file name."),
    ] = None,
    banks: Annotated[Path | None, typer.Option(help="Folder of feature banks to train on.")] = None,
    start: Annotated[
        str | None,
        typer.Option(help="Start from the weights of this model: a shipped name, or a folder."),
    ] = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="Train on the CPU.")] = False,
    shard: Annotated[
        bool, typer.Option("--shard", help="Shard the model over the processes (FSDP).")
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also log to TensorBoard.")
    ] = False,
) -> None:
    """Meta-train a model from a recipe. To resume an interrupted run, repeat the command."""
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
