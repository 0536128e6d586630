import pytest
import torch

from unitail.errors import InvalidConfig
from unitail.randomness import stream
from unitail.tasks.synthetic.laws import Draws, check_range, check_sizes, pick


def test_every_number_is_picked() -> None:
    generator = stream(0)
    assert {pick((3, 5, 8), generator) for _ in range(60)} == {3, 5, 8}


def test_numbers_lie_in_their_range_and_fill_it() -> None:
    draws = Draws(4000, stream(0))
    assert draws.normal(2, 3).shape == (4000, 2, 3)
    even, orders = draws.uniform((2, 6)), draws.log_uniform((0.01, 100))
    assert even.shape == orders.shape == (4000, 1, 1)
    assert even.min() >= 2
    assert even.max() <= 6
    assert even.mean() == pytest.approx(4, abs=0.1)
    assert orders.min() >= 0.01
    assert orders.max() <= 100
    assert (orders < 1).float().mean() == pytest.approx(0.5, abs=0.03)


def test_a_range_may_be_a_single_number() -> None:
    torch.testing.assert_close(Draws(3, stream(0)).log_uniform((2, 2)), torch.full((3, 1, 1), 2.0))


def test_what_is_no_range_and_no_size_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"scale is out of range: got \(0, 1\)"):
        check_range("scale", (0, 1))
    with pytest.raises(InvalidConfig, match=r"widths is out of range: got \(2, 0\)"):
        check_sizes(widths=(2, 0))
