import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers.builders import random_episode
from helpers.short_runs import short_recipe
from unitail.framework.episode import Query
from unitail.learners.registry import build_model
from unitail.nn.episode_model import Visibility
from unitail.randomness import stream
from unitail.training.config import OptimiserKind, TrainingConfig
from unitail.training.data import build_sources
from unitail.training.processes import Processes
from unitail.training.schedules import learning_rate
from unitail.training.step import (
    TrainingStep,
    draw_pool,
    draw_visibility,
    make_optimiser,
    query_loss,
)


def test_guessing_costs_the_logarithm_of_the_classes() -> None:
    query = Query(features=torch.zeros(2, 3, 1), class_indices=torch.zeros(2, 3, dtype=torch.long))
    assert query_loss(torch.zeros(2, 3, 4), query).item() == pytest.approx(math.log(4))


def test_being_right_costs_nothing() -> None:
    class_indices = torch.tensor([[0, 1], [1, 0]])
    query = Query(features=torch.zeros(2, 2, 1), class_indices=class_indices)
    scores = 100 * torch.nn.functional.one_hot(class_indices, 2).float()
    assert query_loss(scores, query).item() == pytest.approx(0)


def _step(**training: Any) -> TrainingStep:  # noqa: ANN401
    recipe = short_recipe(training=training)
    source = build_sources(recipe, None).training
    return TrainingStep(recipe, source, build_model(recipe.model), Processes(cpu=True))


def _gradient(step: TrainingStep) -> Tensor:
    """Return the gradient that the last step used, as one vector."""
    return torch.cat([weight.grad.flatten() for weight in step.model.parameters()])


def test_long_gradients_are_shortened_and_short_ones_are_not() -> None:
    free, clipped = _step(clip_norm=1e6), _step(clip_norm=1e-3)
    for step in (free, clipped):
        step(0)
    assert _gradient(free).norm() > 0.01
    assert _gradient(clipped).norm() == pytest.approx(1e-3, rel=1e-3)
    along = torch.cosine_similarity(_gradient(free), _gradient(clipped), dim=0)
    assert along == pytest.approx(1, abs=1e-4)


def test_a_step_goes_by_the_learning_rate_of_the_schedule() -> None:
    step = _step(warmup_steps=4)
    before = [weight.detach().clone() for weight in step.model.parameters()]
    step(1)
    moved = max(
        float((weight.detach() - old).abs().max())
        for weight, old in zip(step.model.parameters(), before, strict=True)
    )
    # Adam's first step moves each weight by the learning rate, but for those hardly concerned.
    assert moved == pytest.approx(learning_rate(1, step.recipe.training), rel=1e-3)


@pytest.mark.parametrize("optimiser", list(OptimiserKind))
def test_moments_decay_as_the_recipe_and_the_paper_of_adam_say(
    optimiser: OptimiserKind,
) -> None:
    """By hand: m <- 0.9 m + 0.1 g, v <- beta2 v + (1 - beta2) g², both without their bias."""
    decay = 0.1 if optimiser is OptimiserKind.ADAMW else 0.0
    config = TrainingConfig(
        steps=9, learning_rate=1.0, optimiser=optimiser, beta2=0.7, weight_decay=decay
    )
    layer = nn.Linear(1, 1, bias=False).double()
    layer.weight.data.fill_(2.0)
    adam = make_optimiser(layer, config)
    weight, m, v, rate = 2.0, 0.0, 0.0, 0.01
    for turn, gradient in enumerate((1.0, -3.0, 0.5), start=1):
        layer.weight.grad = torch.full_like(layer.weight, gradient)
        adam.param_groups[0]["lr"] = rate
        adam.step()
        m, v = 0.9 * m + 0.1 * gradient, 0.7 * v + 0.3 * gradient**2
        weight *= 1 - rate * decay
        weight -= rate * (m / (1 - 0.9**turn)) / math.sqrt(v / (1 - 0.7**turn))
        assert layer.weight.item() == pytest.approx(weight, rel=1e-6)


def test_each_step_draws_one_of_the_visibilities() -> None:
    both = (Visibility.ISOLATED, Visibility.JOINT)
    drawn = [draw_visibility(both, stream(0, step)) for step in range(200)]
    assert 60 < drawn.count(Visibility.JOINT) < 140
    assert drawn.count(None) == 0


def test_with_nothing_to_choose_from_the_model_decides() -> None:
    assert draw_visibility((), stream(0)) is None


def test_queries_become_a_pool_in_some_batches_and_some_are_always_left() -> None:
    episode = random_episode(queries=4)
    drawn = [draw_pool(episode, 0.5, stream(seed)) for seed in range(60)]
    sizes = [0 if pool is None else pool.shape[1] for _, pool in drawn]
    assert set(sizes) == {0, 1, 2, 3}
    for asked, pool in drawn:
        rows = [asked.query.features] if pool is None else [pool, asked.query.features]
        assert torch.equal(torch.cat(rows, dim=1), episode.query.features)
        start = 0 if pool is None else pool.shape[1]
        assert torch.equal(asked.query.class_indices, episode.query.class_indices[:, start:])
        assert asked.support is episode.support


def test_no_pool_is_drawn_where_none_is_asked_for() -> None:
    episode = random_episode(queries=4)
    assert all(draw_pool(episode, 0.0, stream(seed)) == (episode, None) for seed in range(20))
