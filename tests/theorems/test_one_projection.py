"""z = [pi(phi(x)) ; ...] with one pi for an episode: a vector has one feature part, wherever it is.

What the model learns from a support is how queries lie to it; were they projected otherwise, the
two would not be related at all.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from helpers.builders import random_support, small_model
from unitail.baselines.gpicl import Gpicl, GpiclConfig
from unitail.framework.episode import Episode, Query, Support
from unitail.nn.episode_model import Visibility
from unitail.nn.random_projection import ProjectionKind, WidthReduction
from unitail.randomness import stream
from unitail.tail.model import Tail


def asked_about_itself(support: Support) -> Episode:
    """Return an episode whose queries are the support's own rows."""
    query = Query(features=support.features, class_indices=support.class_indices)
    return Episode(support=support, query=query)


def feature_parts(model: Tail, episode: Episode) -> tuple[Tensor, Tensor]:
    """Return the feature parts of the tokens of support and query, as they reach the network."""
    seen: list[Tensor] = []

    def remember(_: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        seen.append(arguments[0])

    handle = model.tokens.register_forward_pre_hook(remember)
    model(episode, model.draw(episode.support, stream(0)))
    handle.remove()
    support, query = seen
    return support, query


@pytest.mark.parametrize("visibility", Visibility)
@pytest.mark.parametrize("kind", ProjectionKind)
@pytest.mark.parametrize("feature_dim", [3, 12, 20])
def test_a_vector_has_one_feature_part_as_support_and_as_query(
    visibility: Visibility, kind: ProjectionKind, feature_dim: int
) -> None:
    for reduction in WidthReduction:
        model = small_model(visibility=visibility, projection=kind, reduction=reduction)
        episode = asked_about_itself(random_support((2, 1, 3), feature_dim=feature_dim))
        support, query = feature_parts(model, episode)
        assert support.shape[-1] == model.config.projected_dim
        assert torch.equal(support, query)


def test_the_feature_part_is_what_the_draw_makes_of_the_scaled_vector() -> None:
    """Not some other map that support and query happen to share."""
    model, support = small_model(), random_support((2, 1, 3))
    draw = model.draw(support, stream(0))
    centred = support.features - support.features.mean(dim=1, keepdim=True)
    scaled = centred / centred.pow(2).mean(dim=(1, 2), keepdim=True).sqrt()
    seen, _ = feature_parts(model, asked_about_itself(support))
    torch.testing.assert_close(seen, draw.projection(scaled), rtol=0, atol=1e-12)


def test_queries_are_related_to_the_support_as_their_vectors_are() -> None:
    """All inner products between feature parts are those of the vectors, across both sets."""
    model, support = small_model(), random_support((2, 1, 3))
    episode = asked_about_itself(support)
    others = replace(episode.query, features=support.features.flip(1) + 0.5)
    seen, asked = feature_parts(model, replace(episode, query=others))
    centre = support.features.mean(dim=1, keepdim=True)
    pairs = (others.features - centre) @ (support.features - centre).mT
    ratio = asked @ seen.mT / pairs
    torch.testing.assert_close(ratio, ratio[:, :1, :1].expand_as(ratio), rtol=1e-9, atol=0)


def test_other_networks_with_slots_project_queries_as_the_support(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = GpiclConfig(projected_dim=12, hidden_dim=16, layers=1, heads=2, mlp_dim=24)
    model, support = Gpicl(config).double(), random_support((2, 1, 3))
    seen: list[Tensor] = []

    def remember(features: Tensor, slots: Tensor, visibility: Visibility) -> None:
        seen.append(features)

    def score_slots(memory: None, queries: Tensor) -> Tensor:
        seen.append(queries)
        return queries

    monkeypatch.setattr(model, "remember", remember)
    monkeypatch.setattr(model, "score_slots", score_slots)
    model(asked_about_itself(support), model.draw(support, stream(0)))
    assert torch.equal(seen[0], seen[1])
