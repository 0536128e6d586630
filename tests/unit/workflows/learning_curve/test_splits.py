import numpy as np
import pytest

from unitail.errors import InvalidInput
from unitail.estimator.rows import Rows
from unitail.workflows.learning_curve import splits as own_splits
from unitail.workflows.learning_curve.splits import (
    MAX_CLASS_QUESTIONS,
    MIN_SPLITS,
    check_rows,
    leave_out_splits,
    random_splits,
    shot_series,
    thinned,
)


def rows_of(*sizes: int) -> Rows:
    indices = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    return Rows(np.zeros((len(indices), 2), np.float32), indices, len(sizes))


@pytest.mark.parametrize(
    ("sizes", "series"),
    [
        ((2, 2), (1,)),
        ((6, 6, 6), (1, 2, 3, 5)),
        ((14,) * 3, (1, 2, 3, 5, 10)),
        ((250, 250), (1, 2, 3, 5, 10, 20, 50, 100, 200)),
        ((3, 50, 4), (1, 2, 3)),  # as far as half the classes go
    ],
)
def test_shots_go_as_far_as_most_classes_do(
    sizes: tuple[int, ...], series: tuple[int, ...]
) -> None:
    assert shot_series(rows_of(*sizes)) == series


def test_a_split_shows_so_many_of_each_class_and_asks_others() -> None:
    rows = rows_of(6, 40)
    splits = random_splits(rows, 3, 30, seed=0)
    for support, query in zip(splits.support, splits.query, strict=True):
        assert np.bincount(rows.class_indices[support]).tolist() == [3, 3]
        assert np.bincount(rows.class_indices[query]).tolist() == [3, MAX_CLASS_QUESTIONS]
        assert len({*support, *query}) == len(support) + len(query)
    assert len(np.unique(splits.support, axis=0)) == 30


def test_small_classes_give_what_they_have_and_keep_one_row_back() -> None:
    rows = rows_of(1, 3, 9)
    splits = random_splits(rows, 5, 4, seed=0)
    assert np.bincount(rows.class_indices[splits.support[0]]).tolist() == [1, 2, 5]
    assert np.bincount(rows.class_indices[splits.query[0]]).tolist() == [0, 1, 4]


def test_of_many_classes_fewer_rows_are_asked() -> None:
    assert random_splits(rows_of(*[9] * 50), 2, 3, seed=0).query.shape == (3, 150)
    assert random_splits(rows_of(*[3] * 200), 2, 3, seed=0).query.shape == (3, 200)


def test_splits_depend_on_the_seed_alone() -> None:
    rows = rows_of(8, 8)
    first, again, other = (random_splits(rows, 2, 10, seed).support for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_large_supports_are_drawn_less_often() -> None:
    rows = rows_of(1000, 1000)
    assert random_splits(rows, 1, 200, 0).count == 200
    assert random_splits(rows, 200, 200, 0).count == 52
    assert random_splits(rows, 500, 200, 0).count == MIN_SPLITS


def test_each_row_is_left_out_once_with_one_of_every_class() -> None:
    rows = rows_of(1, 3, 5)
    groups = leave_out_splits(rows)
    asked = np.concatenate([part.query.ravel() for part in groups])
    assert sorted(asked) == np.flatnonzero(rows.class_indices > 0).tolist()
    for part in groups:
        for support, query in zip(part.support, part.query, strict=True):
            assert np.bincount(rows.class_indices[query], minlength=3).max() == 1
            assert sorted([*support, *query]) == list(range(9))


def test_very_many_rows_are_thinned_out_of_the_largest_classes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_splits, "MAX_ROWS", 25)
    rows = rows_of(5, 40)
    kept = thinned(rows, seed=0)
    assert np.bincount(rows.class_indices[kept]).tolist() == [5, 20]
    assert len(set(kept)) == 25
    assert (thinned(rows_of(5, 20), seed=0) == np.arange(25)).all()


@pytest.mark.parametrize("sizes", [(9,), (1, 1, 9)])
def test_too_few_examples_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match=r"too few labelled examples .* Label some more"):
        check_rows(rows_of(*sizes))
