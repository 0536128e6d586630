from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from unitail.errors import InvalidEpisode
from unitail.framework.episode import Query, Support

ROWS = [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]
CLASSES = [0, 1, 1]


@pytest.mark.parametrize(
    "convert",
    [
        lambda array: array.tolist(),
        torch.from_numpy,
        lambda array: np.flip(np.flip(array).copy()),  # negative strides
        lambda array: np.broadcast_to(array, array.shape),  # read only
        lambda array: array.astype(array.dtype.newbyteorder()),
        np.asfortranarray,
    ],
)
def test_arrays_of_any_layout_give_the_same_support(
    convert: Callable[[np.ndarray], Any],
) -> None:
    features, indices = np.array(ROWS), np.array(CLASSES)
    support = Support.from_arrays(convert(features), convert(indices))

    assert np.array_equal(support.features[0].numpy(), features)
    assert support.class_indices[0].tolist() == CLASSES


def test_whole_number_features_become_floats() -> None:
    assert Query.from_arrays(np.arange(6).reshape(3, 2)).features.dtype == torch.float32


def test_changing_the_array_afterwards_does_not_change_the_support() -> None:
    features = np.array(ROWS)
    support = Support.from_arrays(features, CLASSES)
    features[:] = np.nan

    assert support.features[0].tolist() == ROWS


@pytest.mark.parametrize(
    ("indices", "got"),
    [
        ([0.0, 1.0, 1.0], "float64"),
        (["cat", "dog", "dog"], "<U3"),
        ([False, True, True], "bool"),
        (torch.tensor([0.0, 1.0, 1.0]), r"torch\.float32"),
        (torch.tensor([False, True, True]), r"torch\.bool"),
    ],
)
def test_labels_that_are_no_class_indices_are_refused(indices: Any, got: str) -> None:  # noqa: ANN401
    message = (
        rf"class indices have the wrong type: got {got}; allowed: integers 0\.\.K-1\. Encode"
        r" them as numbers first, for instance with scikit-learn's LabelEncoder"
    )

    with pytest.raises(InvalidEpisode, match="support " + message):
        Support.from_arrays(ROWS, indices)
    with pytest.raises(InvalidEpisode, match="query " + message):
        Query.from_arrays(ROWS, indices)


@pytest.mark.parametrize(
    ("features", "got"),
    [
        ([["a"], ["b"], ["c"]], "<U1"),
        (np.array([[1, None]] * 3, dtype=object), "object"),
        (torch.zeros(3, 2, dtype=torch.bool), r"torch\.bool"),
        (torch.zeros(3, 2, dtype=torch.complex64), r"torch\.complex64"),
    ],
)
def test_features_that_are_no_numbers_are_refused(features: Any, got: str) -> None:  # noqa: ANN401
    message = (
        rf"query features have the wrong type: got {got}; allowed: numbers\. Encode them as numbers"
        " first, for instance with scikit-learn's OrdinalEncoder"
    )

    with pytest.raises(InvalidEpisode, match=message):
        Query.from_arrays(features)
