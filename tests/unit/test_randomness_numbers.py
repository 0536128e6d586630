import pytest
import torch
from scipy import stats

from unitail.randomness import PerEpisode, RangeLaw, choose, draw_between, pick, stream


def test_draws_include_both_bounds() -> None:
    generator = stream(0)
    assert {draw_between((2, 4), generator) for _ in range(60)} == {2, 3, 4}


def test_choices_follow_the_weights() -> None:
    generator = stream(0)
    chosen = [choose([1, 0, 2.5, 0.5], generator) for _ in range(800)]

    counts = [chosen.count(index) for index in range(4)]
    assert counts[1] == 0
    assert stats.chisquare([counts[0], *counts[2:]], [200, 500, 100]).pvalue > 1e-3


def test_a_logarithmic_law_favours_no_order_of_magnitude() -> None:
    drawn = [draw_between((2, 127), stream(seed), RangeLaw.LOGARITHMIC) for seed in range(2000)]
    assert (min(drawn), max(drawn)) == (2, 127)
    for low in (2, 4, 8, 16, 32, 64):  # six octaves, equally likely
        share = sum(low <= number < 2 * low for number in drawn) / len(drawn)
        assert stats.binomtest(round(share * 2000), 2000, 1 / 6).pvalue > 1e-4


def test_every_number_is_picked() -> None:
    generator = stream(0)
    assert {pick((3, 5, 8), generator) for _ in range(60)} == {3, 5, 8}


def test_numbers_lie_in_their_range_and_fill_it() -> None:
    numbers = PerEpisode(4000, stream(0))
    assert numbers.normal(2, 3).shape == (4000, 2, 3)
    even, orders = numbers.uniform((2, 6)), numbers.log_uniform((0.01, 100))
    assert even.shape == orders.shape == (4000, 1, 1)
    spread = numbers.uniform_matrix(2, 3)
    assert spread.shape == (4000, 2, 3)
    assert (spread.min() < 0.01) & (spread.max() > 0.99) & (spread.max() <= 1)
    assert even.min() >= 2
    assert even.max() <= 6
    assert even.mean() == pytest.approx(4, abs=0.1)
    assert orders.min() >= 0.01
    assert orders.max() <= 100
    assert (orders < 1).float().mean() == pytest.approx(0.5, abs=0.03)


def test_a_range_may_be_a_single_number() -> None:
    torch.testing.assert_close(
        PerEpisode(3, stream(0)).log_uniform((2, 2)), torch.full((3, 1, 1), 2.0)
    )
