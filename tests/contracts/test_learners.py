"""What every learner promises, whatever is inside it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from helpers.builders import CONFIG, random_episode, random_support
from unitail.baselines.caml import CamlConfig
from unitail.baselines.gpicl import GpiclConfig
from unitail.baselines.snail import SnailConfig
from unitail.configuration import to_table
from unitail.errors import CannotSolve, InvalidEpisode, TooManyClasses, TooManyExamples, WrongWidth
from unitail.framework.learner import InducedInference, Learner, Paradigm, Randomised, reseeded
from unitail.learners.checkpoint import load_model, save_model
from unitail.learners.in_context import InContextLearner
from unitail.learners.registry import MODELS, build_model, explicit_learners, model_config
from unitail.nn.episode_model import AnyModel, ModelConfig, Visibility
from unitail.nn.slot_model import Draw
from unitail.relational.config import PRESETS as RELATIONAL_PRESETS
from unitail.training.step import query_loss

WIDTH = 5
CLASSES = 7
CONFIGS: dict[str, ModelConfig] = {
    "tail": CONFIG,
    "tail, joint": model_config({**to_table(CONFIG), "visibility": "joint"}, "test"),
    "tail, causal": model_config({**to_table(CONFIG), "visibility": "causal"}, "test"),
    "snail": SnailConfig(
        feature_dim=WIDTH,
        classes=CLASSES,
        most_support=20,
        key_dims=(4, 4),
        value_dims=(4, 4),
        filters=4,
    ),
    "gpicl": GpiclConfig(
        projected_dim=6, classes=CLASSES, hidden_dim=8, layers=2, heads=2, mlp_dim=8, positions=21
    ),
    "relational": RELATIONAL_PRESETS["tiny"],
    "relational, joint": replace(RELATIONAL_PRESETS["tiny"], visibility=Visibility.JOINT),
    "caml": CamlConfig(
        feature_dim=WIDTH, classes=CLASSES, label_dim=7, layers=2, heads=2, mlp_dim=8
    ),
}
FIXED_WIDTH = ("snail", "caml")
LIMITED_LENGTH = ("snail", "gpicl")
NOT_RANDOM = ("relational", "relational, joint")
SEE_EACH_OTHER = ("tail, joint", "tail, causal", "relational, joint")


def model(name: str) -> AnyModel:
    return build_model(CONFIGS[name], seed=1).double()


LEARNERS: dict[str, Callable[[], Learner]] = {
    **{name: (lambda name=name: explicit_learners()[name]) for name in explicit_learners()},
    **{name: (lambda name=name: InContextLearner(model(name))) for name in CONFIGS},
}
every_learner = pytest.mark.parametrize("name", LEARNERS)
every_model = pytest.mark.parametrize("name", CONFIGS)


def test_every_kind_of_model_is_under_contract() -> None:
    assert {name.split(",")[0] for name in CONFIGS} == set(MODELS)


@every_learner
@pytest.mark.parametrize("shots", [(1, 1), (2, 1, 3), (1,) * CLASSES, (4, 1)])
def test_answers_are_log_probabilities_for_each_query_and_class(
    name: str, shots: tuple[int, ...]
) -> None:
    episode = random_episode(shots, queries=6, episodes=3)
    answers = LEARNERS[name]().infer(episode.support, episode.query.features)
    assert answers.shape == (3, 6, len(shots))
    assert answers.dtype == torch.float64
    assert not answers.requires_grad
    torch.testing.assert_close(answers.exp().sum(-1), torch.ones(3, 6, dtype=torch.float64))


@every_learner
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_features_of_any_floating_type_are_answered_with_finite_numbers(
    name: str, dtype: torch.dtype
) -> None:
    episode = random_episode((2, 2), dtype=dtype)
    answers = LEARNERS[name]().infer(episode.support, episode.query.features)
    assert answers.dtype in (torch.float32, torch.float64)
    assert answers.isfinite().all()


@every_learner
def test_the_same_question_gets_the_same_answer(name: str) -> None:
    episode = random_episode()
    answers = [LEARNERS[name]().infer(episode.support, episode.query.features) for _ in range(2)]
    assert torch.equal(*answers)


@every_learner
def test_both_views_agree(name: str) -> None:
    learner, episode = LEARNERS[name](), random_episode()
    direct = learner.infer(episode.support, episode.query.features)
    induced = InducedInference(learner).infer(episode.support, episode.query.features)
    assert torch.equal(direct, induced)
    assert learner.paradigm in Paradigm


@every_learner
def test_only_randomised_learners_change_with_the_seed(name: str) -> None:
    learner, episode = LEARNERS[name](), random_episode((1,) * CLASSES)
    first, second = (
        reseeded(learner, seed).infer(episode.support, episode.query.features) for seed in (1, 2)
    )
    random = isinstance(learner, Randomised) and name not in NOT_RANDOM
    assert torch.equal(first, second) != random


@every_learner
def test_an_episode_is_answered_the_same_alone_and_in_a_batch(name: str) -> None:
    learner, episode = LEARNERS[name](), random_episode(episodes=1)
    alone = learner.infer(episode.support, episode.query.features)
    other = random_episode(episodes=2, seed=5)
    features = torch.cat([episode.support.features, other.support.features])
    classes = torch.cat([episode.support.class_indices, other.support.class_indices])
    batch = type(episode.support)(features=features, class_indices=classes, ways=episode.ways)
    queries = torch.cat([episode.query.features, other.query.features])
    if isinstance(learner, InContextLearner):  # an episode's draws depend on the batch's size
        together, draw = learner.model, learner.model.draw(batch, torch.Generator())
        own = draw.select(slice(1))
        answers = together.answer(together.read(batch, draw), queries).log_softmax(-1)
        read = together.read(episode.support, own)
        alone = together.answer(read, episode.query.features).log_softmax(-1)
    else:
        answers = learner.infer(batch, queries)
    torch.testing.assert_close(answers[:1], alone, rtol=1e-9, atol=1e-10)


@every_learner
def test_queries_that_do_not_see_each_other_are_answered_one_by_one_alike(name: str) -> None:
    learner, episode = LEARNERS[name](), random_episode(queries=3)
    together = learner.infer(episode.support, episode.query.features)
    last = learner.infer(episode.support, episode.query.features[:, 2:])
    joint = name in SEE_EACH_OTHER
    same = torch.allclose(together[:, 2:], last, rtol=1e-9, atol=1e-10)
    assert same != joint


@every_learner
def test_bad_values_are_refused(name: str) -> None:
    learner, episode = LEARNERS[name](), random_episode()
    spoilt = episode.query.features.clone()
    spoilt[0, 0, 0] = torch.nan
    with pytest.raises(InvalidEpisode, match="query features"):
        learner.infer(episode.support, spoilt)
    missing = random_support((2, 1))
    gap = type(missing)(features=missing.features, class_indices=missing.class_indices * 2, ways=3)
    with pytest.raises(InvalidEpisode, match="a class has no example"):
        learner.fit(gap)


@every_learner
def test_other_widths_are_solved_or_refused_by_name(name: str) -> None:
    episode = random_episode(feature_dim=WIDTH + 3)
    learner = LEARNERS[name]()
    if name in FIXED_WIDTH:
        message = "features of another width: got width 8; allowed: width 5"
        with pytest.raises(WrongWidth, match=message):
            learner.infer(episode.support, episode.query.features)
    else:
        answers = learner.infer(episode.support, episode.query.features)
        assert answers.shape == (2, 4, 3)


@every_learner
def test_more_classes_are_solved_or_refused_by_name(name: str) -> None:
    episode = random_episode((1,) * (CLASSES + 1))
    learner = LEARNERS[name]()
    if name in CONFIGS and name not in NOT_RANDOM:
        with pytest.raises(TooManyClasses, match="got 8 classes; allowed: at most 7"):
            learner.infer(episode.support, episode.query.features)
    else:
        answers = learner.infer(episode.support, episode.query.features)
        assert answers.shape == (2, 4, CLASSES + 1)


@every_learner
def test_longer_supports_are_solved_or_refused_by_name(name: str) -> None:
    episode = random_episode((15, 15))
    learner = LEARNERS[name]()
    if name in LIMITED_LENGTH:
        with pytest.raises(TooManyExamples, match="got 30 examples; allowed: at most 20"):
            learner.infer(episode.support, episode.query.features)
    else:
        answers = learner.infer(episode.support, episode.query.features)
        assert answers.shape == (2, 4, 2)


def test_a_refusal_is_something_that_reports_can_show() -> None:
    assert all(issubclass(kind, CannotSolve) for kind in (WrongWidth, TooManyClasses))
    assert issubclass(TooManyExamples, CannotSolve)


@every_model
def test_a_model_survives_its_folder(name: str, tmp_path: Path) -> None:
    before = build_model(CONFIGS[name], seed=1)
    after = load_model(save_model(before, tmp_path / "model"))
    assert (type(after), after.config) == (type(before), before.config)
    episode = random_episode(dtype=torch.float32)
    answers = [
        InContextLearner(one).infer(episode.support, episode.query.features)
        for one in (before, after)
    ]
    assert torch.equal(*answers)


@every_model
def test_every_weight_learns(name: str) -> None:
    network, episode = model(name), random_episode((2,) * CLASSES)
    draw = network.draw(episode.support, torch.Generator())
    for visibility in network.visibilities:
        query_loss(network(episode, draw, visibility), episode.query).backward()
    untouched = [key for key, weight in network.named_parameters() if weight.grad is None]
    assert not untouched
    assert all(weight.grad.isfinite().all() for weight in network.parameters())


@every_model
def test_a_model_does_not_notice_its_preconditioner(name: str) -> None:
    network, episode = model(name), random_episode((2, 1, 3))
    moved = replace(episode.support, features=1e3 * episode.support.features - 300)
    queries = 1e3 * episode.query.features - 300
    scale = network.preconditioner([moved.features])
    assert scale is not None
    scaled = replace(moved, features=scale(moved.features))
    assert scaled.features.abs().max() < 10 < moved.features.abs().max()
    draw = network.draw(moved, torch.Generator())
    for visibility in network.visibilities:
        plain = network.answer(network.read(moved, draw, visibility), queries)
        again = network.answer(network.read(scaled, draw, visibility), scale(queries))
        torch.testing.assert_close(again, plain, rtol=1e-7, atol=1e-9)


@every_model
def test_twice_the_queries_are_twice_the_work(name: str) -> None:
    network = model(name)
    assert network.work(10, 6, 5) == 2 * network.work(10, 3, 5) > 0
    assert network.work(20, 3, 7) >= network.work(10, 3, 5)
    assert network.visibility is network.trained_for[0]
    assert set(network.trained_for) <= set(network.visibilities)


@every_model
def test_every_weight_can_be_sharded(name: str) -> None:
    """FSDP refuses weights without a dimension."""
    assert not [key for key, weight in model(name).named_parameters() if weight.ndim == 0]


@every_model
def test_slots_are_a_matter_of_the_draw_alone(name: str) -> None:
    """Renaming the classes, and rho with them, renames the answers and changes nothing else."""
    network, episode = model(name), random_episode((2, 1, 3))
    draw = network.draw(episode.support, torch.Generator())
    names = torch.tensor([2, 0, 1])  # class k is now called names[k]
    indices = names[episode.support.class_indices]
    renamed = replace(episode.support, class_indices=indices)
    other = draw
    if isinstance(draw, Draw):
        other = Draw(draw.projection, draw.injection[:, names.argsort()])
    scores = network.answer(network.read(episode.support, draw), episode.query.features)
    again = network.answer(network.read(renamed, other), episode.query.features)
    torch.testing.assert_close(again[..., names], scores)


@every_model
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_model_answers_from_another_device(name: str) -> None:
    episode = random_episode(dtype=torch.float32)
    network = build_model(CONFIGS[name], seed=1)
    draw = network.draw(episode.support, torch.Generator())
    here = network(episode, draw)
    there = network.to("cuda")(episode.to("cuda"), draw.to("cuda"))
    torch.testing.assert_close(there.cpu(), here, rtol=1e-3, atol=1e-3)
    answers = InContextLearner(network).infer(episode.support, episode.query.features)
    assert answers.is_cuda


@pytest.mark.parametrize("visibility", Visibility)
def test_only_isolating_models_may_be_asked_in_chunks(visibility: Visibility) -> None:
    name = {"isolated": "tail", "joint": "tail, joint", "causal": "tail, causal"}[visibility]
    assert model(name).visibility is visibility
