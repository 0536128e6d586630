"""Ours: under `joint` and `causal` other queries change an answer; isolated ones never do."""

from dataclasses import replace

import pytest
import torch

from helpers.builders import random_episode, small_model
from unitail.nn.episode_model import Visibility
from unitail.randomness import stream


def change_of_last_answer(visibility: Visibility) -> float:
    """Replace the first query, and measure how far the answer to the last one moves."""
    model = small_model(visibility=visibility)
    episode = random_episode(queries=4)
    draw = model.draw(episode.support, stream(0))
    features = episode.query.features.clone()
    features[:, 0] += 3
    changed = replace(episode, query=replace(episode.query, features=features))
    moved = model(changed, draw)[:, -1] - model(episode, draw)[:, -1]
    return float(moved.detach().abs().max())


@pytest.mark.parametrize("visibility", [Visibility.JOINT, Visibility.CAUSAL])
def test_an_answer_depends_on_the_other_queries(visibility: Visibility) -> None:
    assert change_of_last_answer(visibility) > 1e-5


def test_the_same_change_means_nothing_to_isolated_queries() -> None:
    assert change_of_last_answer(Visibility.ISOLATED) < 1e-12


def test_joint_answers_do_not_depend_on_the_order_of_the_queries() -> None:
    model = small_model(visibility=Visibility.JOINT)
    episode = random_episode(queries=6)
    draw = model.draw(episode.support, stream(0))
    order = torch.randperm(6, generator=stream(1))
    shuffled = replace(episode.query, features=episode.query.features[:, order])
    answers = model(replace(episode, query=shuffled), draw)
    torch.testing.assert_close(answers, model(episode, draw)[:, order], rtol=0, atol=1e-10)
