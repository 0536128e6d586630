from dataclasses import replace
from typing import Any

import pytest
import torch

from unitail.baselines.proto_head import ProtoHead
from unitail.configuration import from_table
from unitail.errors import InvalidConfig
from unitail.framework.episode import Episode
from unitail.randomness import stream
from unitail.tasks.batches import EpisodeRanges
from unitail.tasks.synthetic.networks import Activation, RandomNetworkTasks

RANGES = EpisodeRanges.fixed(episodes=60, ways=5, shots=5, queries=4)


def _draw(law: RandomNetworkTasks, ranges: EpisodeRanges = RANGES) -> Episode:
    return law.choose_batch(ranges, stream(0)).sample(stream(1))


def _accuracy(episode: Episode) -> float:
    answers = ProtoHead().infer(episode.support, episode.query.features).argmax(dim=-1)
    return float((answers == episode.query.class_indices).float().mean())


def test_every_width_and_architecture_occurs() -> None:
    law = RandomNetworkTasks(feature_dims=(8, 9), latent_dims=(4,), hidden_dims=(16,))
    generator = stream(0)
    batches = [law.choose_batch(RANGES, generator) for _ in range(200)]

    assert {batch.shape.feature_dim for batch in batches} == {8, 9}
    seen = {batch.law.args[0] for batch in batches}
    assert seen == set(law.architectures)
    assert len(seen) == 9
    assert {each.activation for each in seen} == set(Activation)


@pytest.mark.parametrize("activation", Activation)
@pytest.mark.parametrize("depth", [1, 3])
def test_tasks_can_be_learned_but_are_not_trivial(activation: Activation, depth: int) -> None:
    law = RandomNetworkTasks(activations=(activation,), depths=(depth,))

    assert 0.4 < _accuracy(_draw(law)) < 0.9


def test_separation_makes_tasks_easy() -> None:
    near, far = (
        _accuracy(_draw(RandomNetworkTasks(separation=(size, size), depths=(1,))))
        for size in (0.3, 6.0)
    )
    assert near < 0.5
    assert far > 0.9


def test_features_are_of_low_rank() -> None:
    law = RandomNetworkTasks(feature_dims=(128,), latent_dims=(4,), hidden_dims=(32,), depths=(1,))
    features = _draw(law, EpisodeRanges.fixed(episodes=3, ways=5, shots=20, queries=1))
    centred = features.support.features - features.support.features.mean(dim=1, keepdim=True)
    energy = torch.linalg.svdvals(centred).square()  # (3, 100)

    assert (energy[:, 32:].sum(dim=1) < 1e-6 * energy.sum(dim=1)).all()
    assert (energy[:, :8].sum(dim=1) > 0.8 * energy.sum(dim=1)).all()


def test_classes_are_curved() -> None:
    """What is between two points of the latent space is not between their images."""
    law = RandomNetworkTasks(latent_dims=(1,), feature_dims=(32,), activations=(Activation.SINE,))
    features = _draw(law).support.features
    centred = features - features.mean(dim=1, keepdim=True)
    energy = torch.linalg.svdvals(centred).square()

    assert (energy[:, 0] / energy.sum(dim=1)).mean() < 0.9  # one latent dimension, many directions


def test_every_episode_has_its_own_network() -> None:
    features = _draw(RandomNetworkTasks(feature_dims=(16,))).support.features
    means = features.mean(dim=1)

    assert torch.cdist(means, means).add(torch.eye(60) * 9).min() > 1


def test_recipe_table_builds_the_law() -> None:
    table = {"feature_dims": [4], "activations": ["tanh", "sine"], "gain": 2}

    assert from_table(RandomNetworkTasks, table, "tasks") == RandomNetworkTasks(
        feature_dims=(4,), activations=(Activation.TANH, Activation.SINE), gain=2.0
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depths": (1, 0)}, r"depths is out of range: got \(1, 0\); allowed: one or more numbers"),
        ({"hidden_dims": ()}, r"hidden_dims is out of range: got \(\)"),
        ({"activations": ()}, "activations is out of range: got none"),
        ({"separation": (2.0, 1.0)}, r"separation is out of range: got \(2\.0, 1\.0\)"),
        ({"gain": 0.0}, r"gain is out of range: got 0\.0; allowed: a number above 0"),
    ],
)
def test_wrong_laws_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        replace(RandomNetworkTasks(), **changes)
