import numpy as np
import pytest

from unitail.errors import InvalidEpisode
from unitail.estimator.labels import check_same_kind, encode


def test_labels_are_sorted_and_numbered() -> None:
    labels = encode(np.array(["b", "a", "b", "c"]))
    assert list(labels.classes) == ["a", "b", "c"]
    assert list(labels.indices) == [1, 0, 1, 2]
    assert labels.indices.dtype == np.int64


def test_one_example_for_each_class_is_no_regression() -> None:
    """scikit-learn would warn, and warnings are errors here."""
    assert len(encode(np.arange(100)).classes) == 100
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        encode(np.array([0.5, 1.5, 2.5]))


def test_one_class_is_no_task() -> None:
    with pytest.raises(
        InvalidEpisode, match=r"got 1 class \(3\); .*Add labelled examples of another"
    ):
        encode(np.array([3, 3]))


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
        (np.array([1, 2]), np.array([True]), "truth values"),
    ],
)
def test_labels_of_two_kinds_do_not(known: np.ndarray, new: np.ndarray, got: str) -> None:
    with pytest.raises(InvalidEpisode, match=f"got {got}; allowed: .*, as in `fit`"):
        check_same_kind(known, new)
