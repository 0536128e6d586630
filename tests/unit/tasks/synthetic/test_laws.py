import pytest

from unitail.errors import InvalidConfig
from unitail.tasks.synthetic.laws import check_range, check_sizes, noise_size


def test_noise_keeps_wide_tasks_from_being_trivial() -> None:
    assert noise_size(8) == 1
    assert noise_size(128) == 2


def test_what_is_no_range_and_no_size_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"scale is out of range: got \(0, 1\)"):
        check_range("scale", (0, 1))
    with pytest.raises(InvalidConfig, match=r"widths is out of range: got \(2, 0\)"):
        check_sizes(widths=(2, 0))
