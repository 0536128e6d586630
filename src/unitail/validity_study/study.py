"""Measure and test the learning curves of several learners on declared tasks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

import torch

from unitail.errors import CannotSolve, UserError
from unitail.estimator.as_learner import ClassifierLearner
from unitail.estimator.classifier import TailClassifier
from unitail.framework.curves import BATCH, SHOTS, LearningCurve, learning_curve
from unitail.framework.learner import Inference
from unitail.framework.task import Task
from unitail.framework.validity import (
    UniversalityReport,
    Unsolved,
    ValidityReport,
    check_test,
    judge_together,
)
from unitail.progress import OnProgress
from unitail.randomness import stream
from unitail.tasks.arrays import ArrayTask
from unitail.validity_study.declared import DeclaredTask, as_declared
from unitail.validity_study.kept import KeptCurves, Outcome, task_stamp

LEARNERS = (
    "unitail",
    "unitail_joint",
    "tail",
    "tail_50w",
    "linear_probe_tuned",
    "linear_probe_shrunk",
    "proto_head_centred",
)
"""Default learners of a study."""
DRAWS = 60
"""Default number of support sets of each size."""
MAX_QUERIES = 15
"""Largest number of queries per class."""
MAX_ALL_QUERIES = 150
"""Approximate limit on all queries: with many classes, each gets fewer."""
NO_MEMORY = "out of memory"
MAX_NUMBERS = 2**26
"""Largest number of features in a batch of episodes: 256 MiB in single precision."""


class Verdict(StrEnum):
    """Verdict on a learning curve, from worst to best."""

    CANNOT = "cannot"
    """The learner refuses the task, or runs out of memory."""
    RISES = "rises"
    """The risk rises with more data: not valid for the task, except with probability `level`."""
    GUESSES = "guesses"
    """No rise was found, but at no size is it significantly better than chance."""
    NO_RISE = "no rise"
    """No rise was found and better than chance; the residual risk is unknown or not yet small."""
    VALID = "valid"
    """No rise was found, and the residual risk is significantly below epsilon."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ValidityStudy:
    """Measurements for each learner and task."""

    reports: Mapping[str, UniversalityReport]
    """Reports, by learner; their outcomes are in the order of the tasks."""
    tasks: tuple[DeclaredTask, ...]
    draws: int
    level: float
    """Probability of any false rise, over all tasks of a learner together."""
    epsilon: float
    seed: int
    devices: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Kinds of device each learner was measured on; each kind draws different episodes."""

    def outcomes(self, learner: str) -> dict[str, ValidityReport | Unsolved]:
        """Return a learner's outcomes, by task."""
        names = [each.task.name for each in self.tasks]
        return dict(zip(names, self.reports[learner].outcomes, strict=True))

    def verdicts(self, learner: str) -> dict[str, Verdict]:
        """Return a learner's verdicts, by task."""
        return {name: verdict(outcome) for name, outcome in self.outcomes(learner).items()}

    def rows(self) -> list[dict[str, Any]]:
        """Return a row of plain values for each learner and task."""
        return [
            {
                "learner": learner,
                "group": each.group,
                "task": each.task.name,
                "width": each.task.feature_dim,
                "ways": each.task.ways,
                "verdict": str(verdict(outcome)),
                **_numbers(outcome),
            }
            for learner, report in self.reports.items()
            for each, outcome in zip(self.tasks, report.outcomes, strict=True)
        ]


def study_validity(
    learners: Mapping[str, Inference | TailClassifier],
    tasks: Sequence[Task | DeclaredTask],
    *,
    shots: tuple[int, ...] = SHOTS,
    draws: int = DRAWS,
    queries: int | None = None,
    seed: int = 0,
    level: float = 0.05,
    epsilon: float = 0.1,
    device: torch.device | str = "cpu",
    kept: KeptCurves | None = None,
    stamps: Mapping[str, str] | None = None,
    on_progress: OnProgress | None = None,
) -> ValidityStudy:
    """Estimate the learning curve of every learner on every task, and test them.

    All learners answer the same episodes. A task with few rows is measured at the shots it has rows
    for. `queries` is the number of queries per class; None uses 15, or fewer for many classes.
    Curves are stored in `kept` as they are measured, and stored ones are not measured again;
    `stamps` distinguishes versions of a learner. Progress counts curves.
    """
    check_test(shots, level, epsilon)
    declared = as_declared(tasks)
    _check_names([each.task.name for each in declared])
    if not learners or not declared:
        raise UserError(
            "a study needs learners and tasks",
            got=f"{len(learners)} learners, {len(declared)} tasks",
            allowed="one or more of each",
        )
    settings = {"shots": list(shots), "draws": draws, "queries": queries, "seed": seed}
    reports, devices = {}, {}
    for turn, (name, learner) in enumerate(learners.items()):
        inference = _as_learner(learner)
        measured, kinds = [], set()
        for number, each in enumerate(declared):
            about = {"learner": name, "stamp": (stamps or {}).get(name, ""), **settings}
            about["task"] = task_stamp(each.task)
            generator = stream(seed, "validity study", each.task.name, device=device)
            measure = partial(_measure, inference, each.task, shots, draws, queries, generator)
            outcome, kind = _kept_or_measured(kept, about, measure, generator.device.type)
            measured.append(outcome)
            kinds.add(kind)
            if on_progress is not None:
                on_progress(turn * len(declared) + number + 1, len(learners) * len(declared))
        reports[name] = judge_together(measured, level, epsilon)
        devices[name] = frozenset(kinds)
    return ValidityStudy(
        reports=reports,
        tasks=declared,
        draws=draws,
        level=level,
        epsilon=epsilon,
        seed=seed,
        devices=devices,
    )


def verdict(outcome: ValidityReport | Unsolved) -> Verdict:
    """Return the verdict on an outcome."""
    if isinstance(outcome, Unsolved):
        return Verdict.CANNOT
    if not outcome.monotone:
        return Verdict.RISES
    chance = 1 - 1 / outcome.curve.ways
    if all(interval.high >= chance for interval in outcome.curve.risk()):
        return Verdict.GUESSES
    return Verdict.VALID if outcome.reaches_epsilon else Verdict.NO_RISE


def _kept_or_measured(
    kept: KeptCurves | None, about: Mapping[str, Any], measure: Callable[[], Outcome], kind: str
) -> tuple[Outcome, str]:
    """Return a stored or newly measured curve, and its kind of device.

    A stored out-of-memory outcome is measured again: the device may have been shared.
    """
    outcome = kept.read(about) if kept is not None else None
    if outcome is None or (isinstance(outcome[0], Unsolved) and outcome[0].message == NO_MEMORY):
        outcome = measure(), kind
        if kept is not None:
            kept.write(about, *outcome)
    return outcome


def _measure(
    learner: Inference,
    task: Task,
    shots: tuple[int, ...],
    draws: int,
    queries: int | None,
    generator: torch.Generator,
) -> LearningCurve | Unsolved:
    """Estimate one curve, or return why there is none."""
    queries = queries or max(1, min(MAX_QUERIES, MAX_ALL_QUERIES // task.ways))
    shots, queries = _affordable(task, shots, queries)
    numbers = task.ways * (max(shots) + queries) * task.feature_dim
    batch = max(1, min(BATCH, MAX_NUMBERS // numbers))
    try:
        return learning_curve(
            learner,
            task,
            shots=shots,
            draws=draws,
            queries=queries,
            generator=generator,
            batch=batch,
        )
    except CannotSolve as error:
        return Unsolved(task=task.name, message=str(error))
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        return Unsolved(task=task.name, message=NO_MEMORY)


def _affordable(task: Task, shots: tuple[int, ...], queries: int) -> tuple[tuple[int, ...], int]:
    """Return the shots (at least two) and the queries that a task has rows for."""
    if not isinstance(task, ArrayTask):
        return shots, queries
    rows = int(task.class_sizes.min())
    queries = max(1, min(queries, rows // 3))
    affordable = tuple(number for number in shots if number + queries <= rows)
    if len(affordable) < 2:
        raise UserError(
            f"the task {task.name!r} has too few rows for a curve",
            got=f"{rows} in its smallest class",
            allowed=f"{shots[1] + 1} or more, for shots {shots[0]} and {shots[1]} and a query",
            remedy="Ask for fewer shots, or leave the task out.",
        )
    return affordable, queries


def _as_learner(learner: Inference | TailClassifier) -> Inference:
    """Wrap a classifier as a learner that fits and predicts."""
    return ClassifierLearner.of(learner) if isinstance(learner, TailClassifier) else learner


def _check_names(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(
            "two tasks have the same name", got=", ".join(twice), allowed="a name for each task"
        )


def _numbers(outcome: ValidityReport | Unsolved) -> dict[str, Any]:
    """Return the numbers of an outcome as plain values."""
    if isinstance(outcome, Unsolved):
        return {"reason": outcome.message}
    curve = outcome.curve
    return {
        "shots": list(curve.shots),
        "risk": [round(each.mean, 5) for each in curve.risk()],
        "half_width": [round(each.half_width, 5) for each in curve.risk()],
        "bayes_risk": curve.bayes_risk,
        "rises": [str(rise) for rise in outcome.finding.rises],
        "largest_rise_not_excluded": round(outcome.largest_rise, 5),
    }
