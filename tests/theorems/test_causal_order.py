"""Ours: a causal mask breaks order invariance (the reason for Theorem A.5's non-causal model)."""

from dataclasses import replace

import torch

from helpers.builders import random_episode, small_model
from unitail.nn.episode_model import Visibility
from unitail.randomness import stream


def test_reversing_the_support_changes_causal_answers() -> None:
    model = small_model(visibility=Visibility.CAUSAL)
    episode = random_episode()
    draw = model.draw(episode.support, stream(0))
    reversed_support = replace(
        episode.support,
        features=episode.support.features.flip(1),
        class_indices=episode.support.class_indices.flip(1),
    )
    moved = model(replace(episode, support=reversed_support), draw) - model(episode, draw)
    assert moved.abs().max() > 1e-5
    assert torch.isfinite(moved).all()
