import sys
from types import ModuleType
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
from scipy import sparse

from unitail.errors import InvalidInput
from unitail.estimator.classifier import TailClassifier
from unitail.inputs import conversion
from unitail.inputs.conversion import converted

FRAME = pandas.DataFrame({"size": [1.0, 2.0, 8.0, 9.0], "colour": ["red", "red", "blue", "blue"]})
LABELS = ["small", "small", "large", "large"]


class Frame:
    """What is used of a polars.DataFrame, which has a shape but no dtype."""

    shape = FRAME.shape

    def to_dict(self, *, as_series: bool) -> dict[str, list[Any]]:
        assert not as_series
        return {str(name): list(FRAME[name]) for name in FRAME}


class Series:
    def to_list(self) -> list[str]:
        return ["a", "b"]


@pytest.fixture
def _polars(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("polars")
    module.__dict__.update(DataFrame=Frame, Series=Series)
    monkeypatch.setitem(sys.modules, "polars", module)


@pytest.mark.usefixtures("_polars")
def test_frames_of_polars_are_read() -> None:
    pandas.testing.assert_frame_equal(converted(Frame()), FRAME)
    assert converted(Series()) == ["a", "b"]
    classifier = TailClassifier(encoder="auto").fit(Frame(), LABELS)
    assert list(classifier.predict(Frame())) == LABELS
    assert list(classifier.predict(FRAME)) == LABELS


def test_tables_of_pyarrow_are_read() -> None:
    table = pyarrow.table({name: list(FRAME[name]) for name in FRAME})
    classifier = TailClassifier(encoder="auto").fit(table, LABELS)
    assert list(classifier.predict(table)) == LABELS
    numbers = table.select(["size"])
    assert list(TailClassifier().fit(numbers, LABELS).predict(numbers)) == LABELS
    assert converted(pyarrow.array(["a", "b"])) == ["a", "b"]
    assert converted(table.column("colour"))[0] == "red"


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_matrices_are_written_out(kind: type[Any]) -> None:
    dense = np.random.default_rng(0).normal(size=(8, 5))
    dense[dense < 0.5] = 0
    labels = np.arange(8) % 2
    classifier = TailClassifier(encoder="auto").fit(kind(dense), labels)
    expected = TailClassifier().fit(dense, labels).predict_proba(dense)
    np.testing.assert_array_equal(classifier.predict_proba(kind(dense)), expected)


def test_a_sparse_matrix_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "MAX_DENSE_BYTES", 8 * 100)
    assert converted(sparse.csr_array((10, 10))).shape == (10, 10)
    with pytest.raises(InvalidInput, match=r"got 10 rows of 11 columns.*TruncatedSVD"):
        converted(sparse.csr_array((10, 11)))


def test_others_stay_what_they_are() -> None:
    for rows in ([1, 2], FRAME, np.ones((2, 2)), ["a"]):
        assert converted(rows) is rows


def test_lists_are_left_as_they_are_without_asking_any_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Labels are often a list, and pass here with every call."""
    monkeypatch.setattr(conversion, "is_of", None)
    rows = ["a", "b"]
    assert converted(rows) is rows
