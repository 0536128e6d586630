import pytest
import torch

from helpers.builders import random_episode
from unitail.baselines.gpicl import GpiclConfig
from unitail.errors import InvalidConfig
from unitail.learners.registry import (
    LEARNERS,
    MODELS,
    build_model,
    explicit_learners,
    learner_name,
    model_config,
    model_kind,
)
from unitail.tail.config import PRESETS, TailConfig


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_known_by_the_name_of_its_configuration(name: str) -> None:
    kind = model_kind(name)
    for config in kind.presets.values():
        assert type(config) is kind.config
        assert learner_name(config) == name


def test_a_table_starts_from_a_learner_and_a_preset_and_changes_it() -> None:
    assert model_config({}, "model") == TailConfig()
    assert model_config({"preset": "tiny"}, "model") == PRESETS["tiny"]
    assert model_config({"learner": "gpicl", "layers": 2}, "model") == GpiclConfig(layers=2)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"learner": "maml"}, "unknown learner: got maml; allowed: tail, relational, snail"),
        ({"learner": 3}, "unknown learner: got 3"),
        ({"learner": "gpicl", "preset": "tiny"}, "unknown preset: got tiny; allowed: paper"),
        ({"learner": "gpicl", "depth": 2}, r"unknown key in \[model\]: got depth"),
    ],
)
def test_what_is_unknown_is_refused(table: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        model_config(table, "model")


def test_the_seed_decides_the_weights() -> None:
    one, same, other = (
        next(build_model(PRESETS["tiny"], seed=seed).parameters()) for seed in (0, 0, 1)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_explicit_learners_differ() -> None:
    episode = random_episode((2, 3, 2), feature_dim=4)
    answers = [
        learner.infer(episode.support, episode.query.features).detach().numpy().round(6).tobytes()
        for learner in explicit_learners().values()
    ]
    assert len(set(answers)) == len(answers) > 1


def test_labels_are_for_people_and_tell_learners_apart() -> None:
    labels = {key: learner.label for key, learner in LEARNERS.items()}
    assert len(set(labels.values())) == len(labels)
    assert not any("_" in label for label in labels.values())
    assert labels["linear_probe_tuned"] == "logistic regression"
    assert (labels["proto_head_centred"], labels["unitail"]) == ("prototypes", "unitail")


def test_a_preset_that_is_no_name_is_unknown() -> None:
    with pytest.raises(InvalidConfig, match=r"unknown preset: got \{\}"):
        model_config({"preset": {}}, "model")
