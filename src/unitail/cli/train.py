"""`unitail train`: meta-train a model from a recipe."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from unitail.cli.progress import progress_bar
from unitail.training.processes import Processes
from unitail.training.recipe import Recipe, read_recipe
from unitail.training.runlog import Entry
from unitail.training.sources import build_sources
from unitail.training.trainer import Trainer


def train(
    recipe: Annotated[Path, typer.Argument(help="What to train, and how.")],
    out: Annotated[Path | None, typer.Option(help="Run folder [default: runs/RECIPE].")] = None,
    banks: Annotated[Path | None, typer.Option(help="Folder of feature banks.")] = None,
    cpu: Annotated[bool, typer.Option(help="Do not use a GPU.")] = False,
    shard: Annotated[
        bool, typer.Option(help="Shard the model over the processes (FSDP) instead of copying it.")
    ] = False,
    tensorboard: Annotated[bool, typer.Option(help="Log for TensorBoard as well.")] = False,
) -> None:
    """Meta-train a model; the same command again resumes a run that was interrupted."""
    plan = read_recipe(recipe)
    folder = out or Path("runs") / recipe.stem
    several = run_training(plan, folder, banks=banks, cpu=cpu, shard=shard, tensorboard=tensorboard)
    if several:  # a process group may abort while Python shuts down, after all is done
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def run_training(
    plan: Recipe,
    folder: Path,
    *,
    banks: Path | None = None,
    cpu: bool = False,
    shard: bool = False,
    tensorboard: bool = False,
) -> bool:
    """Run a recipe under a progress bar; say whether several processes did."""
    processes = Processes(cpu=cpu, shard=shard)
    console = Console(quiet=not processes.is_main)
    source, validation_source = build_sources(plan, banks)
    with progress_bar(console) as progress:
        bar = progress.add_task("starting", total=plan.training.steps)
        shown: dict[str, str] = {}

        def show(entry: Entry) -> None:
            shown.update(_describe(entry))
            progress.update(bar, completed=entry["step"], description=", ".join(shown.values()))

        trainer = Trainer(
            plan,
            folder,
            source,
            validation_source,
            processes=processes,
            on_entry=show,
            tensorboard=tensorboard,
        )
        trainer.run()
    if trainer.finished:
        console.print(f"The model is in {trainer.folder.model}.")
    else:
        console.print("Stopped and saved; the same command goes on from here.")
    return processes.count > 1


def _describe(entry: Entry) -> dict[str, str]:
    """Pick what the bar shows of a log entry."""
    if "validation" in entry:
        shots = "/".join(f"{100 * row['accuracy']:.1f}" for row in entry["validation"].values())
        return {"validation": f"valid {shots} %"}
    return {
        "loss": f"loss {entry['share_of_chance']:.2f} of chance",
        "speed": f"{entry['episodes_per_second']:,.0f} ep/s",
    }
