import pytest
import torch
from torch import Tensor

from helpers.known_learners import SolvesNothing, SureOfFirst
from unitail.errors import TooManyClasses, UserError
from unitail.framework.episode import Support
from unitail.framework.learner import Cannot, ask, check_log_probabilities
from unitail.randomness import stream
from unitail.tasks.synthetic.gaussian import GaussianTasks

EPISODE = GaussianTasks(feature_dims=(4,)).instances(
    episodes=2, ways=3, shots=1, queries=2, generator=stream(0)
)
PROBABILITIES = torch.tensor([[[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], [[0.5, 0.25, 0.25], [1, 0, 0]]])
ANSWERS = PROBABILITIES.double().log()


class Seeded(SureOfFirst):
    """Its seed in hundredths is the probability of class 0."""

    def with_seed(self, seed: int) -> "Seeded":
        return Seeded(seed / 100)


class Descends(SureOfFirst):
    """Needs gradients, and its answers carry them."""

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        weight = torch.ones((), requires_grad=True)
        (2 * weight).backward()
        return weight * super().infer(support, query_features)


class Unsure(SureOfFirst):
    """Answers with scores instead of log-probabilities."""

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        return super().infer(support, query_features) + 1


def test_answers_are_the_learners_own() -> None:
    answers = ask(SureOfFirst(0.6), EPISODE, 0)
    assert isinstance(answers, Tensor)
    assert answers.shape == (2, 6, 3)
    assert torch.allclose(answers.exp(), torch.tensor([0.6, 0.2, 0.2]))


def test_the_seed_decides_the_draws() -> None:
    answers = [ask(Seeded(0.5), EPISODE, seed) for seed in (40, 70)]
    assert [each[0, 0, 0].exp().item() for each in answers] == pytest.approx([0.4, 0.7])


def test_learners_may_use_gradients_and_answers_carry_none() -> None:
    answers = ask(Descends(), EPISODE, 0)
    assert isinstance(answers, Tensor)
    assert not answers.requires_grad


def test_a_learner_that_cannot_solve_a_task_states_why() -> None:
    answers = ask(SolvesNothing(), EPISODE, 0)
    assert isinstance(answers, Cannot)
    assert isinstance(answers.error, TooManyClasses)
    assert str(answers).startswith("too many classes: got 3; allowed: none.")


def test_answers_that_are_none_stop_with_the_learners_name() -> None:
    with pytest.raises(UserError, match="the answers of Unsure are not log-probabilities"):
        ask(Unsure(), EPISODE, 0)
    with pytest.raises(UserError, match="the answers of mine are not log-probabilities"):
        ask(Unsure(), EPISODE, 0, name="mine")


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (ANSWERS[:, :1], r"the answers of it have the wrong shape: got \(2, 1, 3\)"),
        (torch.nan * ANSWERS, "the log-probabilities of it are not numbers: got 12 NaN of 12"),
        (PROBABILITIES, "the answers of it are not log-probabilities"),
    ],
)
def test_an_invalid_answer_is_refused(answers: torch.Tensor, message: str) -> None:
    check_log_probabilities(ANSWERS, (2, 2, 3), "it")
    with pytest.raises(UserError, match=message):
        check_log_probabilities(answers, (2, 2, 3), "it")
