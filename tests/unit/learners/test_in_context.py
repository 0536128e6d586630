from dataclasses import replace

import pytest
import torch
from torch import Tensor

from helpers.builders import flops, random_episode, small_model
from unitail.errors import InvalidConfig, InvalidEpisode
from unitail.framework.learner import InducedInference, Paradigm
from unitail.learners import in_context
from unitail.learners.in_context import InContextLearner
from unitail.learners.pretrained import load_default
from unitail.nn.episode_model import Visibility
from unitail.nn.transformer import SupportMemory
from unitail.randomness import stream
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational

EPISODE = random_episode(queries=5)


def test_answers_are_log_probabilities_of_each_class() -> None:
    answers = InContextLearner(small_model()).infer(EPISODE.support, EPISODE.query.features)
    assert answers.shape == (2, 5, 3)
    torch.testing.assert_close(answers.exp().sum(-1), torch.ones(2, 5, dtype=torch.float64))
    assert InContextLearner(small_model()).paradigm is Paradigm.IMPLICIT


def test_the_shipped_model_is_not_purely_implicit() -> None:
    """Its scores are added to those of ridge regression, an algorithm that is written down."""
    assert InContextLearner(load_default()).paradigm is Paradigm.MIXED


def test_draws_are_averaged_as_probabilities() -> None:
    model = small_model()
    generator = stream(4, "draws")
    single = [model(EPISODE, model.draw(EPISODE.support, generator)).softmax(-1) for _ in range(3)]
    learner = InContextLearner(model, num_draws=3, seed=4)
    answers = learner.infer(EPISODE.support, EPISODE.query.features)
    torch.testing.assert_close(answers.exp(), torch.stack(single).mean(dim=0))


def test_a_model_that_draws_nothing_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_default(dtype=torch.float64)
    single = InContextLearner(model).infer(EPISODE.support, EPISODE.query.features)
    monkeypatch.setattr("unitail.learners.in_context.stream", None)  # nobody asks for it
    several = InContextLearner(model, num_draws=3, seed=4)
    assert len(several.fit(EPISODE.support).reads) == 1
    assert torch.equal(several.infer(EPISODE.support, EPISODE.query.features), single)


def test_the_seed_decides_the_answers() -> None:
    model = small_model()
    one, same, other = (
        InContextLearner(model, seed=seed).infer(EPISODE.support, EPISODE.query.features)
        for seed in (0, 0, 1)
    )
    assert torch.equal(one, same)
    assert not torch.allclose(one, other)


def test_both_views_agree() -> None:
    learner = InContextLearner(small_model(), num_draws=2)
    induced = InducedInference(learner).infer(EPISODE.support, EPISODE.query.features)
    assert torch.equal(induced, learner.infer(EPISODE.support, EPISODE.query.features))


@pytest.mark.parametrize("visibility", Visibility)
def test_a_hypothesis_answers_again_and_again(visibility: Visibility) -> None:
    learner = InContextLearner(small_model(visibility=visibility), chunk_size=2)
    hypothesis = learner.fit(EPISODE.support)
    first = hypothesis(EPISODE.query.features)
    assert torch.equal(hypothesis(EPISODE.query.features), first)
    assert not first.requires_grad


def test_a_hypothesis_does_not_read_its_support_again() -> None:
    """Answering one query must cost far less than reading the support."""
    model, episode = small_model().requires_grad_(False), random_episode((20, 20, 20), queries=1)
    draw = model.draw(episode.support, stream(0))
    reading = flops(lambda: model.read(episode.support, draw))
    hypothesis = InContextLearner(model).fit(episode.support)
    assert 0 < flops(lambda: hypothesis(episode.query.features)) < reading / 10


@pytest.mark.parametrize(
    ("visibility", "largest"),
    [(Visibility.ISOLATED, 2), (Visibility.JOINT, 5), (Visibility.CAUSAL, 5)],
)
def test_only_isolated_queries_are_answered_in_chunks(
    visibility: Visibility, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model(visibility=visibility)
    answer, sizes = model.transformer.answer, []

    def record(memory: SupportMemory, query: Tensor) -> Tensor:
        sizes.append(query.shape[1])
        return answer(memory, query)

    monkeypatch.setattr(model.transformer, "answer", record)
    InContextLearner(model, chunk_size=2).infer(EPISODE.support, EPISODE.query.features)
    assert max(sizes) == largest
    assert sum(sizes) == 5


def test_features_are_brought_to_the_models_precision() -> None:
    learner = InContextLearner(small_model().float())
    assert learner.infer(EPISODE.support, EPISODE.query.features).dtype == torch.float32


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_features_that_are_not_finite_are_refused(value: float) -> None:
    features = EPISODE.query.features.clone()
    features[0, 0, 0] = value
    learner = InContextLearner(small_model().float())
    with pytest.raises(InvalidEpisode, match="query features are not finite: got 1 NaN"):
        learner.infer(EPISODE.support, features)
    support = EPISODE.support.features.clone()
    support[0, 0, 0] = value
    with pytest.raises(InvalidEpisode, match="support features are not finite: got 1 NaN"):
        learner.fit(replace(EPISODE.support, features=support))


def test_labels_out_of_range_are_refused_before_anything_is_read() -> None:
    support = replace(EPISODE.support, class_indices=EPISODE.support.class_indices + 1)
    with pytest.raises(InvalidEpisode, match=r"got values from 1 to 3; allowed: 0 to 2"):
        InContextLearner(small_model()).fit(support)


@pytest.mark.parametrize("option", ["num_draws", "chunk_size"])
def test_options_out_of_range_are_refused(option: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{option} is out of range: got 0; allowed: 1 or more"):
        InContextLearner(small_model(), **{option: 0})


@pytest.mark.parametrize("offset", [1e4, 1e8])
def test_an_offset_is_taken_away_in_the_features_own_precision(offset: float) -> None:
    """A model in half precision would not see the features behind it."""
    learner = InContextLearner(small_model().bfloat16())
    plain = learner.infer(EPISODE.support, EPISODE.query.features)
    moved = replace(EPISODE.support, features=EPISODE.support.features + offset)
    answers = learner.infer(moved, EPISODE.query.features + offset)
    torch.testing.assert_close(answers, plain, atol=0.05, rtol=0)


def test_another_seed_is_another_learner_with_the_same_weights() -> None:
    learner = InContextLearner(small_model(), num_draws=2, seed=0, chunk_size=3)
    other = learner.with_seed(1)
    assert (other.model, other.num_draws, other.chunk_size) == (learner.model, 2, 3)
    assert not torch.allclose(
        other.infer(EPISODE.support, EPISODE.query.features),
        learner.infer(EPISODE.support, EPISODE.query.features),
    )


def test_answers_may_be_changed_in_place() -> None:
    answers = InContextLearner(small_model()).infer(EPISODE.support, EPISODE.query.features)
    assert answers.add_(1).shape == (2, 5, 3)


def test_a_learner_may_ask_for_another_visibility_than_the_models() -> None:
    model = small_model(visibility=Visibility.JOINT)
    learner = InContextLearner(model, visibility=Visibility.ISOLATED).with_seed(0)
    features = EPISODE.query.features
    together = learner.infer(EPISODE.support, features)
    alone = learner.infer(EPISODE.support, features[:, :1])
    torch.testing.assert_close(alone, together[:, :1])
    joint = InContextLearner(model).infer(EPISODE.support, features)
    assert not torch.allclose(joint, together)


def test_a_pool_takes_the_same_road_and_its_share_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the offset: angles from the origin are not asked for here."""
    config = replace(PRESETS["tiny"], angles_from_origin=False)
    network = Relational(config, seed=1).requires_grad_(False)
    support, asked = EPISODE.support, EPISODE.query.features
    pool = torch.randn(support.features.shape, dtype=torch.float64, generator=stream(5))
    learner = InContextLearner(network)
    far = replace(support, features=support.features + 1e4)
    plain, near, moved = (
        learner.fit(support),
        learner.fit(support, pool),
        learner.fit(far, pool + 1e4),
    )
    torch.testing.assert_close(moved(asked + 1e4), near(asked), atol=1e-4, rtol=0)
    monkeypatch.setattr(in_context, "MAX_NUMBERS", 2**15)
    assert near._chunk_size(asked) < plain._chunk_size(asked)
    pool[0, 0, 0] = torch.nan
    with pytest.raises(InvalidEpisode, match="pool features are not finite: got 1 NaN"):
        learner.fit(support, pool)
