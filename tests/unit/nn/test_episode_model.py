import pytest
import torch

from helpers.builders import random_episode, small_model
from unitail.errors import TooManyExamples, WrongWidth
from unitail.nn.random_projection import FixedWidth
from unitail.nn.slot_model import class_scores
from unitail.randomness import stream


def test_a_class_scores_what_its_slot_scores() -> None:
    slot_scores = torch.randn(2, 4, 5, generator=stream(1))
    injection = torch.tensor([[4, 0], [1, 2]])
    scores = class_scores(slot_scores, injection)
    for episode in range(2):
        assert torch.equal(scores[episode], slot_scores[episode][:, injection[episode]])


def test_a_law_of_fixed_width_changes_nothing_and_refuses_other_widths() -> None:
    law = FixedWidth(6)
    projection = law.draw(2, 6, stream(0))
    features = torch.randn(2, 3, 6, generator=stream(1))
    assert torch.equal(projection.select(slice(1)).to("cpu")(features), features)
    assert (projection.feature_dim, projection.projected_dim) == (6, 6)
    message = "built for features of another width: got width 5; allowed: width 6. Use a learner"
    with pytest.raises(WrongWidth, match=message):
        law.draw(2, 5, stream(0))


def test_a_support_beyond_the_models_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model, episode = small_model(), random_episode((2, 1, 3))
    draw = model.draw(episode.support, stream(0))
    monkeypatch.setattr(type(model.config), "max_support", 5)
    message = "more examples than the model can read: got 6 examples; allowed: at most 5"
    with pytest.raises(TooManyExamples, match=message):
        model.read(episode.support, draw)
