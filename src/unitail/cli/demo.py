"""Run `unitail demo`."""

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from unitail.cli.console import bar
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.result import Evaluation, Outcome
from unitail.evaluation.score import score_learners
from unitail.framework.learner import Inference
from unitail.learners.pretrained import load_default
from unitail.learners.registry import LEARNERS
from unitail.progress import OnProgress
from unitail.tasks.bundled import bundled_tasks

SHOTS = (1, 5)
COMPARED = ("unitail", "unitail_joint", "linear_probe_tuned", "proto_head_centred")


def run(episodes: int, report: Path | None) -> None:
    """Measure the shipped model and print the table."""
    console = Console()
    model = load_default()
    weights = sum(parameter.numel() for parameter in model.parameters())
    console.print(f"The default model, {weights:,} weights, on tables that it was never shown:\n")
    learners = {LEARNERS[key].label: LEARNERS[key].build("cpu") for key in COMPARED}
    with bar("testing") as on_progress:
        table = _compare(learners, episodes, on_progress)
    console.print(table)
    if report is not None:
        _write(table, report, f"unitail demo --episodes {episodes}")


def _compare(learners: Mapping[str, Inference], episodes: int, on_progress: OnProgress) -> Table:
    """Measure every learner on the same episodes of every bundled task."""
    table = Table("task", "shots", *learners, title="Accuracy in %, 95 % interval")
    table.caption = (
        f"{episodes} episodes each, the same for all learners;"
        f" {EvaluationProtocol().queries} queries a class. joint: queries answered together"
    )
    tasks = bundled_tasks()
    done, total = 0, len(tasks) * len(SHOTS) * len(learners)
    for task in tasks:
        for shots in SHOTS:
            protocol = EvaluationProtocol(shots=shots, episodes=episodes)
            scores = score_learners(learners, task, protocol)
            cells = [_cell(evaluation) for evaluation in scores.values()]
            done += len(learners)
            on_progress(done, total)
            name = f"{task.name} ({task.ways} classes)"
            table.add_row(name, str(shots), *cells)
    return table


def _cell(scores: Evaluation) -> str:
    if scores.outcome is not Outcome.ANSWERED:
        return str(scores.outcome)
    return f"{100 * scores.accuracy.mean:.1f} ± {100 * scores.accuracy.half_width:.1f}"


def _write(table: Table, path: Path, command: str) -> None:
    """Keep the table as plain text, with the command that made it."""
    with path.open("w") as file:
        Console(file=file, width=100).print(f"$ {command}", table, sep="\n")
