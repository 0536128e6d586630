from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unitail.configuration import from_table
from unitail.errors import InvalidConfig, UserError
from unitail.randomness import stream
from unitail.tasks.shapes import BatchShape, EpisodeRanges, QueryShares, check_counts
from unitail.tasks.synthetic.gaussian import GaussianTasks

RANGES = EpisodeRanges(ways=(2, 5), shots=(1, 3), queries=2, tokens=300)


@given(
    tokens=st.integers(1, 2000),
    multiple=st.integers(1, 9),
    ways=st.integers(2, 9),
    shots=st.integers(1, 5),
    queries=st.integers(1, 5),
)
def test_episodes_fill_the_tokens_in_multiples(
    tokens: int, multiple: int, ways: int, shots: int, queries: int
) -> None:
    ranges = EpisodeRanges(
        ways=(ways, ways), shots=(shots, shots), queries=queries, tokens=tokens, multiple=multiple
    )
    shape = GaussianTasks().choose_batch(ranges, stream(0)).shape
    one = ways * (shots + queries)

    assert shape.episodes % multiple == 0
    assert shape.episodes == multiple or shape.episodes * one <= tokens
    assert (shape.episodes + multiple) * one > tokens


def test_shapes_are_uniform_over_the_ranges() -> None:
    generator = stream(0)
    batches = [GaussianTasks().choose_batch(RANGES, generator) for _ in range(1200)]
    shapes = [(batch.shape.ways, batch.shape.shots) for batch in batches]
    counts = [shapes.count((ways, shots)) for ways in range(2, 6) for shots in range(1, 4)]

    assert sum(counts) == 1200
    assert stats.chisquare(counts).pvalue > 1e-3


def test_fixed_ranges_hold_one_shape() -> None:
    ranges = EpisodeRanges.fixed(episodes=7, ways=4, shots=2, queries=3)
    shape = GaussianTasks(feature_dims=(6,)).choose_batch(ranges, stream(0)).shape

    assert shape == BatchShape(
        source="gaussian", feature_dim=6, ways=4, shots=2, queries=3, episodes=7
    )


def test_shards_are_equal_and_adjacent() -> None:
    shape = BatchShape(source="s", feature_dim=1, ways=2, shots=1, queries=1, episodes=12)

    assert [shape.shard(rank, 3) for rank in range(3)] == [slice(0, 4), slice(4, 8), slice(8, 12)]
    message = "cannot be shared out evenly: got 12 episodes for 5 processes; .* Set `multiple`"
    with pytest.raises(UserError, match=message):
        shape.shard(0, 5)


def test_recipe_table_builds_the_ranges() -> None:
    table = {"ways": [2, 5], "shots": [1, 3], "queries": 2, "tokens": 300, "query_shares": "random"}

    expected = replace(RANGES, query_shares=QueryShares.RANDOM)
    assert from_table(EpisodeRanges, table, "episodes") == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ways": (1, 3)}, r"ways is out of range: got \(1, 3\); allowed: .* 2 <= low <= high"),
        ({"ways": (3,)}, r"ways is out of range: got \(3,\)"),
        ({"shots": (2, 1)}, r"shots is out of range: got \(2, 1\); allowed: .* 1 <= low"),
        ({"queries": 0}, "queries is out of range: got 0; allowed: 1 or more"),
        ({"tokens": 0}, "tokens is out of range: got 0"),
        ({"multiple": 0}, "multiple is out of range: got 0"),
        ({"concentration": 0.0}, "concentration is out of range: got 0.0; allowed: a number above"),
    ],
)
def test_wrong_ranges_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        replace(RANGES, **changes)


def test_some_batches_are_balanced_although_shares_are_random() -> None:
    ranges = replace(RANGES, query_shares=QueryShares.RANDOM, balanced=0.3)
    batches = [GaussianTasks().choose_batch(ranges, stream(seed)) for seed in range(1000)]
    shares = [batch.shape.query_shares for batch in batches]
    count = shares.count(QueryShares.BALANCED)
    assert stats.binomtest(count, 1000, 0.3).pvalue > 1e-4


def test_a_share_outside_0_and_1_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"balanced is out of range: got 1\.5"):
        replace(RANGES, balanced=1.5)


@pytest.mark.parametrize("name", ["episodes", "shots", "queries"])
def test_counts_below_one_are_refused(name: str) -> None:
    counts = {"episodes": 1, "shots": 1, "queries": 1}
    check_counts(**counts)
    with pytest.raises(UserError, match=f"{name} are too few: got 0; allowed: 1 or more"):
        check_counts(**{**counts, name: 0})
