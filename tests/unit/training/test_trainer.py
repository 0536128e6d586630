"""Learning for real: seconds of meta-training, then tasks that were never seen."""

import math
from dataclasses import replace
from functools import cache

import pytest
import torch

from unitail.baselines.proto_head import ProtoHead
from unitail.framework.learner import Inference
from unitail.framework.statistics import MeanInterval
from unitail.nn.visibility import Visibility
from unitail.randomness import stream
from unitail.tail.config import TailConfig
from unitail.tail.learner import TailLearner
from unitail.tail.model import Tail
from unitail.tasks.synthetic import GaussianTasks
from unitail.training.config import TrainingConfig
from unitail.training.trainer import StepReport, draw_between, meta_train

MODEL = TailConfig(
    projected_dim=16, label_dim=16, hidden_dim=32, layers=2, heads=2, mlp_dim=64, dictionary_size=6
)
TASKS = GaussianTasks(feature_dims=(8, 12, 16), separation=(2.0, 4.0))
TRAINING = TrainingConfig(
    steps=350,
    tokens_per_step=2000,
    ways=(3, 4),
    shots=(1, 4),
    queries=3,
    learning_rate=4e-3,
    warmup_steps=20,
)
UNSEEN_WIDTH, UNSEEN_WAYS = 10, 5


def accuracy_on_unseen_tasks(learner: Inference) -> MeanInterval:
    """Measure on fresh tasks of a width and a number of classes that training never had."""
    tasks = replace(TASKS, feature_dims=(UNSEEN_WIDTH,))
    episode = tasks.sample(
        episodes=300, ways=UNSEEN_WAYS, shots=3, queries=4, generator=stream(99, "unseen")
    )
    answers = learner.infer(episode.support, episode.query.features).argmax(-1)
    right = (answers == episode.query.class_indices).double().mean(dim=1)
    return MeanInterval.of(right.numpy())


@cache
def trained() -> tuple[Tail, list[StepReport]]:
    reports: list[StepReport] = []
    return meta_train(Tail(MODEL), TASKS, TRAINING, on_step=reports.append), reports


def test_an_untrained_model_guesses() -> None:
    chance = 1 / UNSEEN_WAYS
    found = accuracy_on_unseen_tasks(TailLearner(Tail(MODEL), num_draws=4))
    assert found.high < chance + 0.1


def test_a_trained_model_learns_tasks_it_has_never_seen() -> None:
    """Far above what no training can give, though neither width nor classes were trained on."""
    model, _ = trained()
    found = accuracy_on_unseen_tasks(TailLearner(model, num_draws=4))
    assert found.low > 0.6
    assert found.mean > accuracy_on_unseen_tasks(ProtoHead()).mean - 0.15


def test_the_loss_falls_from_chance() -> None:
    _, reports = trained()
    shares = [report.loss / math.log(report.ways) for report in reports]
    assert sum(shares[:5]) / 5 > 0.9
    assert sum(shares[-20:]) / 20 < 0.6
    assert [report.step for report in reports] == list(range(1, TRAINING.steps + 1))


@pytest.mark.parametrize("visibility", Visibility)
def test_the_same_seed_gives_the_same_weights(visibility: Visibility) -> None:
    short = replace(TRAINING, steps=3, warmup_steps=0, tokens_per_step=200)
    config = replace(MODEL, visibility=visibility)
    one, same, other = (
        meta_train(Tail(config), TASKS, replace(short, seed=seed)).state_dict()
        for seed in (0, 0, 1)
    )
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_draws_include_both_bounds() -> None:
    generator = stream(0)
    assert {draw_between((2, 4), generator) for _ in range(60)} == {2, 3, 4}
