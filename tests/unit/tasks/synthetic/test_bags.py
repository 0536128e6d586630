from dataclasses import replace
from typing import Any

import pytest
import torch

from unitail.baselines.proto_head import ProtoHead
from unitail.configuration import from_table
from unitail.errors import InvalidConfig
from unitail.framework.episode import Episode
from unitail.randomness import PerEpisode, stream
from unitail.tasks.batches import EpisodeRanges
from unitail.tasks.synthetic import bags
from unitail.tasks.synthetic.bags import RandomBagTasks

RANGES = EpisodeRanges.fixed(episodes=60, ways=5, shots=5, queries=4)


def _draw(law: RandomBagTasks) -> Episode:
    return law.choose_batch(RANGES, stream(0)).sample(stream(1))


def _accuracy(law: RandomBagTasks) -> float:
    episode = _draw(law)
    answers = ProtoHead().infer(episode.support, episode.query.features).argmax(dim=-1)
    return float((answers == episode.query.class_indices).float().mean())


def test_every_width_and_kind_occurs() -> None:
    law = RandomBagTasks(feature_dims=(8, 9), topic_dims=(2, 3), sizes=(4, 5))
    generator = stream(0)
    batches = [law.choose_batch(RANGES, generator) for _ in range(100)]

    assert {batch.shape.feature_dim for batch in batches} == {8, 9}
    assert {batch.law.args for batch in batches} == {(2, 4), (2, 5), (3, 4), (3, 5)}


def test_tasks_can_be_learned_but_are_not_trivial() -> None:
    assert 0.5 < _accuracy(RandomBagTasks(sizes=(16,))) < 0.95


def test_larger_bags_and_sharper_topics_are_easier() -> None:
    few, many = (_accuracy(RandomBagTasks(sizes=(size,))) for size in (2, 64))
    assert few + 0.1 < many
    dull, sharp = (_accuracy(RandomBagTasks(sharpness=(s, s))) for s in (0.05, 3.0))
    assert dull < 0.4
    assert sharp > dull + 0.3


def test_a_feature_is_a_mean_of_parts() -> None:
    """Of two different parts, four in a bag: features lie evenly between the two."""
    law = RandomBagTasks(sizes=(4,), parts=2, feature_dims=(1,))
    for features in _draw(law).support.features[:, :, 0]:
        values = features.unique()  # sorted, with what rounding sets apart
        places = (values - values[0]) / (values[-1] - values[0]).clamp_min(1e-6)
        steps = max(1, len(places.round(decimals=3).unique()) - 1)
        assert steps <= 4
        on_grid = [places * count for count in range(1, 5)]
        assert min((each - each.round()).abs().max() for each in on_grid) < 1e-3


def test_the_size_of_bags_leaves_the_scale_alone() -> None:
    few, many = (
        _draw(RandomBagTasks(sizes=(size,), topic_dims=(8,))).support.features.norm(dim=-1).mean()
        for size in (4, 64)
    )
    assert 0.5 < few / many < 2


def test_some_parts_are_more_frequent_than_others() -> None:
    """With hardly any topic, bags of one part are draws from the frequencies of parts."""
    law = RandomBagTasks(sizes=(1,), parts=50, sharpness=(1e-6, 1e-6))
    shots = EpisodeRanges.fixed(episodes=20, ways=2, shots=100, queries=1)
    drawn = law.choose_batch(shots, stream(0)).sample(stream(1)).support.features
    counts = [rows.unique(dim=0, return_counts=True)[1].max() for rows in drawn]
    assert max(counts) > 40  # 200 draws of 50 parts, 4 each if they were alike


def test_every_episode_has_its_own_parts() -> None:
    law = RandomBagTasks(sizes=(1,), parts=3, feature_dims=(4,))
    features = _draw(law).support.features  # the parts themselves
    lengths = [torch.pdist(rows.unique(dim=0)).sort().values.tolist() for rows in features]
    sides = [tuple(round(length, 3) for length in each) for each in lengths if len(each) == 3]
    assert len(sides) > 30
    assert len(set(sides)) == len(sides)  # no triangle of parts is another's, shifted or turned


def test_examples_of_a_class_have_topics_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """If these are far from the topic of the class, nothing is left to learn."""
    law = RandomBagTasks(sizes=(64,), sharpness=(3.0, 3.0))
    near = _accuracy(law)
    monkeypatch.setattr(bags, "MAX_WANDERING", 100.0)
    assert _accuracy(law) < near - 0.3


def test_the_width_of_topics_leaves_their_sharpness_alone() -> None:
    """A bag holds about as many different parts, whatever the width."""

    def different(width: int) -> float:
        law = RandomBagTasks(sizes=(16,), topic_dims=(width,), sharpness=(3.0, 3.0))
        numbers = PerEpisode(20, stream(2))
        classes, places = torch.zeros(20, 10, dtype=torch.int64), numbers.normal(law.parts, width)
        counts = law._draw_bags(classes, places, 16, 1, numbers)
        return float((counts > 0).sum(dim=2).float().mean())

    assert different(32) == pytest.approx(different(4), rel=0.35)


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
