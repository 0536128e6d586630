import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unitail.randomness import random_injections, stream


def _numbers(*names: str | int, seed: int = 0) -> torch.Tensor:
    return torch.rand(1000, generator=stream(seed, *names))


def test_same_seed_and_names_give_the_same_stream() -> None:
    assert torch.equal(_numbers("a", 1), _numbers("a", 1))


def test_other_seed_or_name_gives_an_independent_stream() -> None:
    streams = [_numbers("a"), _numbers("b"), _numbers("a", 1), _numbers("a", 2)]
    streams += [_numbers("a", seed=1), _numbers()]
    correlations = np.corrcoef(torch.stack(streams).numpy())

    assert np.abs(correlations - np.eye(len(streams))).max() < 0.15


def test_global_random_state_is_left_alone() -> None:
    before = torch.random.get_rng_state()
    random_injections(3, 2, 5, stream(0))

    assert torch.equal(before, torch.random.get_rng_state())


@settings(deadline=None)  # the first example warms up
@given(domain=st.integers(1, 12), extra=st.integers(0, 12), seed=st.integers(0, 100))
def test_injections_never_repeat_an_image(domain: int, extra: int, seed: int) -> None:
    images = random_injections(7, domain, domain + extra, stream(seed))

    assert images.shape == (7, domain)
    assert images.min() >= 0
    assert images.max() < domain + extra
    assert all(len(set(row)) == domain for row in images.tolist())


def test_injections_are_uniform() -> None:
    images = random_injections(12_000, 2, 4, stream(0))
    counts = torch.bincount(images[:, 0] * 4 + images[:, 1], minlength=16)
    possible = counts[~torch.eye(4, dtype=torch.bool).flatten()]  # 12 injections of [2] into [4]

    assert possible.sum() == 12_000
    assert stats.chisquare(possible.numpy()).pvalue > 1e-3


def test_whole_numbers_of_any_kind_are_the_same_seed() -> None:
    one, other = (torch.rand(3, generator=stream(seed, 1)) for seed in (2, np.int64(2)))
    assert torch.equal(one, other)
