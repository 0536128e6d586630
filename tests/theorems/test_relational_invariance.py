"""Relational answers depend on relations alone: our counterpart to the paper's appendix A.4.

The paper's model is indifferent to the order of coordinates in distribution, over random
projections; the relational model is, exactly, to any change of coordinates that keeps angles and
ratios of lengths.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from helpers.builders import random_episode
from unitail.framework.episode import Episode
from unitail.nn.episode_model import NoDraw, Visibility
from unitail.randomness import stream
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational

MODEL = Relational(PRESETS["tiny"], seed=2).double()
SHIFTABLE = Relational(replace(PRESETS["tiny"], angles_from_origin=False), seed=2).double()
LIMITED = Relational(replace(PRESETS["tiny"], coordinate_limit=1.5), seed=2).double()
both_ways = pytest.mark.parametrize("visibility", [Visibility.ISOLATED, Visibility.JOINT])


def mapped(episode: Episode, change: Callable[[Tensor], Tensor]) -> Episode:
    """Change the features of support and query alike."""
    return replace(
        episode,
        support=replace(episode.support, features=change(episode.support.features)),
        query=replace(episode.query, features=change(episode.query.features)),
    )


def answers(episode: Episode, visibility: Visibility, model: Relational = MODEL) -> Tensor:
    with torch.no_grad():
        return model(episode, NoDraw(), visibility)


@both_ways
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    width=st.integers(1, 40),
    factor=st.floats(1e-6, 1e6),
    offset=st.floats(-100, 100),
)
def test_turning_and_scaling_change_nothing_nor_does_shifting_where_only_differences_count(
    visibility: Visibility, seed: int, width: int, factor: float, offset: float
) -> None:
    episode = random_episode((2, 1, 3), feature_dim=width, seed=seed)
    normal = torch.randn(width, width, generator=stream(seed), dtype=torch.float64)
    turn = torch.linalg.qr(normal).Q
    shift = offset * torch.randn(width, generator=stream(seed, "shift"), dtype=torch.float64)
    for model, far in ((MODEL, 0 * shift), (SHIFTABLE, shift)):
        changed = mapped(episode, lambda features, far=far: factor * (features @ turn + far))
        expected, actual = (answers(one, visibility, model) for one in (episode, changed))
        torch.testing.assert_close(actual, expected, rtol=1e-7, atol=1e-8)


@both_ways
def test_a_shift_is_noticed_where_angles_from_the_origin_count(visibility: Visibility) -> None:
    episode = random_episode(feature_dim=3)
    changed = mapped(episode, lambda features: features + 2)
    assert not torch.allclose(answers(changed, visibility), answers(episode, visibility))


@both_ways
def test_an_isometry_into_more_coordinates_changes_nothing(visibility: Visibility) -> None:
    """Any isometry, not just a square one: zeros appended, then turned."""
    episode = random_episode(feature_dim=5)
    normal = torch.randn(300, 5, generator=stream(1), dtype=torch.float64)
    basis = torch.linalg.qr(normal).Q  # (300, 5), orthonormal columns
    changed = mapped(episode, lambda features: features @ basis.mT)
    torch.testing.assert_close(answers(changed, visibility), answers(episode, visibility))


@both_ways
def test_with_a_limit_of_coordinates_their_order_signs_and_scale_still_do_not_matter(
    visibility: Visibility,
) -> None:
    """What is left where coordinates count one by one; zeros may be appended, too."""
    episode = random_episode(feature_dim=40)
    order = torch.randperm(40, generator=stream(1))
    signs = 1 - 2 * (torch.arange(40) % 2).double()

    def change(features: Tensor) -> Tensor:
        return torch.nn.functional.pad(1e3 * (features * signs)[..., order], (0, 2))

    expected = answers(episode, visibility, LIMITED)
    torch.testing.assert_close(answers(mapped(episode, change), visibility, LIMITED), expected)
    normal = torch.randn(40, 40, generator=stream(3), dtype=torch.float64)
    turned = mapped(episode, lambda features: features @ torch.linalg.qr(normal).Q)
    assert not torch.allclose(answers(turned, visibility, LIMITED), expected)


@both_ways
def test_other_changes_of_coordinates_do_matter(visibility: Visibility) -> None:
    """The statement is sharp: stretching one axis is not an isometry, and is noticed."""
    episode = random_episode(feature_dim=3)
    stretch = torch.tensor([4.0, 1.0, 1.0], dtype=torch.float64)
    changed = mapped(episode, lambda features: features * stretch)
    assert not torch.allclose(answers(changed, visibility), answers(episode, visibility))


@both_ways
@settings(max_examples=20, deadline=None)
@given(names=st.permutations(range(4)), order=st.permutations(range(9)))
def test_names_of_classes_and_order_of_examples_do_not_matter(
    visibility: Visibility, names: list[int], order: list[int]
) -> None:
    episode = random_episode((3, 1, 2, 3))
    renamed = torch.tensor(names)
    support = replace(
        episode.support,
        features=episode.support.features[:, order],
        class_indices=renamed[episode.support.class_indices[:, order]],
    )
    scores = answers(replace(episode, support=support), visibility)
    torch.testing.assert_close(scores[..., renamed], answers(episode, visibility))
