"""Theorem A.9 (equivariance to feature-coordinate permutation).

With pi composed with the permutation, g(S, x; pi o phi) = g(S, x; pi' o phi^sigma).
"""

import pytest
import torch
from hypothesis import given

from helpers.builders import Sizes, sizes, small_model
from helpers.coordinates import compose, permute_features
from unitail.nn.random_projection import ProjectionKind, WidthReduction
from unitail.nn.slot_model import Draw
from unitail.randomness import stream


@pytest.mark.parametrize("reduction", WidthReduction)
@pytest.mark.parametrize("kind", [ProjectionKind.PERMUTATION, ProjectionKind.DENSE])
@given(size=sizes())
def test_answers_do_not_depend_on_the_order_of_coordinates(
    kind: ProjectionKind, reduction: WidthReduction, size: Sizes
) -> None:
    model = small_model(projection=kind, reduction=reduction)
    episode = size.episode()
    generator = stream(size.seed, "coordinates")
    draw = model.draw(episode.support, generator)
    sigma = torch.randperm(size.feature_dim, generator=generator)
    composed = Draw(compose(draw.projection, sigma), draw.injection)

    permuted = model(permute_features(episode, sigma), composed)
    # Only the sum behind the scale of the features is taken in another order.
    torch.testing.assert_close(permuted, model(episode, draw), rtol=0, atol=1e-10)


@given(size=sizes())
def test_projected_features_are_the_same_to_the_last_bit(size: Sizes) -> None:
    model = small_model(reduction=WidthReduction.SUBSET)
    support = size.episode().support
    generator = stream(size.seed)
    projection = model.draw(support, generator).projection
    sigma = torch.randperm(size.feature_dim, generator=generator)
    permuted = compose(projection, sigma)(support.features[..., sigma])
    assert torch.equal(permuted, projection(support.features))
