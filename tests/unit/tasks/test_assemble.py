import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unitail.errors import InvalidEpisode
from unitail.randomness import stream
from unitail.tasks import assemble as instances
from unitail.tasks.assemble import (
    class_major,
    distinct_places,
    random_order,
    split_rows,
)

few = st.integers(1, 4)


@settings(deadline=None)  # the first example warms up
@given(episodes=few, ways=st.integers(2, 5), shots=few, queries=few, width=few)
def test_the_first_rows_of_each_class_are_its_support(
    episodes: int, ways: int, shots: int, queries: int, width: int
) -> None:
    rows = torch.arange(episodes * ways * (shots + queries) * width).float()
    rows = rows.reshape(episodes, ways, shots + queries, width)
    episode = split_rows(rows, shots, stream(0))
    episode.check_values()
    support, query = episode.support, episode.query

    assert query.class_indices is not None
    for index in range(ways):
        own, asked = support.class_indices == index, query.class_indices == index
        assert _same_rows(support.features[own], rows[:, index, :shots])
        assert _same_rows(query.features[asked], rows[:, index, shots:])
    assert support.shots().tolist() == [[shots] * ways] * episodes


def _same_rows(some: torch.Tensor, expected: torch.Tensor) -> bool:
    """Compare rows (B N, d_T) in any order with (B, N, d_T); episodes may not be mixed up."""
    rows = some.reshape(expected.shape)
    return torch.equal(rows.sort(dim=1).values, expected)  # coordinates rise together


def test_support_and_queries_are_shuffled_apart() -> None:
    order = random_order(500, 6, 10, stream(0))
    support, query = order[:, :6], order[:, 6:]

    assert torch.equal(support.sort(dim=1).values, torch.arange(6).expand(500, 6))
    assert torch.equal(query.sort(dim=1).values, torch.arange(6, 16).expand(500, 10))
    assert len(support.unique(dim=0)) > 250  # of 720
    for place in range(6):
        assert stats.chisquare(support[:, place].bincount().numpy()).pvalue > 1e-3


def test_all_rows_in_the_support_leave_no_query() -> None:
    with pytest.raises(InvalidEpisode, match="the query is empty"):
        split_rows(torch.zeros(1, 2, 3, 4), 3, stream(0))


@given(
    sizes=st.lists(st.integers(1, 8), min_size=1, max_size=6),
    count=few,
    more=st.integers(0, 3),
    seed=st.integers(0, 99),
)
def test_places_are_different_and_real_ones_come_first(
    sizes: list[int], count: int, more: int, seed: int
) -> None:
    largest = max(*sizes, count) + more
    places = distinct_places(torch.tensor(sizes), count, largest, stream(seed))

    assert places.shape == (len(sizes), count)
    for size, row in zip(sizes, places.tolist(), strict=True):
        assert len(set(row)) == count
        assert all(place < size for place in row[:size])


def test_places_are_uniform_in_every_position() -> None:
    places = distinct_places(torch.full((5000, 2), 6), 3, 9, stream(0))  # (5000, 2, 3)

    for position in range(3):
        counts = torch.bincount(places[..., position].flatten(), minlength=6)
        assert stats.chisquare(counts.numpy()).pvalue > 1e-3


@pytest.mark.parametrize("keys", [1, 7, 64, 1000])
def test_places_do_not_depend_on_the_memory(monkeypatch: pytest.MonkeyPatch, keys: int) -> None:
    sizes = torch.randint(3, 17, (13, 4), generator=stream(0))
    whole = distinct_places(sizes, 3, 16, stream(1))
    monkeypatch.setattr(instances, "MAX_KEYS", keys)

    assert torch.equal(distinct_places(sizes, 3, 16, stream(1)), whole)


def test_class_major_order_puts_the_support_first() -> None:
    rows = torch.tensor([[[1, 2, 3], [4, 5, 6]]])

    assert class_major(rows, 1).tolist() == [[1, 4, 2, 3, 5, 6]]
