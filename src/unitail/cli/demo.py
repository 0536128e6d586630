"""`unitail demo`: learn to learn from synthetic tasks, then solve real ones."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from unitail.baselines.proto_head import ProtoHead, PrototypeVariant
from unitail.evaluation.evaluate import evaluate
from unitail.framework.learner import Inference
from unitail.learners.checkpoint import save_model
from unitail.tail.learner import TailLearner
from unitail.tail.model import Tail
from unitail.tasks.bundled import bundled_tasks
from unitail.training.recipe import Recipe, read_recipe
from unitail.training.trainer import StepReport, meta_train

SHOTS = (1, 5)
SMOOTHING = 0.95


def demo(
    recipe: Annotated[Path, typer.Argument(help="What to train, and how.")] = Path(
        "recipes/tiny.toml"
    ),
    out: Annotated[Path, typer.Option(help="Folder for the trained model.")] = Path("runs/tiny"),
    episodes: Annotated[int, typer.Option(min=2, help="Test episodes for each number.")] = 300,
    draws: Annotated[int, typer.Option(min=1, help="Draws that TAIL averages.")] = 8,
    report: Annotated[Path | None, typer.Option(help="File to write the table to as well.")] = None,
) -> None:
    """Meta-train a small TAIL on synthetic tasks, then solve few-shot tasks from real data."""
    console = Console()
    plan = read_recipe(recipe)
    model = Tail(plan.model, seed=plan.training.seed)
    weights = sum(parameter.numel() for parameter in model.parameters())
    console.print(f"Meta-training a TAIL of {weights:,} weights on Gaussian classes ({recipe}).")
    with _progress(console) as progress:
        _train(model, plan, progress)
    save_model(model, out)
    console.print(f"The model is in {out}.\n")
    learners: dict[str, Inference] = {
        f"TAIL, {model.config.visibility}, {draws} draws": TailLearner(model, num_draws=draws),
        "prototypes": ProtoHead(),
        "prototypes, centred cosine": ProtoHead(PrototypeVariant.CENTRED),
    }
    with _progress(console) as progress:
        table = _compare(learners, episodes, progress)
    console.print(table)
    if report is not None:
        _write(table, report, f"unitail demo {recipe} --episodes {episodes} --draws {draws}")


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


def _train(model: Tail, plan: Recipe, progress: Progress) -> None:
    """Train with a bar that shows the loss as a share of that of guessing."""
    bar = progress.add_task("loss 1.00 of chance", total=plan.training.steps)
    smooth = 1.0

    def show(report: StepReport) -> None:
        nonlocal smooth
        share = report.loss / math.log(report.ways)
        smooth = SMOOTHING * smooth + (1 - SMOOTHING) * share
        progress.update(bar, completed=report.step, description=f"loss {smooth:.2f} of chance")

    meta_train(model, plan.tasks, plan.training, on_step=show)


def _compare(learners: Mapping[str, Inference], episodes: int, progress: Progress) -> Table:
    """Measure every learner on the same episodes of every bundled task."""
    table = Table(
        "task", "width", "classes", "shots", *learners, title="Accuracy in %, 95 % interval"
    )
    table.caption = f"{episodes} episodes each, the same for all learners; 15 queries a class"
    tasks = bundled_tasks()
    bar = progress.add_task("testing", total=len(tasks) * len(SHOTS) * len(learners))
    for task in tasks:
        for shots in SHOTS:
            cells = []
            for learner in learners.values():
                found = evaluate(learner, task, shots=shots, episodes=episodes)
                cells.append(f"{100 * found.mean:.1f} ± {100 * found.half_width:.1f}")
                progress.advance(bar)
            table.add_row(task.name, str(task.feature_dim), str(task.ways), str(shots), *cells)
    return table


def _write(table: Table, path: Path, command: str) -> None:
    """Keep the table as plain text, with the command that made it."""
    with path.open("w") as file:
        Console(file=file, width=100).print(f"$ {command}", table, sep="\n")
