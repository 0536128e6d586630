"""`unitail demo`: learn to learn from synthetic tasks, then solve real ones."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from unitail.baselines.proto_head import ProtoHead, PrototypeVariant
from unitail.cli.progress import progress_bar
from unitail.cli.train import run_training
from unitail.evaluation.evaluate import evaluate_all
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.result import Evaluation, Outcome
from unitail.framework.learner import Inference
from unitail.learners.checkpoint import load_model
from unitail.learners.in_context import InContextLearner
from unitail.tasks.bundled import bundled_tasks
from unitail.training.processes import Processes
from unitail.training.recipe import read_recipe

SHOTS = (1, 5)


def demo(
    recipe: Annotated[Path, typer.Argument(help="What to train, and how.")] = Path(
        "recipes/tiny.toml"
    ),
    out: Annotated[Path | None, typer.Option(help="Run folder; runs/NAME of the recipe.")] = None,
    episodes: Annotated[int, typer.Option(min=2, help="Test episodes for each number.")] = 300,
    draws: Annotated[int, typer.Option(min=1, help="Draws that TAIL averages.")] = 8,
    report: Annotated[Path | None, typer.Option(help="File to write the table to as well.")] = None,
) -> None:
    """Meta-train a small TAIL on synthetic tasks, then solve few-shot tasks from real data."""
    console = Console()
    out = out or Path("runs") / recipe.stem
    console.print(f"Meta-training a TAIL on synthetic tasks ({recipe}).")
    run_training(read_recipe(recipe), out, Processes(cpu=True))
    model = load_model(out / "model")
    weights = sum(parameter.numel() for parameter in model.parameters())
    console.print(f"It has {weights:,} weights. Now real tasks, of widths never trained on:\n")
    learners: dict[str, Inference] = {
        f"TAIL, {draws} draws": InContextLearner(model, num_draws=draws),
        "prototypes": ProtoHead(),
        "prototypes, centred cosine": ProtoHead(PrototypeVariant.CENTRED),
    }
    with progress_bar(console) as progress:
        table = _compare(learners, episodes, progress)
    console.print(table)
    if report is not None:
        _write(table, report, f"unitail demo {recipe} --episodes {episodes} --draws {draws}")


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
            protocol = EvaluationProtocol(shots=shots, episodes=episodes)
            found = evaluate_all(learners, task, protocol)
            cells = [_cell(evaluation) for evaluation in found.values()]
            progress.advance(bar, len(learners))
            table.add_row(task.name, str(task.feature_dim), str(task.ways), str(shots), *cells)
    return table


def _cell(found: Evaluation) -> str:
    if found.outcome is not Outcome.ANSWERED:
        return str(found.outcome)
    return f"{100 * found.accuracy.mean:.1f} ± {100 * found.accuracy.half_width:.1f}"


def _write(table: Table, path: Path, command: str) -> None:
    """Keep the table as plain text, with the command that made it."""
    with path.open("w") as file:
        Console(file=file, width=100).print(f"$ {command}", table, sep="\n")
