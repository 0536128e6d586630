import numpy as np
import pytest

from unitail.errors import InvalidEpisode
from unitail.estimator.rows import Rows, as_support, check_same_kind, encode_labels


def test_labels_are_sorted_and_numbered() -> None:
    classes, indices = encode_labels(np.array(["b", "a", "b", "c"]))
    assert list(classes) == ["a", "b", "c"]
    assert list(indices) == [1, 0, 1, 2]
    assert indices.dtype == np.int64


def test_one_example_for_each_class_is_no_regression() -> None:
    """scikit-learn would warn, and warnings are errors here."""
    assert len(encode_labels(np.arange(100))[0]) == 100
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        encode_labels(np.array([0.5, 1.5, 2.5]))


def test_one_class_is_no_task() -> None:
    with pytest.raises(
        InvalidEpisode, match=r"got 1 class \(3\); .*Add labelled examples of another"
    ):
        encode_labels(np.array([3, 3]))


@pytest.mark.parametrize(
    ("known", "new"),
    [
        (np.array([1, 2]), np.array([2.5])),
        (np.array(["a"]), np.array(["longer"])),
        (np.array(["a"], dtype=object), np.array(["b"])),
        (np.array([True]), np.array([False])),
    ],
)
def test_labels_of_one_kind_go_together(known: np.ndarray, new: np.ndarray) -> None:
    check_same_kind(known, new)


@pytest.mark.parametrize(
    ("known", "new", "got"),
    [
        (np.array([1, 2]), np.array(["1"]), "strings"),
        (np.array(["a"]), np.array([1]), "numbers"),
        (np.array([1, 2]), np.array([True]), "booleans"),
    ],
)
def test_labels_of_two_kinds_do_not(known: np.ndarray, new: np.ndarray, got: str) -> None:
    with pytest.raises(InvalidEpisode, match=f"got {got}; allowed: .*, as in `fit`"):
        check_same_kind(known, new)


def test_rows_are_counted_taken_and_listed_by_class() -> None:
    rows = Rows(np.arange(10.0).reshape(5, 2), np.array([1, 0, 1, 2, 1]), 3)
    assert (len(rows), rows.shots.tolist()) == (5, [1, 3, 1])
    assert [places.tolist() for places in rows.members()] == [[1], [0, 2, 4], [3]]
    assert rows.take(np.array([3, 0])).features.tolist() == [[6, 7], [0, 1]]


def test_rows_make_one_support_or_a_batch_of_them() -> None:
    rows = Rows(np.arange(10.0).reshape(5, 2), np.array([1, 0, 1, 0, 1]), 2)
    whole = as_support(rows)
    batch = as_support(rows.take(np.array([0, 1])), rows.take(np.array([3, 4])))
    assert (whole.num_episodes, whole.num_support, whole.ways) == (1, 5, 2)
    assert batch.features.tolist() == [[[0, 1], [2, 3]], [[6, 7], [8, 9]]]
    assert batch.class_indices.tolist() == [[1, 0], [0, 1]]
