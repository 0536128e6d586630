from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from helpers.tables import Table, numbered_table
from unitail.banks.splits import split_classes
from unitail.baselines.proto_head import ProtoHead
from unitail.errors import UserError
from unitail.framework.episode import Episode
from unitail.randomness import stream
from unitail.tasks import assemble as instances
from unitail.tasks.query_shares import MOST_QUERIES
from unitail.tasks.sampling import BankEpisodes
from unitail.tasks.shapes import BatchPlan, EpisodeRanges, QueryShares

PLAN = BatchPlan(source="encoder", feature_dim=3, ways=3, shots=2, queries=2, episodes=50)
RANDOM = QueryShares.RANDOM


def _numbers(episode: Episode) -> torch.Tensor:
    """Return the numbers of all rows, support first, (B, n + m)."""
    return torch.cat([episode.support.features, episode.query.features], dim=1)[..., 0].long()


def _classes(episode: Episode) -> torch.Tensor:
    assert episode.query.class_indices is not None
    return torch.cat([episode.support.class_indices, episode.query.class_indices], dim=1)


def _homes(tables: list[Table]) -> dict[int, tuple[str, int]]:
    """Return where each row number comes from: data set and class."""
    return {
        int(row[0]): (table.name, int(index))
        for table in tables
        for row, index in zip(table.features, table.class_indices, strict=True)
    }


def _follows(counts: NDArray[np.int64], law: list[int]) -> bool:
    """Tell whether counts are in proportion to a law, and none is where it has nothing."""
    possible = np.array(law) > 0
    expected = counts.sum() * np.array(law)[possible] / sum(law)
    if counts[~possible].any():
        return False
    return len(expected) == 1 or stats.chisquare(counts[possible], expected).pvalue > 1e-3


@given(
    shapes=st.lists(st.lists(st.integers(3, 9), min_size=2, max_size=6), min_size=1, max_size=3),
    shares=st.sampled_from(QueryShares),
    data=st.data(),
)
def test_episodes_are_different_rows_of_different_classes_of_one_data_set(
    shapes: list[list[int]], shares: QueryShares, data: st.DataObject
) -> None:
    tables = [
        numbered_table(sizes, name=f"set{number}", first=100 * number)
        for number, sizes in enumerate(shapes)
    ]
    shots = data.draw(st.integers(1, 2))
    plan = replace(
        PLAN,
        episodes=data.draw(st.integers(1, 6)),
        ways=data.draw(st.integers(2, max(len(sizes) for sizes in shapes))),
        shots=shots,
        queries=data.draw(st.integers(1, 3 - shots)),
        query_shares=shares,
    )
    episode = BankEpisodes(tables).sample(plan, stream(data.draw(st.integers(0, 99))))
    episode.check_values()
    homes = _homes(tables)

    for numbers, classes in zip(
        _numbers(episode).tolist(), _classes(episode).tolist(), strict=True
    ):
        assert len(set(numbers)) == len(numbers)
        assert len({homes[number][0] for number in numbers}) == 1
        pairs = {(homes[number], index) for number, index in zip(numbers, classes, strict=True)}
        assert len(pairs) == plan.ways  # one class of the data set for each class of the episode
        assert len({index for _, index in pairs}) == plan.ways


@pytest.mark.parametrize(("ways", "law"), [(2, [2, 4, 10]), (3, [0, 4, 10]), (5, [0, 0, 10])])
def test_data_sets_come_in_proportion_to_their_classes(ways: int, law: list[int]) -> None:
    tables = [
        numbered_table([8] * count, name=f"set{number}", first=1000 * number)
        for number, count in enumerate((2, 4, 10))
    ]
    episode = BankEpisodes(tables).sample(replace(PLAN, episodes=3000, ways=ways), stream(ways))
    counts = torch.bincount(_numbers(episode)[:, 0] // 1000, minlength=3)

    assert _follows(counts.numpy(), law)


def test_weights_replace_the_number_of_classes() -> None:
    tables = [numbered_table([8] * 4, name=name, first=100 * n) for n, name in enumerate("abc")]
    source = BankEpisodes(tables, weights={"a": 12.0, "c": 0.0})
    episode = source.sample(replace(PLAN, episodes=2000), stream(0))
    counts = torch.bincount(_numbers(episode)[:, 0] // 100, minlength=3)

    assert _follows(counts.numpy(), [12, 4, 0])


@pytest.mark.parametrize(("ways", "law"), [(2, [6, 12]), (4, [4, 12]), (5, [0, 12])])
def test_encoders_come_in_proportion_to_the_weight_of_their_data_sets(
    ways: int, law: list[int]
) -> None:
    tables = [
        numbered_table([8] * 4, name="a"),
        numbered_table([8] * 2, name="b"),
        numbered_table([8] * 12, name="a", encoder="other", width=5),
    ]
    source, generator = BankEpisodes(tables), stream(0)
    ranges = EpisodeRanges.fixed(episodes=1, ways=ways, shots=1, queries=1)
    plans = [source.plan(ranges, generator) for _ in range(600)]
    counts = Counter((plan.source, plan.group, plan.feature_dim) for plan in plans)

    assert _follows(np.array([counts["encoder", 0, 3], counts["other", 1, 5]]), law)


def test_ways_are_uniform_up_to_the_largest_data_set() -> None:
    source = BankEpisodes([numbered_table([9, 9, 9, 9, 9, 3]), numbered_table([9, 9], name="b")])
    ranges = EpisodeRanges(ways=(2, 50), shots=(2, 2), queries=2, tokens=100)
    generator = stream(0)
    ways = [source.plan(ranges, generator).ways for _ in range(800)]
    counts = [ways.count(number) for number in range(2, 6)]  # one class is too small

    assert sum(counts) == 800
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("shares", QueryShares)
def test_classes_and_rows_are_drawn_uniformly(shares: QueryShares) -> None:
    table = numbered_table([4, 9, 6, 5])
    plan = replace(PLAN, ways=2, episodes=6000, query_shares=shares, concentration=50.0)
    episode = BankEpisodes([table]).sample(plan, stream(0))

    classes = torch.from_numpy(table.class_indices)
    ordered = episode.support.class_indices.argsort(dim=1)[:, [0, -1]]  # a row of each class
    rows = episode.support.features[..., 0].long().gather(1, ordered)
    pairs = Counter(map(tuple, classes[rows].tolist()))
    assert len(pairs) == 12  # ordered pairs of different classes
    assert stats.chisquare(list(pairs.values())).pvalue > 1e-3
    for part in (episode.support, episode.query):
        counts = torch.bincount(part.features[..., 0].long().flatten(), minlength=24)
        for index in range(4):
            assert stats.chisquare(counts[classes == index].numpy()).pvalue > 1e-3


def test_a_class_takes_part_if_it_has_enough_rows() -> None:
    table = numbered_table([4, 9, 6, 3])
    for rows, expected in ((3, {0, 1, 2, 3}), (4, {0, 1, 2}), (5, {1, 2})):
        plan = replace(PLAN, ways=2, shots=1, queries=rows - 1, episodes=200)
        numbers = _numbers(BankEpisodes([table]).sample(plan, stream(0)))
        assert set(table.class_indices[numbers].flatten()) == expected
    assert BankEpisodes([table]).dropped_classes(5) == {"encoder/set": 2}
    assert BankEpisodes([table]).dropped_classes(3) == {}


def test_random_shares_vary_and_are_fair() -> None:
    source = BankEpisodes([numbered_table([60] * 8)])
    plan = replace(PLAN, ways=4, queries=10, episodes=2000, query_shares=RANDOM)
    episode = source.sample(plan, stream(0))
    assert episode.query.class_indices is not None
    counts = torch.nn.functional.one_hot(episode.query.class_indices, 4).sum(dim=1)  # (B, K)

    assert torch.allclose(counts.float().mean(dim=0), torch.full((4,), 10.0), atol=0.7)
    assert float(counts.float().std(dim=0).mean()) > 6  # Dirichlet(1) has 8; equal shares 2.7
    assert counts.max() <= MOST_QUERIES * 10
    assert (counts == 0).any()
    assert (episode.support.shots() == 2).all()


@pytest.mark.parametrize("shares", QueryShares)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_streamed_episodes_are_the_resident_ones(
    tmp_path: Path, shares: QueryShares, dtype: str
) -> None:
    tables = [
        numbered_table([9] * 5, name="a", dtype=dtype),
        numbered_table([12, 7, 8], name="b", first=100, dtype=dtype),
    ]
    for table in tables:
        np.save(tmp_path / f"{table.name}.npy", table.features)
    mapped = [
        replace(table, features=np.load(tmp_path / f"{table.name}.npy", mmap_mode="r"))
        for table in tables
    ]
    resident, streamed = BankEpisodes(tables), BankEpisodes(mapped, resident_bytes=0)
    assert (resident.resident, streamed.resident) == ((True,), (False,))
    plan = replace(PLAN, query_shares=shares)
    one, other = (source.sample(plan, stream(0)) for source in (resident, streamed))

    assert one.query.features.dtype == other.query.features.dtype == torch.float32
    assert torch.equal(one.support.features, other.support.features)
    assert torch.equal(one.query.features, other.query.features)
    assert torch.equal(_classes(one), _classes(other))


def test_encoders_stay_on_the_device_as_far_as_there_is_room() -> None:
    tables = [numbered_table([4, 4], encoder=encoder) for encoder in "abc"]
    room = 8 * 3 * 4  # rows, width, bytes

    for resident_bytes, expected in ((0, 0), (room, 1), (2 * room + 1, 2), (3 * room, 3)):
        assert sum(BankEpisodes(tables, resident_bytes=resident_bytes).resident) == expected


@pytest.mark.parametrize("shares", QueryShares)
def test_memory_limits_do_not_change_episodes(
    monkeypatch: pytest.MonkeyPatch, shares: QueryShares
) -> None:
    source = BankEpisodes([numbered_table([9, 20, 30, 8])])
    plan = replace(PLAN, query_shares=shares)
    whole = source.sample(plan, stream(0))
    for keys in (1, 100, 1000):
        monkeypatch.setattr(instances, "KEYS_AT_ONCE", keys)
        assert torch.equal(_numbers(source.sample(plan, stream(0))), _numbers(whole))


def test_held_out_classes_give_episodes_of_their_own() -> None:
    table = numbered_table([6] * 10)
    training, held_out = split_classes(table, 0.4, seed=0)
    plan = replace(PLAN, ways=4, episodes=300)
    sides = [
        set(table.class_indices[_numbers(BankEpisodes([side]).sample(plan, stream(0)))].flatten())
        for side in (training, held_out)
    ]

    assert [len(side) for side in sides] == [6, 4]
    assert not sides[0] & sides[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group": 1}, r"the plan is for another source: got group 1 of width 3; allowed: a group"),
        ({"feature_dim": 4}, r"another source: got group 0 of width 4; .* its width, of \[3\]"),
        ({"ways": 4}, "enough classes .*: got 4 ways of 4 rows .*; allowed: at most 3 ways of so"),
        ({"shots": 7}, "enough classes with enough rows: got 3 ways of 9 rows .*: at most 2 ways"),
    ],
)
def test_plans_that_cannot_be_fulfilled_are_refused(changes: dict[str, Any], message: str) -> None:
    source = BankEpisodes([numbered_table([9, 9, 8])])
    with pytest.raises(UserError, match=message):
        source.sample(replace(PLAN, **changes), stream(0))


def test_ranges_that_some_batch_could_not_fulfil_are_refused() -> None:
    source = BankEpisodes([numbered_table([9, 9, 8]), numbered_table([3, 3], name="small")])
    ranges = EpisodeRanges(ways=(2, 3), shots=(1, 5), queries=2, tokens=100)
    source.plan(ranges, stream(0))

    for changes, message in (
        ({"ways": (4, 5)}, "no data set has enough classes with enough rows: got 4 ways of 7 rows"),
        ({"shots": (1, 8)}, "enough rows: got 2 ways of 10 rows .* at most 0 ways"),
        ({"queries": 3}, "encoder/small has too few classes .*: got 0 of 2 classes; allowed: 2 or"),
    ):
        for seed in range(3):  # at once, not when a batch of that shape happens to come
            with pytest.raises(UserError, match=message):
                source.plan(replace(ranges, **changes), stream(seed))


@pytest.mark.parametrize(
    ("count", "weights", "message"),
    [
        (0, {}, "episodes need feature banks: got none"),
        (1, {"sett": 1.0}, "weight of a data set is wrong: got sett = 1.0; .* one of set"),
        (1, {"set": -1.0}, "weight of a data set is wrong: got set = -1.0; allowed: 0 or more"),
        (1, {"set": 0.0}, "all data sets have weight 0"),
        (2, {}, "a data set comes twice: got encoder/set"),
    ],
)
def test_wrong_sources_are_refused(count: int, weights: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        BankEpisodes([numbered_table([3, 3])] * count, weights=weights)


BIRDS = Path(__file__).parents[4] / "shared" / "data" / "banks" / "efflite0" / "cub200.npz"


@pytest.mark.skipif(not BIRDS.exists(), reason="the shared feature banks are not here")
def test_prototypes_on_real_birds_are_as_accurate_as_known() -> None:
    bank = np.load(BIRDS)
    features = ((bank["q"] / np.float32(255)) ** 2 * bank["scale"]).astype(np.float16)
    names = tuple(map(str, bank["classes"]))
    table = Table("cub200", "efflite0", features, bank["y"].astype(np.int64), names)
    plan = replace(PLAN, feature_dim=1280, ways=5, shots=1, queries=10, episodes=400)
    episode = BankEpisodes([table]).sample(plan, stream(0))
    answers = ProtoHead().infer(episode.support, episode.query.features).argmax(dim=-1)

    accuracy = float((answers == episode.query.class_indices).float().mean())
    assert accuracy == pytest.approx(0.689, abs=0.03)  # shared/data/README.md
