"""Theorem A.1 (equivariance to label re-indexing).

With rho' = rho o sigma^-1, g(S^sigma, x; rho') = sigma(g(S, x; rho)).
"""

from dataclasses import replace

import pytest
import torch
from hypothesis import given

from helpers.builders import Sizes, sizes, small_model
from unitail.nn.episode_model import Visibility
from unitail.nn.slot_model import Draw
from unitail.randomness import stream


@pytest.mark.parametrize("visibility", Visibility)
@given(size=sizes())
def test_answers_follow_the_labels_exactly(visibility: Visibility, size: Sizes) -> None:
    model = small_model(visibility=visibility)
    episode = size.episode()
    generator = stream(size.seed, "sigma")
    draw = model.draw(episode.support, generator)
    sigma = torch.randperm(episode.ways, generator=generator)

    renamed_support = replace(episode.support, class_indices=sigma[episode.support.class_indices])
    renamed_draw = Draw(draw.projection, draw.injection[:, sigma.argsort()])
    scores = model(episode, draw)
    renamed = model(replace(episode, support=renamed_support), renamed_draw)

    assert torch.equal(renamed[:, :, sigma], scores)
    assert torch.equal(renamed.argmax(-1), sigma[scores.argmax(-1)])


def test_an_injection_that_is_not_composed_gives_other_scores() -> None:
    """The theorem is about the draw: with the old rho the renamed episode is another one."""
    model = small_model()
    episode = Sizes((2, 2, 2), queries=3, episodes=1, feature_dim=5, seed=0).episode()
    draw = model.draw(episode.support, stream(0))
    sigma = torch.tensor([1, 2, 0])
    renamed_support = replace(episode.support, class_indices=sigma[episode.support.class_indices])
    renamed = model(replace(episode, support=renamed_support), draw)
    assert not torch.allclose(renamed[:, :, sigma], model(episode, draw))
