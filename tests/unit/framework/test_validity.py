from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from unitail.errors import TooManyClasses, UserError
from unitail.framework.curves import LearningCurve
from unitail.framework.episode import Support
from unitail.framework.learner import Inference, Learner, Paradigm
from unitail.framework.task import Task
from unitail.framework.validity import (
    UniversalityReport,
    ValidityReport,
    universal_validity,
    validity,
)
from unitail.randomness import stream
from unitail.tasks.arrays import ArrayTask
from unitail.tasks.synthetic.gaussian import GaussianTask, GaussianTasks

TASKS = [
    GaussianTasks(feature_dims=(width,)).task(ways=ways, generator=stream(ways), name=f"{ways}-way")
    for width, ways in ((6, 3), (11, 5))
]


@dataclass(frozen=True)
class Oracle:
    """Knows the task, needs no support; noise on its scores grows by `decay` for each example."""

    task: GaussianTask
    decay: float = 0.0
    paradigm: Paradigm = Paradigm.EXPLICIT

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        answers = self.task.log_posterior(query_features)
        noise = torch.randn(answers.shape, generator=stream(0, support.num_support))
        return (answers + self.decay * support.num_support * noise).log_softmax(dim=-1)


@dataclass(frozen=True)
class Limited:
    """A learner that accepts few classes."""

    learner: Inference
    paradigm: Paradigm = Paradigm.EXPLICIT

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        if support.ways > 4:
            raise TooManyClasses("too many classes", got=support.ways, allowed="at most 4")
        return self.learner.infer(support, query_features)


def _test(learner: Inference, *tasks: Task, seed: int = 0, **options: Any) -> UniversalityReport:  # noqa: ANN401
    options = {"shots": (1, 2, 4, 8), "draws": 60, "queries": 5, **options}
    return universal_validity(learner, tasks, seed=seed, **options)


def _curve(risks: NDArray[np.float64], bayes_risk: float | None = None) -> LearningCurve:
    shots = tuple(range(1, len(risks) + 1))
    return LearningCurve(task="t", ways=2, shots=shots, risks=risks, bayes_risk=bayes_risk)


FALLING = np.random.default_rng(0).normal([[0.5], [0.4], [0.3]], 0.05, size=(3, 100))


@pytest.mark.parametrize("seed", range(5))
def test_nearest_mean_is_not_flagged(nearest_mean: Learner, seed: int) -> None:
    report = _test(nearest_mean, *TASKS, seed=seed)

    assert report.valid
    assert report.largest_rise is not None
    assert report.largest_rise < 0.1


def test_the_bayes_hypothesis_is_seldom_flagged() -> None:
    """Its curve is flat, the hardest of the valid ones."""
    flagged = sum(not _test(Oracle(TASKS[0]), TASKS[0], seed=seed).valid for seed in range(40))

    assert flagged <= stats.binom.ppf(0.999, 40, 0.05)


@pytest.mark.parametrize("seed", range(5))
def test_learner_that_gets_worse_is_flagged(seed: int) -> None:
    report = _test(Oracle(TASKS[0], decay=0.1), TASKS[0], seed=seed)

    assert not report.valid
    assert "3-way: not valid, the risk rises with more data" in str(report)


def test_one_bad_task_spoils_universality(nearest_mean: Learner) -> None:
    class Mixed(Oracle):
        def infer(self, support: Support, query_features: Tensor) -> Tensor:
            good = support.ways != self.task.ways
            return (nearest_mean if good else super()).infer(support, query_features)

    report = _test(Mixed(TASKS[0], decay=0.1), *TASKS)

    assert [outcome.valid for outcome in report.outcomes] == [False, True]
    assert not report.valid
    assert str(report).startswith("not universally valid: 1 of 2 tasks passed")


def test_task_that_cannot_be_solved_is_listed(nearest_mean: Learner) -> None:
    report = _test(Limited(nearest_mean), *TASKS)

    assert [outcome.valid for outcome in report.outcomes] == [True, False]
    assert not report.valid
    assert "5-way: cannot: too many classes: got 5; allowed: at most 4." in str(report)


def test_no_task_can_be_solved(nearest_mean: Learner) -> None:
    report = _test(Limited(nearest_mean), TASKS[1])

    assert not report.valid
    assert report.largest_rise is None
    assert str(report).startswith("not universally valid: 0 of 1 tasks passed\n5-way: cannot:")


def test_same_seed_same_report(nearest_mean: Learner) -> None:
    first, again, other = (_test(nearest_mean, *TASKS, seed=seed) for seed in (3, 3, 4))

    assert first.largest_rise == again.largest_rise != other.largest_rise


def test_several_tasks_are_tested_as_one_family(nearest_mean: Learner) -> None:
    together = _test(nearest_mean, *TASKS).outcomes[0]
    alone = _test(nearest_mean, TASKS[0]).outcomes[0]

    assert isinstance(together, ValidityReport)
    assert isinstance(alone, ValidityReport)
    assert np.array_equal(together.curve.risks, alone.curve.risks)
    assert together.largest_rise > alone.largest_rise


def test_epsilon_reached() -> None:
    report = validity(_curve(FALLING, bayes_risk=0.25), epsilon=0.1)

    assert report.reaches_epsilon is True
    assert report.valid
    size, bound = report.residual_bound()
    assert size == 6
    assert 0.05 < bound < 0.1
    assert "below epsilon: yes; epsilon = 0.1, at most 0.0" in str(report)


def test_epsilon_not_reached() -> None:
    report = validity(_curve(FALLING, bayes_risk=0.25), epsilon=0.05)

    assert report.monotone
    assert report.reaches_epsilon is False
    assert not report.valid
    assert str(report).startswith("t: not shown to be valid")
    assert "below epsilon: not shown; epsilon = 0.05, at most" in str(report)


def test_epsilon_bound_is_seldom_too_low() -> None:
    """Five looks at a residual risk of 0.1 shall not make it fall below 0.1 by chance."""
    rng = np.random.default_rng(0)
    curves = [_curve(rng.normal(0.3, 0.1, size=(5, 40)), bayes_risk=0.2) for _ in range(200)]
    wrong = sum(validity(curve, epsilon=0.1).reaches_epsilon is True for curve in curves)

    assert wrong <= stats.binom.ppf(0.999, 200, 0.05)


def test_epsilon_bound_by_hand() -> None:
    """One-sided, with an equal share of the level for each of the two sizes."""
    curve = _curve(np.array([[0.5, 0.6, 0.7], [0.2, 0.3, 0.4]]), bayes_risk=0.1)
    quantile = 4.30265  # Student's, 2 degrees of freedom, at 1 - 0.05 / 2
    expected = (0.3 - 0.1) + quantile * 0.1 / 3**0.5

    assert validity(curve, level=0.05).residual_bound() == (4, pytest.approx(expected, rel=1e-5))


def test_epsilon_without_bayes_risk_is_not_testable(nearest_mean: Learner) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 3))
    task = ArrayTask(features=rows, class_indices=np.arange(60) % 2, name="noise")
    report = _test(nearest_mean, task, epsilon=0.1).outcomes[0]

    assert isinstance(report, ValidityReport)
    assert report.reaches_epsilon is None
    assert report.valid == report.monotone
    assert "below epsilon: not testable: Bayes risk unknown" in str(report)


def test_report_in_words() -> None:
    lines = str(validity(_curve(FALLING, bayes_risk=0.25))).splitlines()

    assert lines == [
        "t: valid as far as tested",
        "  tested at n = 2, 4, 6, with 100 draws of each; level 0.05",
        "  rise of the risk with more data: none found; every rise between these sizes is excluded",
        "  residual risk below epsilon: not tested",
    ]


def test_report_of_a_rise_in_words() -> None:
    text = str(validity(_curve(FALLING[::-1], bayes_risk=0.25), epsilon=0.1))

    assert text.startswith("t: not valid, the risk rises with more data")
    assert "with more data: 0.2" in text
    assert "from n=2 to n=6 (adjusted p=" in text
    assert "is not excluded" in text


def test_report_states_the_power_of_a_universal_test(nearest_mean: Learner) -> None:
    report = _test(nearest_mean, *TASKS, draws=5)

    assert report.valid
    assert str(report).startswith("universally valid as far as tested: 2 of 2 tasks passed\n")
    assert f"a rise of up to {report.largest_rise:.4f} is not excluded on some task" in str(report)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 0.0}, r"the level is out of range: got 0\.0; allowed: between 0 and 1"),
        ({"level": 1.0}, "the level is out of range"),
        ({"epsilon": 0.0}, r"epsilon is out of range: got 0\.0; allowed: above 0, or None"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        validity(_curve(FALLING), **options)
    with pytest.raises(UserError, match=message):
        _test(Oracle(TASKS[0]), TASKS[0], **options)


def test_one_size_is_refused() -> None:
    message = r"a rise needs several sizes: got shots=\(1,\); allowed: 2 or more shots"
    with pytest.raises(UserError, match=message):
        validity(_curve(FALLING[:1]))
    with pytest.raises(UserError, match=message):
        _test(Oracle(TASKS[0]), TASKS[0], shots=(1,))


def test_no_tasks_are_refused() -> None:
    with pytest.raises(UserError, match="universal validity needs tasks: got none"):
        _test(Oracle(TASKS[0]))
