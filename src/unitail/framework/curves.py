"""Learning curves: residual risk against the size of the support set (paper, section 3.3)."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.errors import UserError
from unitail.framework.episode import Episode
from unitail.framework.learner import Cannot, Inference, ask
from unitail.framework.statistics import LEVEL, MeanInterval
from unitail.framework.task import Task

SHOTS = (1, 2, 5, 10, 20)
"""Default shots N of a curve."""
DRAWS = 200
"""Default number of support sets drawn for each N."""
QUERIES = 15
"""Default number of queries per class that measure the risk on one support set."""
BATCH = 50
"""Default number of draws that the learner processes at once."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LearningCurve:
    """alpha_T(A, n) = E_S[R_T(A(S)) - R_T*], estimated at the sizes n = N K of some shots N.

    If the Bayes risk R_T* is unknown, the smallest mean risk of the curve is used in its place.
    """

    task: str
    """The name of the task in reports."""
    ways: int
    """K, the number of classes."""
    shots: tuple[int, ...]
    """N, the numbers of labelled examples per class, increasing."""
    risks: NDArray[np.float64]
    """R_T(A(S)) for every draw of S, (len(shots), draws)."""
    bayes_risk: float | None
    """R_T*; None if unknown."""

    def __post_init__(self) -> None:
        _check_shots(self.shots)
        if self.risks.ndim != 2 or len(self.risks) != len(self.shots) or self.draws < 2:
            raise UserError(
                "the risks do not match the shots",
                got=self.risks.shape,
                allowed=f"({len(self.shots)}, draws), with 2 or more draws",
            )
        invalid = int((~np.isfinite(self.risks)).sum())
        if invalid:
            raise UserError(
                "the risks of a curve are not finite",
                got=f"{invalid} NaN or infinite values of {self.risks.size}",
                allowed="finite numbers",
                remedy="Measure with a bounded loss, or keep the learner from probability zero.",
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """n = N K, the total number of labelled examples for each N."""
        return tuple(shots * self.ways for shots in self.shots)

    @property
    def draws(self) -> int:
        """Number of support sets drawn for each size."""
        return int(self.risks.shape[-1])

    @property
    def reference(self) -> float:
        """The risk that is subtracted: the Bayes risk, or else the smallest mean risk."""
        if self.bayes_risk is not None:
            return self.bayes_risk
        return min(interval.mean for interval in self.risk())

    def risk(self, level: float = LEVEL) -> tuple[MeanInterval, ...]:
        """Return the mean risk at each size with its interval."""
        return tuple(MeanInterval.of(row, level) for row in self.risks)

    def residual_risk(self, level: float = LEVEL) -> tuple[MeanInterval, ...]:
        """Return alpha at each size with its interval, taking the reference as exact."""
        reference = self.reference
        return tuple(
            replace(interval, mean=interval.mean - reference) for interval in self.risk(level)
        )

    def __str__(self) -> str:
        lines = [
            f"Learning curve on {self.task}: {self.ways} classes, {self.draws} draws of each size,"
            f" {LEVEL:.0%} intervals",
            f"{'N':>5} {'n':>7}   {'risk':<18}residual risk",
        ]
        for shots, size, risk, residual in zip(
            self.shots, self.sizes, self.risk(), self.residual_risk(), strict=True
        ):
            lines.append(f"{shots:>5} {size:>7}   {f'{risk:.4f}':<18}{residual:.4f}")
        return "\n".join([*lines, self._reference_text()])

    def _reference_text(self) -> str:
        if self.bayes_risk is not None:
            return f"Residual risk is counted from the Bayes risk {self.bayes_risk:.4f}."
        best = self.sizes[[interval.mean for interval in self.risk()].index(self.reference)]
        return (
            "The Bayes risk is unknown: residual risk is counted from the smallest mean risk"
            f" {self.reference:.4f}, at n={best}."
        )


def learning_curve(
    learner: Inference,
    task: Task,
    *,
    shots: tuple[int, ...] = SHOTS,
    draws: int = DRAWS,
    queries: int = QUERIES,
    generator: torch.Generator,
    batch: int = BATCH,
) -> LearningCurve:
    """Estimate the learning curve of a learner on a task.

    For each N, `draws` support sets are drawn; the risk on each is the mean loss of `queries`
    queries per class. Changing `batch` changes the random numbers, but not their distribution.
    """
    _check_shots(shots)
    for name, got, least in (("draws", draws, 2), ("queries", queries, 1), ("batch", batch, 1)):
        if got < least:
            raise UserError(f"`{name}` is too small", got=got, allowed=f"{least} or more")
    batches = [min(batch, draws - start) for start in range(0, draws, batch)]

    def risks(number: int) -> NDArray[np.float64]:
        sample = partial(task.sample, shots=number, queries=queries, generator=generator)
        parts = [
            episode_risks(learner, task, sample(episodes=count), seed=index)
            for index, count in enumerate(batches)
        ]
        return np.concatenate(parts)

    return LearningCurve(
        task=task.name,
        ways=task.ways,
        shots=tuple(shots),
        risks=np.stack([risks(number) for number in shots]),
        bayes_risk=task.bayes_risk,
    )


def episode_risks(
    learner: Inference, task: Task, episode: Episode, *, seed: int
) -> NDArray[np.float64]:
    """Estimate R_T(A(S)) for every support set of a batch by the mean loss of its queries, (B,).

    Raises `CannotSolve` if the learner cannot solve the task.
    """
    truth = episode.query.class_indices
    if truth is None:
        raise UserError(
            "queries without classes have no loss", got="None", allowed="class indices (B, m)"
        )
    answers = ask(learner, episode, seed)
    if isinstance(answers, Cannot):
        raise answers.error
    losses = task.loss(answers, truth.cpu()).double()  # (B, m)
    return losses.mean(dim=1).numpy()


def _check_shots(shots: tuple[int, ...]) -> None:
    """Refuse shots that are empty, below one, or not increasing."""
    increasing = all(before < after for before, after in zip((0, *shots), shots, strict=False))
    if not shots or not increasing:
        raise UserError(
            "the shots of a curve are not increasing",
            got=tuple(shots),
            allowed="increasing integers from 1",
        )
