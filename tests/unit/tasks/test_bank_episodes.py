from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from helpers.tables import numbered_table
from unitail.banks.splits import split_classes
from unitail.banks.table import FeatureTable
from unitail.baselines.proto_head import ProtoHead
from unitail.errors import UserError
from unitail.framework.episode import Episode
from unitail.randomness import stream
from unitail.tasks import assemble
from unitail.tasks.assemble import MAX_SHARE_RATIO
from unitail.tasks.bank_episodes import BankEpisodes
from unitail.tasks.batches import EpisodeRanges, QueryShares

RANGES = EpisodeRanges.fixed(ways=3, shots=2, queries=2, episodes=50)
RANDOM = QueryShares.RANDOM


def _ranges(**changes: int) -> EpisodeRanges:
    return EpisodeRanges.fixed(**{"ways": 3, "shots": 2, "queries": 2, "episodes": 50, **changes})


def _draw(source: BankEpisodes, ranges: EpisodeRanges = RANGES, seed: int = 0) -> Episode:
    return source.choose_batch(ranges, stream(seed, "shape")).sample(stream(seed))


def _numbers(episode: Episode) -> torch.Tensor:
    """Return the numbers of all rows, support first, (B, n + m)."""
    return torch.cat([episode.support.features, episode.query.features], dim=1)[..., 0].long()


def _classes(episode: Episode) -> torch.Tensor:
    assert episode.query.class_indices is not None
    return torch.cat([episode.support.class_indices, episode.query.class_indices], dim=1)


def _homes(tables: list[FeatureTable]) -> dict[int, tuple[str, int]]:
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
    ways = data.draw(st.integers(2, max(len(sizes) for sizes in shapes)))
    ranges = _ranges(
        episodes=data.draw(st.integers(1, 6)),
        ways=ways,
        shots=shots,
        queries=data.draw(st.integers(1, 3 - shots)),
    )
    ranges = replace(ranges, query_shares=shares)
    episode = _draw(BankEpisodes(tables), ranges, data.draw(st.integers(0, 99)))
    episode.check_values()
    homes = _homes(tables)

    for numbers, classes in zip(
        _numbers(episode).tolist(), _classes(episode).tolist(), strict=True
    ):
        assert len(set(numbers)) == len(numbers)
        assert len({homes[number][0] for number in numbers}) == 1
        pairs = {(homes[number], index) for number, index in zip(numbers, classes, strict=True)}
        assert len(pairs) == ways  # one class of the data set for each class of the episode
        assert len({index for _, index in pairs}) == ways


@pytest.mark.parametrize(("ways", "law"), [(2, [2, 4, 10]), (3, [0, 4, 10]), (5, [0, 0, 10])])
def test_data_sets_come_in_proportion_to_their_classes(ways: int, law: list[int]) -> None:
    tables = [
        numbered_table([8] * count, name=f"set{number}", first=1000 * number)
        for number, count in enumerate((2, 4, 10))
    ]
    episode = _draw(BankEpisodes(tables), _ranges(episodes=3000, ways=ways), ways)
    counts = torch.bincount(_numbers(episode)[:, 0] // 1000, minlength=3)

    assert _follows(counts.numpy(), law)


def test_weights_replace_the_number_of_classes() -> None:
    tables = [numbered_table([8] * 4, name=name, first=100 * n) for n, name in enumerate("abc")]
    source = BankEpisodes(tables, weights={"a": 12.0, "c": 0.0})
    episode = _draw(source, _ranges(episodes=2000))
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
    shapes = [source.choose_batch(ranges, generator).shape for _ in range(600)]
    counts = Counter((shape.source, shape.feature_dim) for shape in shapes)

    assert _follows(np.array([counts["encoder", 3], counts["other", 5]]), law)


def test_ways_are_uniform_up_to_the_largest_data_set() -> None:
    source = BankEpisodes([numbered_table([9, 9, 9, 9, 9, 3]), numbered_table([9, 9], name="b")])
    ranges = EpisodeRanges(ways=(2, 50), shots=(2, 2), queries=2, tokens=100)
    generator = stream(0)
    ways = [source.choose_batch(ranges, generator).shape.ways for _ in range(800)]
    counts = [ways.count(number) for number in range(2, 6)]  # one class is too small

    assert sum(counts) == 800
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("shares", QueryShares)
def test_classes_and_rows_are_drawn_uniformly(shares: QueryShares) -> None:
    table = numbered_table([4, 9, 6, 5])
    ranges = replace(_ranges(ways=2, episodes=6000), query_shares=shares, concentration=50.0)
    episode = _draw(BankEpisodes([table]), ranges)

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
        ranges = _ranges(ways=2, shots=1, queries=rows - 1, episodes=200)
        numbers = _numbers(_draw(BankEpisodes([table]), ranges))
        assert set(table.class_indices[numbers].flatten()) == expected


def test_random_shares_vary_and_are_fair() -> None:
    source = BankEpisodes([numbered_table([60] * 8)])
    ranges = replace(_ranges(ways=4, queries=10, episodes=2000), query_shares=RANDOM)
    episode = _draw(source, ranges)
    assert episode.query.class_indices is not None
    counts = torch.nn.functional.one_hot(episode.query.class_indices, 4).sum(dim=1)  # (B, K)

    assert torch.allclose(counts.float().mean(dim=0), torch.full((4,), 10.0), atol=0.7)
    assert float(counts.float().std(dim=0).mean()) > 6  # Dirichlet(1) has 8; equal shares 2.7
    assert counts.max() <= MAX_SHARE_RATIO * 10
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
    ranges = replace(RANGES, query_shares=shares)
    one, other = (_draw(source, ranges) for source in (resident, streamed))

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
    ranges = replace(RANGES, query_shares=shares)
    whole = _draw(source, ranges)
    for keys in (1, 100, 1000):
        monkeypatch.setattr(assemble, "MAX_KEYS", keys)
        assert torch.equal(_numbers(_draw(source, ranges)), _numbers(whole))


def test_held_out_classes_give_episodes_of_their_own() -> None:
    table = numbered_table([6] * 10)
    training, held_out = split_classes(table, 0.4, seed=0)
    ranges = _ranges(ways=4, episodes=300)
    sides = [
        set(table.class_indices[_numbers(_draw(BankEpisodes([side]), ranges))].flatten())
        for side in (training, held_out)
    ]

    assert [len(side) for side in sides] == [6, 4]
    assert not sides[0] & sides[1]


def test_ranges_that_some_batch_could_not_fulfil_are_refused() -> None:
    source = BankEpisodes([numbered_table([9, 9, 8]), numbered_table([3, 3], name="small")])
    ranges = EpisodeRanges(ways=(2, 3), shots=(1, 5), queries=2, tokens=100)
    source.choose_batch(ranges, stream(0))

    for changes, message in (
        ({"ways": (4, 5)}, "no data set has enough classes .*: got 4 ways of 7 .* at most 3 ways"),
        ({"ways": (3, 3), "shots": (1, 7)}, "got 3 ways of 9 rows .* at most 2 ways with that"),
        ({"shots": (1, 8)}, "enough rows: got 2 ways of 10 rows .* at most 0 ways"),
        ({"queries": 3}, "encoder/small has too few classes .*: got 0 of 2 classes; allowed: 2 or"),
    ):
        for seed in range(3):  # at once, not when a batch of that shape happens to come
            with pytest.raises(UserError, match=message):
                source.choose_batch(replace(ranges, **changes), stream(seed))


@pytest.mark.parametrize(
    ("count", "weights", "message"),
    [
        (0, {}, "episodes need feature banks: got none"),
        (1, {"sett": 1.0}, "weight of a data set is wrong: got sett = 1.0; .* one of set"),
        (1, {"set": -1.0}, "weight of a data set is wrong: got set = -1.0; allowed: 0 or more"),
        (1, {"set": 0.0}, "all data sets have weight 0"),
        (2, {}, "a data set is listed twice: got encoder/set"),
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
    table = FeatureTable(
        name="cub200",
        encoder="efflite0",
        features=features,
        class_indices=bank["y"].astype(np.int64),
        class_names=names,
    )
    episode = _draw(BankEpisodes([table]), _ranges(ways=5, shots=1, queries=10, episodes=400))
    answers = ProtoHead().infer(episode.support, episode.query.features).argmax(dim=-1)

    accuracy = float((answers == episode.query.class_indices).float().mean())
    assert accuracy == pytest.approx(0.689, abs=0.03)
