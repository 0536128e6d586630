from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unitail.errors import InvalidEpisode
from unitail.randomness import stream
from unitail.tasks import assemble as instances
from unitail.tasks.assemble import (
    MIN_SHARE,
    class_major,
    distinct_places,
    draw_candidates,
    draw_classes,
    draw_shares,
    max_candidates,
    random_order,
    split_rows,
)
from unitail.tasks.batches import BatchShape, QueryShares

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


SHAPE = BatchShape(
    source="test",
    feature_dim=1,
    ways=4,
    shots=2,
    queries=5,
    episodes=4000,
    query_shares=QueryShares.RANDOM,
)


@pytest.mark.parametrize("concentration", [0.3, 1.0, 4.0])
def test_shares_are_dirichlet(concentration: float) -> None:
    shares = draw_shares(replace(SHAPE, concentration=concentration), stream(0)).double()
    shares = shares / shares.sum(dim=1, keepdim=True)

    law = stats.beta(concentration, 3 * concentration)  # the law of one of four shares
    assert stats.kstest(shares[:, 0].numpy(), law.cdf).pvalue > 1e-3
    assert torch.allclose(shares.mean(dim=0), torch.full((4,), 0.25).double(), atol=0.02)


def test_tiny_concentrations_give_one_class_everything() -> None:
    shares = draw_shares(replace(SHAPE, concentration=0.01), stream(0))

    assert (shares.amax(dim=1) == 1).all()
    assert float((shares > 0.01).sum(dim=1).float().mean()) < 1.3
    assert float(shares.min()) == pytest.approx(MIN_SHARE)


@pytest.mark.parametrize(("ways", "absent"), [(2, 1), (4, 2), (5, 2)])
def test_half_of_the_classes_may_have_no_query(ways: int, absent: int) -> None:
    shape = replace(SHAPE, ways=ways, query_shares=QueryShares.ABSENT)
    counts = _counts(draw_classes(shape, stream(0))[:, shape.num_support :], ways)
    available = torch.full((shape.episodes, ways), 4 * shape.queries)
    chosen = draw_candidates(shape, available, 4 * shape.queries, stream(0))

    for each in (counts, _counts(chosen // (4 * shape.queries), ways)):
        present = each > 0
        assert float((present.sum(dim=1) == ways - absent).float().mean()) > 0.98
        assert (present.sum(dim=1) <= ways - absent).all()
        assert stats.chisquare(present.sum(dim=0).numpy()).pvalue > 1e-3, "any of them"
        asked = each.sum(dim=0) / present.sum(dim=0)
        expected = torch.full_like(asked, shape.num_query / (ways - absent))
        assert torch.allclose(asked, expected, rtol=0.02), "the others alike"


def test_absent_classes_fill_up_where_others_run_out() -> None:
    shape = replace(SHAPE, episodes=200, query_shares=QueryShares.ABSENT)
    available = torch.full((200, 4), shape.queries)
    chosen = draw_candidates(shape, available, shape.queries, stream(0))
    assert (_counts(chosen // shape.queries, 4) == shape.queries).all()


def test_balanced_classes_are_class_by_class() -> None:
    shape = replace(SHAPE, query_shares=QueryShares.BALANCED, episodes=3, ways=2, queries=3)

    assert draw_classes(shape, stream(0)).tolist() == [[0, 0, 1, 1, 0, 0, 0, 1, 1, 1]] * 3


def _counts(classes: torch.Tensor, ways: int) -> torch.Tensor:
    return torch.nn.functional.one_hot(classes, ways).sum(dim=1)


def _check_counts_are_dirichlet_multinomial(counts: torch.Tensor) -> None:
    """With concentration 1 all compositions of m into K counts are equally probable."""
    law = stats.betabinom(SHAPE.num_query, 1, 3)
    seen = torch.bincount(counts[:, 0], minlength=SHAPE.num_query + 1).numpy()
    expected = law.pmf(range(SHAPE.num_query + 1)) * len(counts)
    common = expected > 5
    seen = [*seen[common], seen[~common].sum()]
    expected = [*expected[common], expected[~common].sum()]
    assert stats.chisquare(seen, expected).pvalue > 1e-3


def test_unlimited_queries_follow_the_shares() -> None:
    classes = draw_classes(SHAPE, stream(0))
    assert classes[0, : SHAPE.num_support].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    _check_counts_are_dirichlet_multinomial(_counts(classes[:, SHAPE.num_support :], SHAPE.ways))


def test_candidates_follow_the_shares_while_they_last() -> None:
    available = torch.full((SHAPE.episodes, SHAPE.ways), SHAPE.num_query)
    chosen = draw_candidates(SHAPE, available, SHAPE.num_query, stream(0))

    _check_counts_are_dirichlet_multinomial(_counts(chosen // SHAPE.num_query, SHAPE.ways))


def test_the_order_of_queries_means_nothing() -> None:
    available = torch.full((SHAPE.episodes, SHAPE.ways), SHAPE.num_query)
    chosen = draw_candidates(SHAPE, available, SHAPE.num_query, stream(0)) // SHAPE.num_query
    table = torch.stack(
        [_counts(chosen[:, [place]], SHAPE.ways).sum(dim=0) for place in (0, 10, 19)]
    )

    assert stats.chi2_contingency(table.numpy()).pvalue > 1e-3


@given(
    available=st.lists(st.integers(2, 9), min_size=2, max_size=5),
    concentration=st.sampled_from([1e-3, 0.1, 1.0, 100.0]),
    seed=st.integers(0, 99),
)
def test_a_class_that_runs_out_leaves_its_share_to_others(
    available: list[int], concentration: float, seed: int
) -> None:
    shape = replace(SHAPE, episodes=5, ways=len(available), queries=2, concentration=concentration)
    most = max_candidates(shape, shape.shots + max(available))
    rows = torch.tensor(available).expand(5, -1)
    chosen = draw_candidates(shape, rows, most, stream(seed))  # (5, m)

    assert chosen.shape == (5, shape.num_query)
    assert all(len(set(row)) == len(row) for row in chosen.tolist())
    assert (chosen % most < rows.gather(1, chosen // most)).all()


def test_candidates_are_capped() -> None:
    assert max_candidates(SHAPE, 12) == 10
    assert max_candidates(SHAPE, 1000) == 20
