"""X as users pass it: masked values stay masked, and mistakes are reported."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from unitail.errors import InvalidInput
from unitail.estimator.classifier import TailClassifier

X = np.array([[0.0, 1.0], [0.2, 1.0], [5.0, 1.0], [5.2, 1.0]])
FRAME = pd.DataFrame(X, columns=["a", "b"])


def test_what_is_masked_is_missing() -> None:
    hidden = np.ma.masked_equal(X, 5.0)
    shown = np.where(hidden.mask, np.nan, X)
    classifier = TailClassifier(device="cpu").fit(hidden, [0, 0, 1, 1])
    expected = TailClassifier(device="cpu").fit(shown, [0, 0, 1, 1])
    np.testing.assert_array_equal(classifier.predict_proba(hidden), expected.predict_proba(shown))
    assert not np.array_equal(classifier.predict_proba(hidden), classifier.predict_proba(X))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_tensors_of_torch_are_rows_with_a_gradient_or_without(dtype: torch.dtype) -> None:
    tensor = torch.tensor(4 * X, dtype=dtype, requires_grad=True)
    rows = tensor.detach().double().numpy()
    classifier = TailClassifier(device="cpu").fit(tensor, [0, 0, 1, 1])
    expected = TailClassifier(device="cpu").fit(rows, [0, 0, 1, 1])
    np.testing.assert_array_equal(classifier.predict_proba(tensor), expected.predict_proba(rows))


@pytest.mark.parametrize(
    ("column", "got"),
    [
        (["red", "red", "blue", "blue"], "columns 'more'"),
        (pd.Categorical(["red", "red", "blue", "blue"]), "columns 'more'"),
        (pd.to_datetime(["2026-01-01"] * 4), "columns 'more'"),
    ],
)
def test_a_table_that_needs_an_encoder_says_so(column: Any, got: str) -> None:  # noqa: ANN401
    message = f"X holds values that are not numbers: got {got}; allowed: .*encoder='auto'"
    frame = FRAME.assign(more=column)
    with pytest.raises(InvalidInput, match=message):
        TailClassifier(device="cpu").fit(frame, [0, 0, 1, 1])
    with pytest.raises(
        InvalidInput, match="not numbers: got could not convert string to float: 'x'"
    ):
        TailClassifier(device="cpu").fit([[1.0], ["x"]], [0, 1])


def test_a_column_of_texts_alone_needs_an_encoder_too() -> None:
    texts = pd.Series(["a", "b", "a", "b"])
    fitted = TailClassifier(device="cpu").fit(X, [0, 0, 1, 1])
    message = "not numbers: got could not convert string to float: 'a'; .*encoder='auto'"
    with pytest.raises(InvalidInput, match=message):
        TailClassifier(device="cpu").fit(texts, [0, 1, 0, 1])
    with pytest.raises(InvalidInput, match=message):
        fitted.predict(texts)


@pytest.mark.parametrize("encoder", [None, "auto"])
@pytest.mark.parametrize("names", [["a", "a"], ["1", 1]])
def test_columns_of_one_name_are_reported(encoder: str | None, names: list[object]) -> None:
    message = (
        f"the table has several columns with the same name: got '{names[0]}'; allowed: distinct"
    )
    classifier = TailClassifier(device="cpu", encoder=encoder)
    with pytest.raises(InvalidInput, match=message):
        classifier.fit(FRAME.set_axis(names, axis=1), [0, 0, 1, 1])
