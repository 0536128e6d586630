"""Run `unitail train`."""

import os
import sys
from pathlib import Path

import typer
from rich.console import Console

from unitail.cli.console import progress_bar
from unitail.learners.pretrained import model_folder
from unitail.training.data import build_sources
from unitail.training.processes import Processes
from unitail.training.recipe import Recipe, read_recipe
from unitail.training.run_log import Entry
from unitail.training.trainer import Trainer


def run(
    recipe: Path,
    folder: Path,
    *,
    banks: Path | None,
    start: str | None,
    cpu: bool,
    shard: bool,
    tensorboard: bool,
) -> None:
    """Train a model from a recipe, in this process or in those of torchrun."""
    processes = Processes(cpu=cpu, shard=shard)
    first = None if start is None else model_folder(start)
    run_training(
        read_recipe(recipe), folder, processes, banks=banks, start=first, tensorboard=tensorboard
    )
    if processes.count > 1:  # a process group may abort while Python shuts down
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def run_training(
    recipe: Recipe,
    folder: Path,
    processes: Processes,
    *,
    banks: Path | None = None,
    start: Path | None = None,
    tensorboard: bool = False,
) -> None:
    """Run a recipe under a progress bar; exit with the signal's code if a signal stops it."""
    console = Console(quiet=not processes.is_main)
    sources = build_sources(recipe, banks)
    steps = recipe.training.steps
    with progress_bar(console) as progress:
        bar = progress.add_task("starting", total=steps)
        shown: dict[str, str] = {}

        def show(entry: Entry) -> None:
            shown.update(_describe(entry))
            progress.update(bar, completed=entry["step"], description=", ".join(shown.values()))

        trainer = Trainer(
            recipe,
            folder,
            sources,
            processes=processes,
            start=start,
            on_entry=show,
            tensorboard=tensorboard,
        )
        trainer.run()
        progress.update(bar, completed=trainer.done)
    if trainer.started:
        console.print(f"Resumed at step {trainer.started} of {steps}.")
    if trainer.stopped_by is not None:
        console.print(f"Stopped at step {trainer.done} and saved; repeat the command to resume.")
        raise typer.Exit(128 + trainer.stopped_by)
    console.print(f"The model is in {trainer.folder.model}, the log in {folder / 'log.jsonl'}.")


def _describe(entry: Entry) -> dict[str, str]:
    """Return the parts of a log entry shown on the bar; the loss is relative to guessing."""
    if "validation" in entry:
        shots = "/".join(f"{100 * row['accuracy']:.1f}" for row in entry["validation"].values())
        return {"validation": f"valid {shots} %"}
    return {
        "loss": f"loss {entry['share_of_chance']:.2f}",
        "speed": f"{entry['episodes_per_second']:,.0f} ep/s",
    }
