"""Corollary A.10 (feature-domain invariance).

The expected risk depends on how encoded examples lie to each other, not on the coordinates that the
encoder happens to use: in training, and in answers averaged over pi.
"""

from dataclasses import replace
from itertools import permutations
from pathlib import Path
from statistics import fmean

import pytest
import torch
import torch.nn.functional as F

from helpers.builders import random_episode, small_model
from helpers.coordinates import FeaturesReordered, permute_features
from helpers.twin_runs import WIDTH, largest_change, trained
from unitail.framework.episode import Episode
from unitail.nn.episode_model import Normalisation
from unitail.nn.random_projection import ExtendedPermutation
from unitail.nn.slot_model import Draw
from unitail.randomness import stream
from unitail.tail.model import Tail
from unitail.training.step import query_loss

PLACES = 4
SIGMA = torch.randperm(WIDTH, generator=stream(0, "features"))


def reordered(model: Tail) -> None:
    """Let the model draw pi o sigma."""
    model.projections = FeaturesReordered(model.projections, SIGMA)


def test_an_encoder_with_other_coordinates_trains_the_same_model(tmp_path: Path) -> None:
    """Not up to a permutation: the very same weights, since the tokens are the same."""
    begun, one = trained(tmp_path / "one")
    _, other = trained(tmp_path / "other", reordered, features=SIGMA)
    _, unlike = trained(tmp_path / "unlike", features=SIGMA)
    assert largest_change(begun, one) > 1e-2
    assert largest_change(one, other) < 1e-9
    assert largest_change(one, unlike) > 1e-3


def risk(model: Tail, episode: Episode, places: tuple[int, ...]) -> float:
    """Return the loss on an episode under one pi."""
    pi = ExtendedPermutation(torch.tensor([places]), PLACES)
    rho = torch.arange(episode.support.ways).unsqueeze(0)
    return query_loss(model(episode, Draw(pi, rho)), episode.query).item()


def expected_risk(model: Tail, episode: Episode) -> float:
    """Average over all of Inj([d_T], [d_data])."""
    injections = permutations(range(PLACES), episode.support.feature_dim)
    return fmean(risk(model, episode, places) for places in injections)


def test_the_expected_risk_is_that_of_any_order_of_coordinates() -> None:
    model = small_model(projected_dim=PLACES)
    episode = random_episode(episodes=1, feature_dim=3)
    sigma = torch.tensor([2, 0, 1])
    here, there = (
        expected_risk(model, episode),
        expected_risk(model, permute_features(episode, sigma)),
    )
    assert abs(here - there) < 1e-12
    one = (0, 1, 2)  # under a single pi the order matters
    single = risk(model, episode, one) - risk(model, permute_features(episode, sigma), one)
    assert abs(single) > 1e-3


@pytest.mark.parametrize("normalisation", [Normalisation.NONE, Normalisation.LENGTH])
def test_the_expected_risk_is_that_of_a_wider_domain_with_the_same_relations(
    normalisation: Normalisation,
) -> None:
    """A coordinate that is always zero leaves all distances and angles as they were."""
    model = small_model(projected_dim=PLACES, normalisation=normalisation)
    narrow = random_episode(episodes=1, feature_dim=3)
    support, query = narrow.support, narrow.query
    wide = Episode(
        support=replace(support, features=F.pad(support.features, (0, 1))),
        query=replace(query, features=F.pad(query.features, (0, 1))),
    )
    assert abs(expected_risk(model, narrow) - expected_risk(model, wide)) < 1e-12
