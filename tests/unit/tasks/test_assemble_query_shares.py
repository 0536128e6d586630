from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unitail.randomness import stream
from unitail.tasks.assemble import (
    MIN_SHARE,
    draw_candidates,
    draw_classes,
    draw_shares,
    max_candidates,
)
from unitail.tasks.batches import BatchShape, QueryShares

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


def test_the_order_of_queries_does_not_matter() -> None:
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
    count = max_candidates(shape, shape.shots + max(available))
    rows = torch.tensor(available).expand(5, -1)
    chosen = draw_candidates(shape, rows, count, stream(seed))  # (5, m)

    assert chosen.shape == (5, shape.num_query)
    assert all(len(set(row)) == len(row) for row in chosen.tolist())
    assert (chosen % count < rows.gather(1, chosen // count)).all()


def test_candidates_are_capped() -> None:
    assert max_candidates(SHAPE, 12) == 10
    assert max_candidates(SHAPE, 1000) == 20
