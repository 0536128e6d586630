import pytest
import torch
from torch import Tensor

from helpers.known_learners import SolvesNothing, SureOfFirst
from unitail.errors import TooManyClasses, UserError
from unitail.framework.ask import Cannot, ask
from unitail.framework.episode import Support
from unitail.randomness import stream
from unitail.tasks.synthetic.gaussian import GaussianTasks

EPISODE = GaussianTasks(feature_dims=(4,)).instances(
    episodes=2, ways=3, shots=1, queries=2, generator=stream(0)
)


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


def test_who_cannot_says_why() -> None:
    answers = ask(SolvesNothing(), EPISODE, 0)
    assert isinstance(answers, Cannot)
    assert isinstance(answers.error, TooManyClasses)
    assert str(answers).startswith("too many classes: got 3; allowed: none.")


def test_answers_that_are_none_stop_with_the_learners_name() -> None:
    with pytest.raises(UserError, match="the answers of Unsure are not log-probabilities"):
        ask(Unsure(), EPISODE, 0)
    with pytest.raises(UserError, match="the answers of mine are not log-probabilities"):
        ask(Unsure(), EPISODE, 0, name="mine")
