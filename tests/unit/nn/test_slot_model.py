"""A model whose parts are known: what `SlotModel` hands them, and what it makes of their scores."""

import pytest
import torch
from torch import Tensor, nn

from helpers.builders import random_episode, random_support
from unitail.errors import InvalidConfig, TooManyClasses
from unitail.nn.episode_model import FeatureScale, Normalisation, Visibility
from unitail.nn.random_projection import ProjectionLaw
from unitail.nn.slot_model import SlotModel, class_scores
from unitail.randomness import stream
from unitail.tail.config import TailConfig


def config(**changes: object) -> TailConfig:
    """Return six slots; what else is in it does not matter here."""
    return TailConfig(dictionary_size=6, projected_dim=8, **changes)


class Recorder(SlotModel[Tensor]):
    """Remembers the slots of the support; scores slot j as j."""

    def __init__(self, config: TailConfig) -> None:
        law = ProjectionLaw(
            kind=config.projection, reduction=config.reduction, projected_dim=config.projected_dim
        )
        super().__init__(config, law)
        self.weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def work(self, *sizes: int) -> int:
        return 1

    def remember(self, features: Tensor, slots: Tensor, visibility: Visibility) -> Tensor:
        self.seen = features, slots, visibility
        return slots

    def score_slots(self, memory: Tensor, queries: Tensor) -> Tensor:
        self.asked = queries
        return torch.arange(6.0).expand(*queries.shape[:2], 6)


def test_scores_are_picked_in_the_order_of_the_classes() -> None:
    scores = torch.arange(10.0).view(1, 2, 5)  # two queries, five slots
    injection = torch.tensor([[4, 0, 2]])
    assert class_scores(scores, injection).tolist() == [[[4, 0, 2], [9, 5, 7]]]


def test_each_episode_has_its_own_slots() -> None:
    scores = torch.arange(5.0).expand(2, 1, 5)
    injection = torch.tensor([[1, 3], [3, 1]])
    assert class_scores(scores, injection).tolist() == [[[1, 3]], [[3, 1]]]


def test_the_network_sees_slots_and_scaled_projected_features() -> None:
    model, episode = Recorder(config()), random_episode((2, 1, 3), feature_dim=5)
    draw = model.draw(episode.support, stream(0))
    scores = model(episode, draw)
    features, slots, _ = model.seen
    assert torch.equal(slots, draw.injection.gather(1, episode.support.class_indices))
    scale = FeatureScale.of(episode.support.features, Normalisation.SUPPORT)
    assert torch.allclose(features, draw.projection(scale(episode.support.features)))
    assert torch.allclose(model.asked, draw.projection(scale(episode.query.features)))
    assert torch.equal(scores, draw.injection.unsqueeze(1).expand(-1, 4, -1).to(scores.dtype))


def test_only_active_slots_are_used() -> None:
    model, support = Recorder(config()), random_support((1, 1, 1), episodes=200)
    sizes = {"episodes": 200, "ways": 3, "feature_dim": 5}
    few = model.draw_for(**sizes, generator=stream(0), active_slots=3).injection
    assert few.max() == 2
    assert model.draw(support, stream(0)).injection.max() == 5
    with pytest.raises(InvalidConfig, match="active_slots is out of range: got 7; allowed: at mo"):
        model.draw_for(**sizes, generator=stream(0), active_slots=7)


def test_more_classes_than_slots_are_refused() -> None:
    with pytest.raises(TooManyClasses, match="got 7 classes; allowed: at most 6"):
        Recorder(config()).draw(random_support((1,) * 7), stream(0))


@pytest.mark.parametrize("normalisation", Normalisation)
def test_a_model_that_measures_in_the_supports_scale_says_so(normalisation: Normalisation) -> None:
    support = random_support((2, 2))
    scale = Recorder(config(normalisation=normalisation)).preconditioner([support.features])
    assert (scale is None) == (normalisation is Normalisation.NONE)
    if scale is not None:
        expected = FeatureScale.of(support.features, normalisation)
        assert torch.equal(scale(support.features), expected(support.features))
