import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from unitail.errors import InvalidEpisode, InvalidInput
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.given_data import plain_labels

X = np.array([[0.0, 1.0], [0.2, 1.0], [5.0, 1.0], [5.2, 1.0]])
FRAME = pd.DataFrame(X, columns=["a", "b"])


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
    ],
)
def test_rows_without_a_label_are_told(y: Any, got: str) -> None:  # noqa: ANN401
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
        ([datetime.date(2026, 1, day) for day in (1, 1, 2, 2)], "date objects"),
    ],
)
def test_labels_that_would_be_changed_are_refused(y: Any, got: str) -> None:  # noqa: ANN401
    message = f"not of one kind that can be sorted: got {got}; allowed: strings, numbers or bool"
    with pytest.raises(InvalidEpisode, match=message):
        answers(y)


def test_what_scikit_learn_checks_is_left_to_it() -> None:
    for y in (np.array([1, 2]), [[0, 1], [1, 0]], pd.DataFrame({"y": [1, 2]}), None, "ab"):
        assert plain_labels(y) is y


def test_what_is_masked_is_missing() -> None:
    hidden = np.ma.masked_equal(X, 5.0)
    shown = np.where(hidden.mask, np.nan, X)
    classifier = TailClassifier(device="cpu").fit(hidden, [0, 0, 1, 1])
    expected = TailClassifier(device="cpu").fit(shown, [0, 0, 1, 1])
    np.testing.assert_array_equal(classifier.predict_proba(hidden), expected.predict_proba(shown))
    assert not np.array_equal(classifier.predict_proba(hidden), classifier.predict_proba(X))


@pytest.mark.parametrize(
    ("column", "got"),
    [
        (["red", "red", "blue", "blue"], "columns 'more'"),
        (pd.Categorical(["red", "red", "blue", "blue"]), "columns 'more'"),
        (pd.to_datetime(["2026-01-01"] * 4), "columns 'more'"),
    ],
)
def test_a_table_that_needs_an_encoder_says_so(column: Any, got: str) -> None:  # noqa: ANN401
    message = f"X holds what is no number: got {got}; allowed: .*encoder='auto'"
    frame = FRAME.assign(more=column)
    with pytest.raises(InvalidInput, match=message):
        TailClassifier(device="cpu").fit(frame, [0, 0, 1, 1])
    with pytest.raises(InvalidInput, match="no number: got could not convert string to float: 'x'"):
        TailClassifier(device="cpu").fit([[1.0], ["x"]], [0, 1])


@pytest.mark.parametrize("encoder", [None, "auto"])
@pytest.mark.parametrize("names", [["a", "a"], ["1", 1]])
def test_columns_of_one_name_are_told(encoder: str | None, names: list[object]) -> None:
    message = f"the table has several columns of one name: got '{names[0]}'; allowed: distinct"
    classifier = TailClassifier(device="cpu", encoder=encoder)
    with pytest.raises(InvalidInput, match=message):
        classifier.fit(FRAME.set_axis(names, axis=1), [0, 0, 1, 1])
