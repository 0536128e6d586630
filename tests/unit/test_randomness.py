import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unitail.randomness import content_order, random_injections, stream


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


ROWS = np.random.default_rng(0).integers(0, 3, size=(400, 4)).astype(np.float64)  # with copies
CLASSES = np.random.default_rng(1).integers(0, 3, size=400)


def labelled(rows: np.ndarray, classes: np.ndarray, order: np.ndarray) -> list[tuple[float, ...]]:
    return [(*rows[place], classes[place]) for place in order]


def test_a_random_order_by_content_forgets_how_rows_came() -> None:
    expected = labelled(ROWS, CLASSES, content_order(ROWS, CLASSES, 0))
    for seed in range(3):
        shuffled = np.random.default_rng(seed).permutation(400)
        rows, classes = ROWS[shuffled], CLASSES[shuffled]
        assert labelled(rows, classes, content_order(rows, classes, 0)) == expected
    assert labelled(ROWS, CLASSES, content_order(ROWS, CLASSES, 1)) != expected


def test_names_of_classes_have_no_say_in_it() -> None:
    renamed = np.array([2, 0, 1])[CLASSES]
    order, other = (content_order(ROWS, classes, 0) for classes in (CLASSES, renamed))
    assert labelled(ROWS, renamed, order) == labelled(ROWS, renamed, other)


def test_one_row_more_moves_no_other_and_all_come_first_alike_often() -> None:
    different = np.random.default_rng(2).normal(size=(400, 2))
    order = content_order(different, CLASSES, 0)
    less = content_order(different[:-1], CLASSES[:-1], 0)
    assert order[order != 399].tolist() == less.tolist()
    firsts = np.array([content_order(ROWS, CLASSES, seed)[:100] for seed in range(60)])
    shares = [ROWS[first].mean(axis=0) for first in firsts]
    deviation = ROWS.std(axis=0) / (100 * 60) ** 0.5
    assert (np.abs(np.mean(shares, axis=0) - ROWS.mean(axis=0)) < 4 * deviation).all()
    first = firsts[0]
    assert len({tuple(row) for row in ROWS[first]}) > 50  # copies do not come together
