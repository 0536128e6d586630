"""Valid learning algorithms and universal validity, as far as data can test them (section 3.3).

A is *valid* for T if alpha_T(A, n) never rises with n and falls below every epsilon > 0; it is
*universally valid* with respect to nu if it is valid for all tasks that nu can generate. On tasks
whose feature or label spaces did not occur in meta-training, the latter is *practical
universality*.

A test can find a rise but never prove that there is none, so each report also states how large a
rise is still compatible with the data. "Every epsilon" cannot be tested with finite data; a single
epsilon can, if the Bayes risk is known.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from unitail.errors import CannotSolve, UserError
from unitail.framework.curves import BATCH, DRAWS, QUERIES, SHOTS, LearningCurve, learning_curve
from unitail.framework.learner import Inference
from unitail.framework.rises import RiseFinding, find_rises
from unitail.framework.task import Task
from unitail.randomness import stream


@dataclass(frozen=True, kw_only=True, eq=False)
class ValidityReport:
    """The result of testing validity on the learning curve of one task."""

    curve: LearningCurve
    """The curve that was tested."""
    finding: RiseFinding
    """The significant rises, and the largest rise compatible with the data."""
    level: float
    """Probability of at least one false rise."""
    epsilon: float | None
    """The residual risk to reach; None if not tested."""

    @property
    def valid(self) -> bool:
        """Whether the curve passed: no rise was found, and epsilon was reached if it was tested.

        False after a rise means that the learner is not valid, with an error probability of
        `level`. True does not prove validity: see `largest_rise` and `reaches_epsilon`.
        """
        return self.monotone and self.reaches_epsilon is not False

    @property
    def monotone(self) -> bool:
        """Whether no significant rise of the risk with more data was found."""
        return not self.finding.rises

    @property
    def largest_rise(self) -> float:
        """Upper bound on the rise of any pair of sizes, at confidence 1 - level."""
        return self.finding.largest_rise

    @property
    def reaches_epsilon(self) -> bool | None:
        """Whether alpha is significantly below epsilon at some size; None if not tested."""
        if self.epsilon is None or self.curve.bayes_risk is None:
            return None
        return self.residual_bound()[1] < self.epsilon

    def residual_bound(self) -> tuple[int, float]:
        """Return the size whose residual risk has the lowest upper bound, and that bound."""
        # One-sided, and simultaneous for all sizes, since the best is selected afterwards.
        confidence = 1 - 2 * self.level / len(self.curve.sizes)
        bounds = [interval.high for interval in self.curve.residual_risk(confidence)]
        best = int(np.argmin(bounds))
        return self.curve.sizes[best], bounds[best]

    def __str__(self) -> str:
        sizes = ", ".join(str(size) for size in self.curve.sizes)
        lines = [
            f"{self.curve.task}: {self._verdict()}",
            f"  tested at n = {sizes}, with {self.curve.draws} draws of each; level {self.level:g}",
            f"  rise of the risk with more data: {self._rises_text()}",
            f"  residual risk below epsilon: {self._residual_text()}",
        ]
        return "\n".join(lines)

    def _verdict(self) -> str:
        if not self.monotone:
            return "not valid, the risk rises with more data"
        return "valid as far as tested" if self.valid else "not shown to be valid"

    def _rises_text(self) -> str:
        rises = "; ".join(str(rise) for rise in self.finding.rises) or "none found"
        if self.largest_rise <= 0:
            return f"{rises}; every rise between these sizes is excluded"
        return f"{rises}; up to {self.largest_rise:.4f} is not excluded"

    def _residual_text(self) -> str:
        if self.epsilon is None:
            return "not tested"
        if self.curve.bayes_risk is None:
            return "not testable: Bayes risk unknown"
        size, bound = self.residual_bound()
        answer = "yes" if self.reaches_epsilon else "not shown"
        return f"{answer}; epsilon = {self.epsilon:g}, at most {bound:.4f} at n = {size}"


@dataclass(frozen=True, kw_only=True)
class Unsolved:
    """A task that the learner cannot solve at all."""

    task: str
    """The name of the task in reports."""
    message: str
    """The learner's reason."""
    valid: bool = False
    """Always False: a valid learning algorithm gives an answer."""

    def __str__(self) -> str:
        return f"{self.task}: cannot: {self.message}"


@dataclass(frozen=True, kw_only=True, eq=False)
class UniversalityReport:
    """The result of testing validity on the learning curves of several tasks together."""

    outcomes: tuple[ValidityReport | Unsolved, ...]
    """One for each task, in order."""
    level: float
    """Probability of at least one false rise in all tasks together."""

    @property
    def valid(self) -> bool:
        """Whether every task was solved and passed; see `ValidityReport.valid`."""
        return all(outcome.valid for outcome in self.outcomes)

    @property
    def largest_rise(self) -> float | None:
        """Upper bound on the rise on any task, at confidence 1 - level; None without any."""
        reports = [outcome for outcome in self.outcomes if isinstance(outcome, ValidityReport)]
        return max((report.largest_rise for report in reports), default=None)

    def __str__(self) -> str:
        rises = any(isinstance(each, Unsolved) or not each.monotone for each in self.outcomes)
        failed = "not universally valid" if rises else "not shown to be universally valid"
        verdict = "universally valid as far as tested" if self.valid else failed
        passed = sum(outcome.valid for outcome in self.outcomes)
        lines = [f"{verdict}: {passed} of {len(self.outcomes)} tasks passed"]
        if self.largest_rise is not None and self.largest_rise > 0:
            lines.append(f"a rise of up to {self.largest_rise:.4f} is not excluded on some task")
        return "\n".join([*lines, *(str(outcome) for outcome in self.outcomes)])


def validity(
    curve: LearningCurve, *, level: float = 0.05, epsilon: float | None = None
) -> ValidityReport:
    """Test whether a learning curve is consistent with a valid learning algorithm.

    These are t-tests, so a handful of draws is not enough.
    """
    check_test(curve.shots, level, epsilon)
    finding = find_rises([curve], level)[0]
    return ValidityReport(curve=curve, finding=finding, level=level, epsilon=epsilon)


def universal_validity(
    learner: Inference,
    tasks: Sequence[Task],
    *,
    shots: tuple[int, ...] = SHOTS,
    draws: int = DRAWS,
    queries: int = QUERIES,
    seed: int,
    level: float = 0.05,
    epsilon: float | None = None,
    batch: int = BATCH,
    device: torch.device | str = "cpu",
) -> UniversalityReport:
    """Estimate a learner's curve on every task, and test all of them together.

    A task on which the learner raises `CannotSolve` is listed with the message.
    """
    check_test(shots, level, epsilon)
    if not tasks:
        raise UserError("universal validity needs tasks", got="none", allowed="one or more")
    estimate = partial(
        learning_curve, learner, shots=shots, draws=draws, queries=queries, batch=batch
    )
    measured = [
        _measure(estimate, task, stream(seed, "universal validity", number, device=device))
        for number, task in enumerate(tasks)
    ]
    return judge_together(measured, level, epsilon)


def _measure(
    estimate: Callable[..., LearningCurve], task: Task, generator: torch.Generator
) -> LearningCurve | Unsolved:
    """Estimate the learning curve on a task, or return why the learner cannot solve it."""
    try:
        return estimate(task, generator=generator)
    except CannotSolve as error:
        return Unsolved(task=task.name, message=str(error))


def judge_together(
    measured: Sequence[LearningCurve | Unsolved], level: float, epsilon: float | None
) -> UniversalityReport:
    """Test all curves as one family, and report on each task."""
    curves = [each for each in measured if isinstance(each, LearningCurve)]
    findings = iter(find_rises(curves, level))
    outcomes = [
        each
        if isinstance(each, Unsolved)
        else ValidityReport(curve=each, finding=next(findings), level=level, epsilon=epsilon)
        for each in measured
    ]
    return UniversalityReport(outcomes=tuple(outcomes), level=level)


def check_test(shots: tuple[int, ...], level: float, epsilon: float | None) -> None:
    """Refuse invalid parameters of a test."""
    for valid, wrong, got, allowed in (
        (len(shots) >= 2, "a rise needs several sizes", f"shots={tuple(shots)}", "2 or more shots"),
        (0 < level < 1, "the level is out of range", level, "between 0 and 1"),
        (epsilon is None or epsilon > 0, "epsilon is out of range", epsilon, "above 0, or None"),
    ):
        if not valid:
            raise UserError(wrong, got=got, allowed=allowed)
