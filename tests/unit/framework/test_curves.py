from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from unitail.errors import UserError
from unitail.framework.curves import LearningCurve, episode_risks, learning_curve
from unitail.framework.episode import Episode, Query, Support
from unitail.framework.learner import Learner, Paradigm
from unitail.framework.task import log_loss
from unitail.randomness import stream
from unitail.tasks.arrays import ArrayTask
from unitail.tasks.synthetic.gaussian import GaussianTask

TASK = GaussianTask(means=torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]), scale=torch.ones(2))
RISKS = np.array([[0.5, 0.7], [0.3, 0.3], [0.4, 0.2]])


@dataclass
class Constant:
    """Always the first class; notes the supports that it was shown."""

    probability: float = 1.0
    seen: list[Support] = field(default_factory=list)
    paradigm: Paradigm = Paradigm.EXPLICIT

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        self.seen.append(support)
        rest = (1 - self.probability) / (support.ways - 1)
        answers = query_features.new_full((*query_features.shape[:2], support.ways), rest)
        answers[..., 0] = self.probability
        return answers.log()


def _curve(**changes: Any) -> LearningCurve:  # noqa: ANN401 - wrong values on purpose
    values = {"task": "t", "ways": 3, "shots": (1, 2, 5), "risks": RISKS, "bayes_risk": 0.1}
    return LearningCurve(**{**values, **changes})


def test_every_size_gets_its_draws_in_batches() -> None:
    learner = Constant()
    curve = learning_curve(
        learner, TASK, shots=(1, 4), draws=7, queries=2, generator=stream(0), batch=3
    )

    shown = [(support.num_episodes, support.num_support) for support in learner.seen]
    assert shown == [(3, 3), (3, 3), (1, 3), (3, 12), (3, 12), (1, 12)]
    assert curve.risks.shape == (2, 7)
    assert (curve.shots, curve.sizes, curve.draws) == ((1, 4), (3, 12), 7)
    assert (curve.task, curve.ways, curve.bayes_risk) == ("gaussian", 3, TASK.bayes_risk)


def test_draws_are_independent() -> None:
    learner = Constant()
    learning_curve(learner, TASK, shots=(2, 3), draws=5, queries=1, generator=stream(0), batch=2)
    firsts = torch.cat([support.features[:, 0, 0] for support in learner.seen])

    assert len(firsts.unique()) == 10


def test_risk_of_a_constant_answer_is_its_error() -> None:
    curve = learning_curve(Constant(), TASK, shots=(1, 2), draws=4, generator=stream(0))

    assert curve.risks == pytest.approx(np.full((2, 4), 2 / 3))


def test_risk_is_measured_in_the_loss_of_the_task() -> None:
    task = replace(TASK, loss=log_loss)
    curve = learning_curve(Constant(0.5), task, shots=(1,), draws=4, generator=stream(0))

    assert curve.risks == pytest.approx(np.full((1, 4), -np.log([0.5, 0.25, 0.25]).mean()))


def test_nearest_mean_approaches_the_bayes_risk_from_above(nearest_mean: Learner) -> None:
    curve = learning_curve(nearest_mean, TASK, shots=(1, 4, 64), generator=stream(0))
    first, middle, last = curve.residual_risk()

    assert first.low > middle.high
    assert middle.low > last.high
    assert last.low < 0.01
    assert abs(last.mean) < 0.02


def test_residual_risk_is_counted_from_the_bayes_risk() -> None:
    curve = _curve()

    assert [interval.mean for interval in curve.residual_risk()] == pytest.approx([0.5, 0.2, 0.2])
    widths = [interval.half_width for interval in curve.risk(0.9)]
    assert [interval.half_width for interval in curve.residual_risk(0.9)] == widths


def test_residual_risk_without_bayes_risk_is_counted_from_the_best_size() -> None:
    curve = _curve(bayes_risk=None)

    assert curve.reference == pytest.approx(0.3)
    assert min(interval.mean for interval in curve.residual_risk()) == 0.0


def test_table_with_bayes_risk() -> None:
    lines = str(_curve()).splitlines()

    assert lines[0] == "Learning curve on t: 3 classes, 2 draws of each size, 95% intervals"
    assert lines[1].split() == ["N", "n", "risk", "residual", "risk"]
    assert lines[3].split() == ["2", "6", "0.3000", "±", "0.0000", "0.2000", "±", "0.0000"]
    assert len(lines) == 6
    assert lines[-1] == "Residual risk is counted from the Bayes risk 0.1000."


def test_table_without_bayes_risk_says_so() -> None:
    last = str(_curve(bayes_risk=None)).splitlines()[-1]

    assert last.startswith("The Bayes risk is unknown: residual risk is counted from the smallest")
    assert last.endswith("0.3000, at n=6.")


def test_real_data_have_no_bayes_risk(nearest_mean: Learner) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 3))
    task = ArrayTask(features=rows, class_indices=np.arange(40) % 2, name="noise")
    curve = learning_curve(nearest_mean, task, shots=(1, 2), draws=4, generator=stream(0))

    assert curve.bayes_risk is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"shots": ()},
            r"shots of a curve are not increasing: got \(\); allowed: increasing",
        ),
        ({"shots": (0, 1)}, r"not increasing: got \(0, 1\); allowed: increasing integers from 1"),
        ({"shots": (1, 5, 5)}, r"not increasing: got \(1, 5, 5\); allowed: increasing integers"),
        ({"draws": 1}, r"`draws` is too small: got 1; allowed: 2 or more"),
        ({"queries": 0}, r"`queries` is too small: got 0; allowed: 1 or more"),
        ({"batch": 0}, r"`batch` is too small: got 0; allowed: 1 or more"),
    ],
)
def test_wrong_arguments_are_refused(changes: dict[str, Any], message: str) -> None:
    learner = Constant()
    with pytest.raises(UserError, match=message):
        learning_curve(learner, TASK, **{"generator": stream(0), **changes})
    assert not learner.seen


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"risks": RISKS[:2]}, r"do not match the shots: got \(2, 2\); allowed: \(3, draws\)"),
        ({"risks": RISKS[:, :1]}, r"do not match .*: got \(3, 1\); .* with 2 or more draws"),
        ({"risks": RISKS[0]}, r"the risks do not match the shots: got \(2,\)"),
        (
            {"risks": RISKS + np.array([0, np.inf])},
            r"are not finite: got 3 NaN or infinite values of 6",
        ),
        (
            {"risks": RISKS * np.nan},
            r"not finite: got 6 .* allowed: .* Measure with a bounded loss",
        ),
        ({"shots": (3, 2, 1)}, "not increasing"),
    ],
)
def test_wrong_curves_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _curve(**changes)


def test_answers_that_are_not_numbers_are_refused() -> None:
    """Argmax would take NaN for the most probable class and give a harmless-looking risk."""
    with pytest.raises(
        UserError, match=r"log-probabilities of Constant are not numbers: got 180 NaN of 180"
    ):
        learning_curve(
            Constant(torch.nan), TASK, shots=(1,), draws=20, queries=1, generator=stream(0)
        )


def test_queries_without_classes_have_no_risk() -> None:
    episode = TASK.sample(episodes=1, shots=1, queries=1, generator=stream(0))
    unlabelled = Episode(support=episode.support, query=Query(features=episode.query.features))

    with pytest.raises(UserError, match="queries without classes have no loss"):
        episode_risks(Constant(), TASK, unlabelled, seed=0)
