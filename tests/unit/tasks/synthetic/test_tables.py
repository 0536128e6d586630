from dataclasses import replace
from typing import Any

import pytest
import torch

from unitail.configuration import from_table
from unitail.errors import InvalidConfig
from unitail.framework.episode import Episode
from unitail.randomness import PerEpisode, stream
from unitail.tasks.batches import EpisodeRanges, QueryShares
from unitail.tasks.synthetic.graphs import Function
from unitail.tasks.synthetic.tables import RandomTableTasks, fill_intervals

RANGES = EpisodeRanges.fixed(episodes=12, ways=3, shots=30, queries=10)
KINDS = {
    "effects": RandomTableTasks(causes=0, rules=0),
    "causes": RandomTableTasks(causes=1, rules=0),
    "rules": RandomTableTasks(causes=0, rules=1),
}


def _neighbour_accuracy(episode: Episode) -> float:
    """Return how often the nearest labelled row has the class of a query."""
    nearest = torch.cdist(episode.query.features, episode.support.features).argmin(dim=2)
    answers = episode.support.class_indices.gather(1, nearest)
    return float((answers == episode.query.class_indices).float().mean())


@pytest.mark.parametrize("kind", KINDS)
def test_labels_depend_on_features_but_not_trivially(kind: str) -> None:
    law, generator = KINDS[kind], stream(0)
    drawn = [law.choose_batch(RANGES, generator).sample(stream(seed)) for seed in range(25)]
    mean = sum(map(_neighbour_accuracy, drawn)) / len(drawn)
    assert 0.43 < mean < 0.8  # by chance: a third, ± 0.01
    for episode in drawn:
        assert (torch.nn.functional.one_hot(episode.support.class_indices).sum(dim=1) == 30).all()
        episode.check_values()


def test_a_single_column_is_relevant_and_tells_of_its_own_row_alone() -> None:
    law, generator = RandomTableTasks(columns=(1, 1), causes=0.5, rules=0.1), stream(0)
    drawn = [law.choose_batch(RANGES, generator).sample(stream(seed)) for seed in range(25)]
    accuracy = sum(map(_neighbour_accuracy, drawn)) / len(drawn)
    shuffled = [
        replace(each, query=replace(each.query, features=each.query.features.roll(7, dims=1)))
        for each in drawn
    ]
    shuffled_accuracy = sum(map(_neighbour_accuracy, shuffled)) / len(shuffled)
    assert accuracy > 0.45
    assert abs(shuffled_accuracy - 1 / 3) < 0.02


def test_intervals_hold_the_rows_of_their_class() -> None:
    classes = torch.tensor([[0, 0, 0, 1, 1, 2, 2, 2, 2, 0] * 4] * 50)
    scores = torch.randn(50, 40, generator=stream(0))
    for pieces in (1, 2):
        order = fill_intervals(classes, scores, 3, pieces, PerEpisode(50, stream(1)))
        assert torch.equal(order.sort(dim=1).values, torch.arange(40).expand(50, -1))
        by_score = scores.gather(1, order).argsort(dim=1)
        changes = (classes.gather(1, by_score).diff(dim=1) != 0).sum(dim=1) + 1
        assert (changes <= 3 * pieces).all()
        assert (changes == 3 * pieces).float().mean() > (0.99 if pieces == 1 else 0.1)
    places = scores.gather(1, order).argsort(dim=1)
    early = (places[:, :20] < 20).float().mean()  # support and queries are mixed in an interval
    assert 0.35 < early < 0.65


def test_classes_of_intervals_are_in_any_order() -> None:
    classes = torch.arange(3).repeat_interleave(4).expand(300, -1)
    scores = torch.randn(300, 12, generator=stream(0))
    order = fill_intervals(classes, scores, 3, 1, PerEpisode(300, stream(1)))
    lowest = classes.gather(1, scores.gather(1, order).argmin(dim=1, keepdim=True))
    assert lowest.flatten().bincount(minlength=3).min() > 70


def test_shapes_are_those_of_small_tables() -> None:
    law = RandomTableTasks(shots=(1, 500), max_rows=600)
    ranges = EpisodeRanges(ways=(2, 100), shots=(1, 5), queries=2, tokens=3000)
    generator = stream(0)
    shapes = [law.choose_batch(ranges, generator).shape for _ in range(300)]
    assert {shape.ways for shape in shapes} == set(range(2, 11))
    assert max(shape.num_support for shape in shapes) > 550
    assert all(shape.num_support <= 600 for shape in shapes)
    assert min(shape.shots for shape in shapes) == 1
    assert min(shape.feature_dim for shape in shapes) == 1
    assert max(shape.feature_dim for shape in shapes) > 100
    assert all(shape.episodes * (shape.num_support + shape.num_query) <= 6000 for shape in shapes)
    own = [RandomTableTasks().choose_batch(ranges, generator).shape for _ in range(50)]
    assert {shape.shots for shape in own} == set(range(1, 6))


def test_shares_of_queries_are_random_where_they_should_be() -> None:
    ranges = replace(RANGES, query_shares=QueryShares.RANDOM)
    for law in KINDS.values():
        query = law.choose_batch(ranges, stream(0)).sample(stream(1)).query.class_indices
        assert query is not None
        assert torch.nn.functional.one_hot(query, 3).sum(dim=1).float().std() > 3


def test_recipe_table_builds_the_law() -> None:
    table = {"columns": [1, 8], "shots": [1, 300], "functions": ["tree"], "rules": 0}
    expected = RandomTableTasks(
        columns=(1, 8), shots=(1, 300), functions=(Function.TREE,), rules=0.0
    )
    assert from_table(RandomTableTasks, table, "tasks") == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": (0, 4)}, r"columns is out of range: got \(0, 4\); allowed: \[low, high\]"),
        ({"shots": (5, 4)}, r"shots is out of range: got \(5, 4\)"),
        ({"max_ways": 1}, "max_ways is out of range: got 1; allowed: 2 or more"),
        ({"max_rows": 9}, "max_rows is out of range: got 9; allowed: max_ways or more"),
        ({"functions": ()}, "functions is out of range: got none"),
        ({"causes": 0.95}, r"causes and rules is out of range: got 0\.95 and 0\.1"),
    ],
)
def test_wrong_laws_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        replace(RandomTableTasks(), **changes)
