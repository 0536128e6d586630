"""Run `unitail demo`."""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits, make_circles, make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from unitail.cli.console import bar
from unitail.estimator.classifier import TailClassifier
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.result import Evaluation, Outcome
from unitail.evaluation.score import score_learners
from unitail.files import write_text
from unitail.framework.learner import Inference
from unitail.framework.statistics import MeanInterval
from unitail.learners.pretrained import load_default
from unitail.learners.registry import LEARNERS
from unitail.progress import OnProgress
from unitail.tasks.bundled import bundled_tasks
from unitail.workflows.answer_files import check_place

SHOTS = (1, 5)
COMPARED = ("unitail", "unitail_joint", "linear_probe_tuned", "proto_head_centred")
MAX_DRAWS = 10
"""Largest number of draws for the table about shapes and pools."""
POOL, ASKED, NOISE = 200, 300, 0.1

Data = tuple[NDArray[Any], NDArray[Any]]
SHAPES: Mapping[tuple[str, int], Callable[[int], Data]] = {
    ("two circles", 10): lambda seed: make_circles(600, noise=NOISE, factor=0.5, random_state=seed),
    ("two moons", 10): lambda seed: make_moons(600, noise=NOISE, random_state=seed),
    ("digits (10 classes)", 2): lambda seed: load_digits(return_X_y=True),
}
"""Tasks (name, labels per class): shapes that no line separates, and few labels for many rows."""


def run(episodes: int, report: Path | None) -> None:
    """Measure the default model beside simple methods, and print the tables."""
    if report is not None:
        check_place(report)
    console = Console()
    model = load_default()
    weights = sum(parameter.numel() for parameter in model.parameters())
    console.print(f"The default model ({weights:,} weights) on data that it has never seen:\n")
    learners = {LEARNERS[key].label: LEARNERS[key].build("cpu") for key in COMPARED}
    with bar("testing") as on_progress:
        table = _compare(learners, episodes, on_progress)
    console.print(table)
    with bar("shapes and pools") as on_progress:
        shapes = _shapes(min(MAX_DRAWS, episodes), on_progress)
    console.print(shapes)
    if report is not None:
        _write([table, shapes], report, f"unitail demo --episodes {episodes}")


def _compare(learners: Mapping[str, Inference], episodes: int, on_progress: OnProgress) -> Table:
    """Measure every learner on the same episodes of every bundled task."""
    table = Table("task", "shots", *learners, title="Accuracy in %, 95 % interval")
    table.caption = (
        f"{episodes} episodes each, the same for all learners;"
        f" {EvaluationProtocol().queries} queries per class. joint: queries answered together"
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


def _shapes(draws: int, on_progress: OnProgress) -> Table:
    """Measure tasks where kernels and unlabelled rows matter, with the same draws for all."""
    methods: dict[str, Callable[[], Any]] = {
        "unitail": TailClassifier,
        "unitail, pool": TailClassifier,
        "logistic regression": lambda: LogisticRegression(max_iter=1000),
        "random forest": lambda: RandomForestClassifier(random_state=0),
    }
    table = Table(
        "task",
        "labels per class",
        *methods,
        title="Where kernels and pools matter: accuracy in %, 95 % interval",
    )
    gains = []
    for done, ((name, shots), make) in enumerate(SHAPES.items(), start=1):
        scores: dict[str, list[float]] = {method: [] for method in methods}
        for seed in range(draws):
            X, y = make(seed)  # noqa: N806 - as scikit-learn calls them
            order = np.random.default_rng(seed).permutation(len(y))
            support = np.concatenate([order[y[order] == label][:shots] for label in np.unique(y)])
            remaining = order[~np.isin(order, support)]
            pool, queries = remaining[:POOL], remaining[POOL : POOL + ASKED]
            for method, build in methods.items():
                more = {"pool": X[pool]} if "pool" in method else {}
                learner = build().fit(X[support], y[support], **more)
                scores[method].append(100 * float(learner.score(X[queries], y[queries])))
        gain = np.subtract(scores["unitail, pool"], scores["unitail"]).tolist()
        gains.append(f"{MeanInterval.of(gain):z.1f}")
        table.add_row(
            name, str(shots), *(f"{MeanInterval.of(values):.1f}" for values in scores.values())
        )
        on_progress(done, len(SHAPES))
    table.caption = (
        f"{draws} draws; pool: {POOL} unlabelled rows are read with the labelled ones,"
        f" which gains {', '.join(gains)} points on the same draws"
    )
    return table


def _cell(scores: Evaluation) -> str:
    if scores.outcome is not Outcome.ANSWERED:
        return str(scores.outcome)
    return f"{100 * scores.accuracy.mean:.1f} ± {100 * scores.accuracy.half_width:.1f}"


def _write(tables: Sequence[Table], path: Path, command: str) -> None:
    """Write the tables as plain text, with the command that made them."""
    text = io.StringIO()
    Console(file=text, width=100).print(f"$ {command}", *tables, sep="\n")
    write_text(path, text.getvalue())
