from dataclasses import replace
from typing import Any

import pytest
import torch

from unitail.baselines.proto_head import ProtoHead
from unitail.configuration import from_table
from unitail.errors import InvalidConfig
from unitail.framework.episode import Episode
from unitail.randomness import stream
from unitail.tasks.batching import EpisodeRanges
from unitail.tasks.random_bags import RandomBagTasks

RANGES = EpisodeRanges.fixed(episodes=60, ways=5, shots=5, queries=4)


def _draw(law: RandomBagTasks) -> Episode:
    return law.sample(law.plan(RANGES, stream(0)), stream(1))


def _accuracy(law: RandomBagTasks) -> float:
    episode = _draw(law)
    answers = ProtoHead().infer(episode.support, episode.query.features).argmax(dim=-1)
    return float((answers == episode.query.class_indices).float().mean())


def test_every_width_and_kind_occurs() -> None:
    law = RandomBagTasks(feature_dims=(8, 9), topic_dims=(2, 3), sizes=(4, 5))
    generator = stream(0)
    plans = [law.plan(RANGES, generator) for _ in range(100)]

    assert {plan.feature_dim for plan in plans} == {8, 9}
    assert {law.kinds[plan.group] for plan in plans} == {(2, 4), (2, 5), (3, 4), (3, 5)}


def test_tasks_can_be_learned_but_are_not_trivial() -> None:
    assert 0.5 < _accuracy(RandomBagTasks(sizes=(16,))) < 0.95


def test_larger_bags_and_sharper_topics_are_easier() -> None:
    few, many = (_accuracy(RandomBagTasks(sizes=(size,))) for size in (2, 64))
    assert few + 0.1 < many
    dull, sharp = (_accuracy(RandomBagTasks(sharpness=(s, s))) for s in (0.05, 3.0))
    assert dull < 0.4
    assert sharp > dull + 0.3


def test_a_feature_is_a_mean_of_parts() -> None:
    """With a single part the features of an episode are parts, so they repeat."""
    law = RandomBagTasks(sizes=(1,), parts=4, feature_dims=(16,))
    for features in _draw(law).support.features:
        assert len(features.unique(dim=0)) <= 4


def test_every_episode_has_its_own_parts() -> None:
    means = _draw(RandomBagTasks(feature_dims=(64,))).support.features.mean(dim=1)

    assert torch.cdist(means, means).add(torch.eye(60) * 9).min() > 0.5


def test_recipe_table_builds_the_law() -> None:
    table = {"feature_dims": [4], "sizes": [2, 3], "parts": 7}

    expected = RandomBagTasks(feature_dims=(4,), sizes=(2, 3), parts=7)
    assert from_table(RandomBagTasks, table, "tasks") == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": (1, 0)}, r"sizes is out of range: got \(1, 0\); allowed: one or more numbers"),
        ({"topic_dims": ()}, r"topic_dims is out of range: got \(\)"),
        ({"parts": 1}, "parts is out of range: got 1; allowed: 2 or more"),
        ({"sharpness": (2.0, 1.0)}, r"sharpness is out of range: got \(2\.0, 1\.0\)"),
    ],
)
def test_wrong_laws_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        replace(RandomBagTasks(), **changes)
