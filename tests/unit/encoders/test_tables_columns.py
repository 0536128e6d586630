import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from unitail.encoders.tables import Kind, keys_of, kind_of, numbers_of

DAY = datetime.date(2020, 1, 2)
SECONDS = 1_577_923_200.0
"""Of that day."""


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([3, 4]),
        pd.Series([3.0, 4.0], dtype="float32"),
        pd.Series([3, 4], dtype="Int8"),
        pd.Series([3, 4], dtype="int64[pyarrow]"),
        pd.Series([3, 4], dtype="double[pyarrow]"),
        pd.Series([3, 4.0], dtype=object),
        pd.Series([Decimal(3), Decimal(4)]),
    ],
    ids=lambda column: str(column.dtype),
)
def test_numbers_of_every_type_are_numbers(column: pd.Series) -> None:
    column = (
        pd.concat([column, pd.Series([None], dtype=column.dtype)]) if _nullable(column) else column
    )
    assert kind_of(column) is Kind.NUMBER
    np.testing.assert_array_equal(numbers_of(column, Kind.NUMBER)[:2], [3, 4])
    assert np.isnan(numbers_of(column, Kind.NUMBER)[2:]).all()


def _nullable(column: pd.Series) -> bool:
    return column.dtype.kind not in "iu" or not isinstance(column.dtype, np.dtype)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([DAY, None]),
        pd.Series([DAY, None], dtype="date32[pyarrow]"),
        pd.to_datetime(pd.Series([DAY, None])),
        pd.to_datetime(pd.Series([DAY, None])).dt.tz_localize("UTC"),
        pd.Series(["2020-01-02", None]),
        pd.Series(["2020-01-02T01:00:00+01:00", None], dtype="string[pyarrow]"),
    ],
    ids=lambda column: str(column.dtype),
)
def test_dates_of_every_type_are_seconds(column: pd.Series) -> None:
    assert kind_of(column) is Kind.DATE
    np.testing.assert_array_equal(numbers_of(column, Kind.DATE), [SECONDS, np.nan])


def test_durations_are_seconds() -> None:
    column = pd.to_timedelta(pd.Series(["1min", None]))
    assert kind_of(column) is Kind.DURATION
    np.testing.assert_array_equal(numbers_of(column, Kind.DURATION), [60, np.nan])


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        (pd.Series([True, False]), ["True", "False"]),
        (pd.Series([True, None], dtype="boolean"), ["True", None]),
        (pd.Series([True, None], dtype="bool[pyarrow]"), ["True", None]),
        (pd.Series([True, None], dtype=object), ["True", None]),
        (pd.Series(["a", None]), ["a", None]),
        (pd.Series(["a", None], dtype=object), ["a", None]),
        (pd.Series(["a", None], dtype="string[pyarrow]"), ["a", None]),
        (pd.Series(["a", None], dtype="category"), ["a", None]),
        (pd.Series([1, 2], dtype="category"), ["1", "2"]),
        (pd.Series([1.0, 2.5, None], dtype="category"), ["1", "2.5", None]),
        (pd.Series([1, "a", 2.0, None], dtype=object), ["1", "a", "2", None]),
        (pd.Series([[1], {2}]), ["[1]", "{2}"]),
        (pd.Series(["2020-01-02", "soon"]), ["2020-01-02", "soon"]),
        (pd.Series(["2020", "2021"]), ["2020", "2021"]),
        (pd.Series(["2020-13-02", None]), ["2020-13-02", None]),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")),
)
def test_all_others_are_categories(column: pd.Series, keys: list[str | None]) -> None:
    assert kind_of(column) is Kind.CATEGORY
    assert keys_of(column) == keys


@pytest.mark.parametrize("kind", [Kind.NUMBER, Kind.DATE, Kind.DURATION])
def test_what_cannot_be_read_is_missing(kind: Kind) -> None:
    for values in (["x", "?"], [None, None], [np.inf, 1e200]):
        assert np.isnan(numbers_of(pd.Series(values, dtype=object), kind)).all()
    assert numbers_of(pd.Series([], dtype=object), kind).shape == (0,)


def test_numbers_are_no_dates_and_texts_may_be_numbers() -> None:
    assert np.isnan(numbers_of(pd.Series([1.0, 2.0]), Kind.DATE)).all()
    assert np.isnan(numbers_of(pd.Series([1, 2]), Kind.DURATION)).all()
    np.testing.assert_array_equal(numbers_of(pd.Series(["1.5", "x"]), Kind.NUMBER), [1.5, np.nan])
    np.testing.assert_array_equal(numbers_of(pd.Series([3], dtype="category"), Kind.NUMBER), [3])
