"""The law that theorems A.1 and A.9 rest on: all injections are equally likely, pi's and rho's.

Coverage (propositions A.3 and A.8) is a statement about single slots and coordinates. It also holds
for laws under which the theorems are false: a random shift, or an injection that keeps the order.
"""

from collections import Counter
from itertools import permutations

import pytest
import torch
from scipy import stats
from torch import Tensor

from helpers.builders import random_support, small_model
from unitail.randomness import stream

DRAWS = 30_000
DOMAIN, CODOMAIN = 3, 5


def drawn_places(feature_dim: int, width: int) -> Tensor:
    """Return the place of each coordinate under the model's own pi: (draws, d_T).

    Read off what pi does to the features 1, 2, ..., not off its fields.
    """
    model = small_model(projected_dim=width)
    support = random_support((1, 1), episodes=DRAWS, feature_dim=feature_dim)
    projection = model.draw(support, stream(0, feature_dim, width)).projection
    marks = torch.arange(1.0, feature_dim + 1)
    projected = projection(marks.expand(DRAWS, 1, -1)).squeeze(1)  # (draws, d_data)
    at = projected.unsqueeze(1) == marks.unsqueeze(1)  # (draws, d_T, d_data)
    assert (at.sum(dim=2) == 1).all()
    return at.int().argmax(dim=2)


def drawn_slots(ways: int, slots: int) -> Tensor:
    """Return the slot of each class under the model's own rho: (draws, K)."""
    model = small_model(dictionary_size=slots)
    support = random_support((1,) * ways, episodes=DRAWS)
    return model.draw(support, stream(1, ways, slots)).injection


@pytest.mark.parametrize("draw", [drawn_places, drawn_slots])
@pytest.mark.parametrize("codomain", [DOMAIN, CODOMAIN])
def test_all_injections_are_equally_likely(draw: object, codomain: int) -> None:
    """6 permutations of three, 60 injections of three into five."""
    assert callable(draw)
    counts = Counter(map(tuple, draw(DOMAIN, codomain).tolist()))
    expected = set(permutations(range(codomain), DOMAIN))
    assert set(counts) == expected
    assert stats.chisquare([counts[each] for each in expected]).pvalue > 1e-4


def test_features_as_wide_as_the_tokens_are_permuted_too() -> None:
    """At d_T = d_data an injection that keeps the order would be the identity."""
    width = 64
    model = small_model(projected_dim=width)
    support = random_support((1, 1), episodes=100, feature_dim=width)
    places = model.draw(support, stream(2)).projection(
        torch.arange(float(width)).expand(100, 1, -1)
    )
    stays = (places.squeeze(1) == torch.arange(width)).sum(dim=1)  # fixed points: one on average
    assert stays.double().mean().item() == pytest.approx(1, abs=0.5)
    neighbours = (places.squeeze(1).diff(dim=1) == 1).sum(dim=1)  # a shift keeps all but one
    assert neighbours.double().mean().item() == pytest.approx(1, abs=0.5)


def test_the_places_of_an_episode_say_nothing_about_the_next() -> None:
    places = drawn_places(DOMAIN, CODOMAIN)
    counts = torch.bincount(places[:-1, 0] * CODOMAIN + places[1:, 0], minlength=CODOMAIN**2)
    assert stats.chisquare(counts.numpy()).pvalue > 1e-4
