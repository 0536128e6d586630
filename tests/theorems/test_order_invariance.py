"""Theorem A.5 (demonstration order invariance): g(sigma(S), x) = g(S, x)."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given

from helpers.builders import Sizes, sizes, small_model
from unitail.nn.episode_model import Visibility
from unitail.randomness import stream


@pytest.mark.parametrize("visibility", [Visibility.ISOLATED, Visibility.JOINT])
@given(size=sizes())
def test_the_order_of_the_support_does_not_matter(visibility: Visibility, size: Sizes) -> None:
    model = small_model(visibility=visibility)
    episode = size.episode()
    generator = stream(size.seed, "order")
    draw = model.draw(episode.support, generator)
    order = torch.randperm(episode.support.num_support, generator=generator)
    shuffled = replace(
        episode.support,
        features=episode.support.features[:, order],
        class_indices=episode.support.class_indices[:, order],
    )
    answers = model(replace(episode, support=shuffled), draw)
    torch.testing.assert_close(answers, model(episode, draw), rtol=0, atol=1e-10)
