import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from unitail.errors import InvalidEpisode
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.rows import plain_labels

X = np.array([[0.0, 1.0], [0.2, 1.0], [5.0, 1.0], [5.2, 1.0]])


def answers(y: Any) -> np.ndarray:  # noqa: ANN401
    return TailClassifier(device="cpu").fit(X, y).predict(X)


@pytest.mark.parametrize(
    ("given", "dtype", "kind"),
    [
        ([3, 3, 7, 7], "Int64", "i"),
        ([True, True, False, False], "boolean", "b"),
        (["u", "u", "v", "v"], "string", "U"),
        ([3, 3, 7, 7], "category", "i"),
        (["u", "u", "v", "v"], "category", "U"),
        ([3, 3, 7, 7], "int64", "i"),
        ([3, 3, 7, 7], "object", "i"),
        ([3.0, 3.0, 7.0, 7.0], "object", "f"),
        ([True, True, False, False], "object", "b"),
        (["u", "u", "v", "v"], "object", "O"),
    ],
)
def test_labels_of_pandas_come_back_as_they_are(given: list[Any], dtype: str, kind: str) -> None:
    said = answers(pd.Series(given, dtype=dtype))
    assert (said.tolist(), said.dtype.kind) == (given, kind)


@pytest.mark.parametrize(
    ("y", "got"),
    [
        (["a", None, "b", None], r"None in 2 rows \(1, 3\)"),
        (np.array(["a", np.nan, "b", "b"], dtype=object), r"nan in 1 row \(1\)"),
        ([0.0, 1.0, 1.0, np.nan], r"nan in 1 row \(3\)"),
        (np.array([0.0, 1.0, 1.0, np.nan]), r"nan in 1 row \(3\)"),
        (pd.Series(["a", pd.NA, "b", "b"], dtype="string"), r"<NA> in 1 row \(1\)"),
        (pd.Series([1, None, 2, 2], dtype="Int64"), r"<NA> in 1 row \(1\)"),
        (pd.Categorical(["a", None, "b", "b"]), r"nan in 1 row \(1\)"),
        (np.ma.masked_equal([1, 2, 3, 3], 2), r"None in 1 row \(1\)"),
    ],
)
def test_rows_without_a_label_are_reported(y: Any, got: str) -> None:  # noqa: ANN401
    message = f"rows without a label: got {got}; allowed: a label for each .* pool=.* reads rows"
    with pytest.raises(InvalidEpisode, match=message):
        answers(y)
    with pytest.raises(InvalidEpisode, match=message):
        TailClassifier(device="cpu").fit(X, [0, 0, 1, 1]).add(X, y)


@pytest.mark.parametrize(
    ("y", "got"),
    [
        ([1, 1, "a", "a"], "numbers and strings"),
        ([True, True, 2, 2], "booleans and numbers"),
        (np.array([1, 1, "a", "a"], dtype=object), "numbers and strings"),
        ([Decimal(1), Decimal(1), Decimal(2), Decimal(2)], "Decimal objects"),
        ([datetime.date(2026, 1, day) for day in (1, 1, 2, 2)], "date objects"),
    ],
)
def test_labels_that_would_be_changed_are_refused(y: Any, got: str) -> None:  # noqa: ANN401
    message = f"not of one kind that can be sorted: got {got}; allowed: strings, numbers or bool"
    with pytest.raises(InvalidEpisode, match=message):
        answers(y)


def test_labels_of_other_libraries_come_back_as_they_are() -> None:
    assert answers(torch.tensor([3, 3, 7, 7])).tolist() == [3, 3, 7, 7]
    assert answers(np.ma.masked_equal([3, 3, 7, 7], 2)).dtype.kind == "i", "as none is hidden"
    polars = pytest.importorskip("polars")
    assert answers(polars.Series(["u", "u", "v", "v"])).tolist() == ["u", "u", "v", "v"]
    with pytest.raises(InvalidEpisode, match=r"got None in 1 row \(1\)"):
        answers(polars.Series(["u", None, "v", "v"]))


def test_what_scikit_learn_checks_is_left_to_it() -> None:
    for y in (np.array([1, 2]), [[0, 1], [1, 0]], pd.DataFrame({"y": [1, 2]}), None, "ab"):
        assert plain_labels(y) is y
