"""Columns of pandas tables, of any type, read as numbers or as categories."""

from collections.abc import Collection
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unitail.extras import optional

Series: TypeAlias = Any
"""A pandas.Series, which has no types here."""

MAX_NUMBER = 1e100
"""Larger numbers, infinity among them, count as missing: their squares would overflow."""
MIN_WORDS = 3
"""Words a value, on average, from which on a column holds texts rather than names of classes."""
ISO_DATE = r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?"


class Kind(StrEnum):
    """How a column is read."""

    NUMBER = "number"
    DATE = "date"
    DURATION = "duration"
    CATEGORY = "category"


KINDS = {
    **dict.fromkeys(("integer", "floating", "decimal", "mixed-integer-float"), Kind.NUMBER),
    **dict.fromkeys(("date", "datetime", "datetime64"), Kind.DATE),
    **dict.fromkeys(("timedelta", "timedelta64"), Kind.DURATION),
}
"""By pandas' name for what is in a column; all others are categories."""


def kind_of(column: Series) -> Kind:
    """Return how a support's column is to be read."""
    pandas = optional("pandas", extra="encoders")
    inferred = pandas.api.types.infer_dtype(column, skipna=True)
    if inferred == "string":  # CSV files have no dates
        texts = column.dropna().astype(str)
        if texts.str.fullmatch(ISO_DATE).all() and not np.isnan(numbers_of(texts, Kind.DATE)).any():
            return Kind.DATE
    return KINDS.get(inferred, Kind.CATEGORY)


def numbers_of(column: Series, kind: Kind) -> NDArray[np.float64]:
    """Return a column as numbers; dates as seconds since 1970; NaN for all that cannot be read."""
    pandas = optional("pandas", extra="encoders")
    objects = column.astype(object)
    if kind is Kind.NUMBER:
        numbers = pandas.to_numeric(objects, errors="coerce")
    elif kind is Kind.DATE:
        times = _without_numbers(objects)
        dates = pandas.to_datetime(times, errors="coerce", utc=True, format="ISO8601")
        numbers = (dates - pandas.Timestamp("1970-01-01", tz="UTC")).dt.total_seconds()
    else:
        numbers = pandas.to_timedelta(_without_numbers(objects), errors="coerce").dt.total_seconds()
    values = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.abs(values) < MAX_NUMBER, values, np.nan)


def holds_texts(column: Series) -> bool:
    """Tell whether a column holds texts, by the length of its different values."""
    return kind_of(column) is Kind.CATEGORY and are_texts(set(keys_of(column)) - {None})


def are_texts(values: Collection[str | None]) -> bool:
    """Tell whether values have the words of texts rather than of names."""
    words = sum(len(value.split()) for value in values if value is not None)
    return words >= MIN_WORDS * max(1, len(values))


def _without_numbers(objects: Series) -> Series:
    """Remove plain numbers, which pandas would take for nanoseconds."""
    return objects.where(
        [not isinstance(value, int | float | np.number) for value in objects], None
    )


def keys_of(column: Series) -> list[str | None]:
    """Return each value's name; None is missing. Whole numbers are named alike in all types."""
    absent = column.isna().to_numpy(dtype=bool)
    values = column.astype(object).to_numpy()
    return [None if gone else _key(value) for value, gone in zip(values, absent, strict=True)]


def _key(value: object) -> str:
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)  # type: ignore[call-overload]
