from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.tables import numbered_table
from unitail.configuration import from_table
from unitail.errors import InvalidConfig, UserError
from unitail.framework.episode import Episode
from unitail.randomness import stream
from unitail.tasks.augmentation import Disguised
from unitail.tasks.bank_episodes import BankEpisodes
from unitail.tasks.batches import (
    BatchShape,
    EpisodeRanges,
    EpisodeSource,
    MixedSource,
    QueryShares,
    check_counts,
)
from unitail.tasks.synthetic.bags import RandomBagTasks
from unitail.tasks.synthetic.gaussian import GaussianTasks
from unitail.tasks.synthetic.networks import RandomNetworkTasks
from unitail.tasks.synthetic.tables import RandomTableTasks

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
        ({"concentrations": (1.0, -1.0)}, "concentrations is out of range: got -1.0"),
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


def test_each_batch_draws_one_of_the_concentrations_if_there_are_any() -> None:
    ranges = replace(RANGES, query_shares=QueryShares.RANDOM, concentrations=(0.1, 2.0))
    shapes = [GaussianTasks().choose_batch(ranges, stream(seed)).shape for seed in range(40)]
    assert {shape.concentration for shape in shapes} == {0.1, 2.0}
    [shape] = {GaussianTasks().choose_batch(RANGES, stream(0)).shape.concentration}
    assert shape == RANGES.concentration


def test_a_share_outside_0_and_1_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"balanced is out of range: got 1\.5"):
        replace(RANGES, balanced=1.5)


@pytest.mark.parametrize("name", ["episodes", "shots", "queries"])
def test_counts_below_one_are_refused(name: str) -> None:
    counts = {"episodes": 1, "shots": 1, "queries": 1}
    check_counts(**counts)
    with pytest.raises(UserError, match=f"{name} are too few: got 0; allowed: 1 or more"):
        check_counts(**{**counts, name: 0})


TABLES = [
    numbered_table([9] * 6, name="nine"),
    numbered_table([7, 30, 8, 12], name="uneven", first=100),
    numbered_table([6] * 5, name="nine", encoder="other", width=5, dtype="float16"),
]
SOURCES: dict[str, EpisodeSource] = {
    "gaussian": GaussianTasks(feature_dims=(3, 8)),
    "networks": RandomNetworkTasks(feature_dims=(4, 40), hidden_dims=(8, 32)),
    "bags": RandomBagTasks(feature_dims=(4, 40), sizes=(2, 8), parts=20),
    "tables": RandomTableTasks(columns=(1, 6)),
    "banks": BankEpisodes(TABLES),
    "streamed banks": BankEpisodes(TABLES, resident_bytes=0),
}
SOURCES["disguised"] = Disguised(SOURCES["banks"], 0.7)
SOURCES["mixed"] = MixedSource(tuple(SOURCES.values()), (1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0))
SOURCES["nested"] = MixedSource((SOURCES["mixed"], GaussianTasks()), (3.0, 1.0))


def _tensors(episode: Episode) -> list[torch.Tensor]:
    support, query = episode.support, episode.query
    assert query.class_indices is not None
    return [support.features, support.class_indices, query.features, query.class_indices]


@pytest.mark.parametrize("shares", QueryShares)
@pytest.mark.parametrize("name", SOURCES)
def test_the_shards_of_all_processes_make_up_the_whole_batch(
    name: str, shares: QueryShares
) -> None:
    source = SOURCES[name]
    for seed in range(6):
        batch = source.choose_batch(replace(RANGES, query_shares=shares), stream(seed))
        whole = _tensors(batch.sample(stream(seed)))
        for processes in (1, 2, 8):
            shards = [
                _tensors(batch.sample(stream(seed), batch.shape.shard(rank, processes)))
                for rank in range(processes)
            ]
            joined = [torch.cat(tensors) for tensors in zip(*shards, strict=True)]
            assert all(torch.equal(one, other) for one, other in zip(joined, whole, strict=True))


@pytest.mark.parametrize("shares", QueryShares)
@pytest.mark.parametrize("name", SOURCES)
def test_the_seed_decides(name: str, shares: QueryShares) -> None:
    source = SOURCES[name]
    ranges = replace(RANGES, query_shares=shares)
    first, again = (
        [source.choose_batch(ranges, stream(seed)) for seed in range(9)] for _ in range(2)
    )
    assert [batch.shape for batch in first] == [batch.shape for batch in again]
    assert len({batch.shape for batch in first}) > 3

    samples = (first[0].sample(stream(0)), again[0].sample(stream(0)), first[0].sample(stream(1)))
    one, same, other = map(_tensors, samples)
    assert all(torch.equal(left, right) for left, right in zip(one, same, strict=True))
    assert not torch.equal(one[0], other[0])


@pytest.mark.parametrize("shares", QueryShares)
@pytest.mark.parametrize("name", SOURCES)
def test_batches_have_the_shape_they_state(name: str, shares: QueryShares) -> None:
    source = SOURCES[name]
    for seed in range(12):
        batch = source.choose_batch(replace(RANGES, query_shares=shares), stream(seed))
        episode, shape = batch.sample(stream(seed)), batch.shape
        episode.check_values()
        assert episode.support.features.shape == (
            shape.episodes,
            shape.num_support,
            shape.feature_dim,
        )
        assert episode.query.features.shape == (shape.episodes, shape.num_query, shape.feature_dim)
        assert episode.support.features.dtype == torch.float32
        assert episode.ways == shape.ways
        assert (episode.support.shots() == shape.shots).all()


class _Operations(TorchDispatchMode):
    """Notes the operations that are made."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN204
        self.seen.add(func.name())
        if func.name() == "aten::index.Tensor" and any(i.dtype == torch.bool for i in args[1]):
            self.seen.add("nonzero, by way of an index")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("shares", QueryShares)
@pytest.mark.parametrize("name", ["gaussian", "networks", "banks", "disguised"])
def test_sampling_never_looks_at_values(name: str, shares: QueryShares) -> None:
    source = SOURCES[name]
    batch = source.choose_batch(replace(RANGES, query_shares=shares), stream(0))
    batch.sample(generator := stream(0))  # the first call brings the features in
    with _Operations() as operations:
        batch.sample(generator)

    waiting = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "multinomial")
    assert len(operations.seen) > 10
    assert not [name for name in operations.seen if any(word in name for word in waiting)]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="only a GPU can be waited for")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("shares", QueryShares)
@pytest.mark.parametrize("name", ["gaussian", "networks", "banks", "disguised"])
def test_sampling_does_not_wait_for_the_device(name: str, shares: QueryShares) -> None:
    source = SOURCES[name]
    batch = source.choose_batch(replace(RANGES, query_shares=shares), stream(0))
    generator = stream(0, device="cuda")
    batch.sample(generator)  # the first call brings the features to the device
    torch.cuda.set_sync_debug_mode("error")
    try:
        batch.sample(generator)
        shard = batch.sample(generator, batch.shape.shard(1, 2))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert shard.support.features.is_cuda


def test_a_mixture_takes_its_sources_by_weight() -> None:
    sources = tuple(GaussianTasks(feature_dims=(width,)) for width in (1, 2, 3))
    mixture = MixedSource(sources, (1.0, 0.0, 3.0))
    generator = stream(0)
    widths = [mixture.choose_batch(RANGES, generator).shape.feature_dim for _ in range(800)]

    assert widths.count(2) == 0
    assert stats.chisquare([widths.count(1), widths.count(3)], [200, 600]).pvalue > 1e-3


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((1.0,), "got 1 weights; allowed: one for each of 2 sources"),
        ((1.0, -1.0), "allowed: numbers of 0 or more, not all 0"),
        ((0.0, 0.0), "allowed: numbers of 0 or more, not all 0"),
    ],
)
def test_wrong_mixtures_are_refused(weights: tuple[float, ...], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        MixedSource((GaussianTasks(), GaussianTasks()), weights)
