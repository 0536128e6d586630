r"""Encode tables with columns of any type as vectors, fitted to the support alone.

    numbers, dates, durations    (x - mean) / deviation, the median where missing; a second
                                 coordinate flags missing values if the support has any
    booleans, strings, others    one coordinate for each category, with "missing" as a category if
                                 the support has it; a category that the support lacks is all zeros

This is what scikit-learn's StandardScaler, SimpleImputer and OneHotEncoder do. The few statistics
are stored here as plain numbers, which JSON represents exactly.

Every column has the same weight in distances. Two rows of the support drawn at random differ in a
standardised column by E (x - x')² = 2. In a column of categories with shares p_c the indicators
differ by E |e - e'|² = 2 (1 - Σ p_c²), so they are multiplied by w = 1 / √(1 - Σ p_c²). Since w is
unbounded if nearly all rows agree, and the exceptions of such a column would outweigh everything
else, w is limited to `MAX_WEIGHT`.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from unitail.errors import InvalidInput, optional
from unitail.missing_columns import lacks_columns
from unitail.wording import some

Frame: TypeAlias = Any
"""A pandas.DataFrame, which has no types here."""

Series: TypeAlias = Any
"""A pandas.Series, which has no types here."""

MAX_NUMBER = 1e100
"""Larger numbers, including infinity, count as missing: their squares would overflow."""
MIN_WORDS = 3
"""Columns with at least this many words per value on average hold texts, not categories."""
ISO_DATE = r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?"
MAX_WEIGHT = 3.0
"""Reached if one row in 17 differs from all others."""
MAX_DEVIATIONS = 10.0
"""Standardised numbers are clipped here: beyond, a larger number adds no information."""
MIN_NAMES, MIN_NAME_SHARE = 8, 0.5
"""A column with more categories than both this number and this share of its rows holds names."""
TEXTS = "texts, nearly all different"
"""Reason why a column of texts is not used."""
APART = "it only tells rows apart"
"""Reason why a column of names or row numbers is not used."""
MAX_CATEGORIES = 100
"""Largest number of categories, the most frequent ones; all others count as unknown."""
MAX_BEYOND = 0.5
"""Columns with a larger share of values outside the examples' range are reported."""


class Kind(StrEnum):
    """How a column is encoded."""

    NUMBER = "number"
    DATE = "date"
    DURATION = "duration"
    CATEGORY = "category"


KINDS = {
    **dict.fromkeys(("integer", "floating", "decimal", "mixed-integer-float"), Kind.NUMBER),
    **dict.fromkeys(("date", "datetime", "datetime64"), Kind.DATE),
    **dict.fromkeys(("timedelta", "timedelta64"), Kind.DURATION),
}
"""Kinds by the names that pandas' `infer_dtype` returns; all others are categories."""


@dataclass(frozen=True)
class Numbers:
    """The fitted encoding of a column of numbers, dates or durations."""

    name: str
    kind: Kind
    median: float
    mean: float
    scale: float
    """1 / deviation; 0 if all values are equal."""
    missing: float
    """Value of the second coordinate for missing values; 0 if there is no such coordinate."""

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return 2 if self.missing else 1

    def encode(self, column: Series) -> NDArray[np.float64]:
        """Return the coordinates (n, width); values that are not numbers count as missing."""
        values = numbers_of(column, self.kind)
        is_missing = np.isnan(values)
        if is_missing.all() and not column.isna().all():
            raise InvalidInput(
                f"column {self.name!r} holds no {self.kind}s, unlike the examples",
                got=repr(column[column.notna()].astype(object).iloc[0]),
                allowed=f"{self.kind}s, or empty cells",
                remedy="Correct the column.",
            )
        scaled = (np.where(is_missing, self.median, values) - self.mean) * self.scale
        coordinates = [scaled.clip(-MAX_DEVIATIONS, MAX_DEVIATIONS), is_missing * self.missing]
        return np.stack(coordinates[: self.width], axis=1)

    def share_beyond(self, examples: Series, queries: Series) -> float:
        """Return the share of the queries' values that lie outside the range of the examples."""
        old, new = (numbers_of(column, self.kind) for column in (examples, queries))
        new = new[~np.isnan(new)]
        if not len(new) or np.isnan(old).all():
            return 0.0
        return float(((new < np.nanmin(old)) | (new > np.nanmax(old))).mean())


@dataclass(frozen=True)
class Categories:
    """The fitted encoding of a column of categories."""

    name: str
    categories: tuple[str | None, ...]
    """Sorted; None stands for missing values."""
    weight: float

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return len(self.categories)

    @property
    def holds_texts(self) -> bool:
        """Whether the categories have enough words to be texts."""
        names = [category for category in self.categories if category is not None]
        return are_texts(names)

    def encode(self, column: Series) -> NDArray[np.float64]:
        """Return the coordinates (n, width)."""
        places = {category: place for place, category in enumerate(self.categories)}
        unknown = self.width
        columns = np.array([places.get(key, unknown) for key in keys_of(column)], dtype=np.int64)
        return self.weight * np.eye(unknown + 1)[columns, :unknown]


Column: TypeAlias = Numbers | Categories


class TableEncoder:
    """Encoder of the rows of a DataFrame."""

    name: ClassVar = "columns"
    """Name of the encoder."""

    def __init__(self, reading: Mapping[str, Any] | None = None) -> None:
        self.columns: tuple[Column, ...] = ()
        """Fitted columns, in the support's order."""
        self.dropped: dict[str, str] = {}
        """Columns of the support without information, with the reason."""
        self.reading = dict(reading or {})
        """Formats of numbers and dates in the user's files, kept for reading further files."""

    def fit(self, frame: Frame) -> Self:
        """Fit to the support's table."""
        results = {name: learn(name, column) for name, column in _columns(frame).items()}
        self.dropped = {name: why for name, why in results.items() if isinstance(why, str)}
        self.columns = tuple(column for column in results.values() if not isinstance(column, str))
        if not self.columns:
            raise InvalidInput(
                "the table has no column that distinguishes its rows",
                got=", ".join(f"{name!r} ({why})" for name, why in self.dropped.items()) or "none",
                allowed="at least one column with several values or categories",
            )
        return self

    def transform(self, frame: Frame) -> NDArray[np.float32]:
        """Return the vectors of all rows (n, width).

        Columns are matched by name, in any order; columns that the support lacks are ignored.
        """
        if not self.columns:
            raise NotFittedError("This TableEncoder is not fitted yet: call `fit` first.")
        columns = _columns(frame)
        missing = [column.name for column in self.columns if column.name not in columns]
        if missing:
            raise lacks_columns(missing, [column.name for column in self.columns])
        blocks = [column.encode(columns[column.name]) for column in self.columns]
        return np.concatenate(blocks, axis=1).astype(np.float32)

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return sum(column.width for column in self.columns)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on how the columns are used."""
        return tuple(
            [not_used(name, why) for name, why in self.dropped.items()]
            + [
                f"Column {column.name!r} holds texts, which are compared as categories, not by"
                f" meaning{_how_to_read(column.name)}"
                for column in self.columns
                if isinstance(column, Categories) and column.holds_texts
            ]
        )

    def notes_on(self, examples: Frame, queries: Frame = None) -> tuple[str, ...]:
        """Return a note on columns in which most queries lie outside the range of the examples."""
        if queries is None or not len(examples):
            return ()
        beyond = [
            column.name
            for column in self.columns
            if isinstance(column, Numbers)
            and column.share_beyond(examples[column.name], queries[column.name]) > MAX_BEYOND
        ]
        if not beyond:
            return ()
        return (
            f"Most values of {some(map(repr, beyond))} lie outside the range of the examples, where"
            f" they may mislead{_how_to('leave a column out', beyond[0], 'skip')}",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fitted encoder as JSON data."""
        return {
            "columns": [asdict(column) for column in self.columns],
            "dropped": dict(self.dropped),
            **({"reading": self.reading} if self.reading else {}),
        }

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Self:
        """Restore an encoder from `to_dict`; its vectors are identical to the last bit."""
        encoder = cls()
        encoder.columns = tuple(_restored(column) for column in table["columns"])
        encoder.dropped = dict(table["dropped"])
        encoder.reading = dict(table.get("reading", {}))
        return encoder


def learn(name: str, column: Series) -> Column | str:
    """Return the fitted encoding of a column of the support, or the reason not to use it."""
    kind = kind_of(column)
    if column.isna().all():
        return "no values"
    if kind is Kind.CATEGORY:
        return _learn_categories(name, keys_of(column))
    return _learn_numbers(name, kind, numbers_of(column, kind))


def not_used(name: str, why: str) -> str:
    """Return a note on a column that is not used, for this reason, and on how to use it."""
    remedies = {TEXTS: _how_to_read(name), APART: _how_to("use it", name, "table")}
    return f"Column {name!r} is not used: {why}{remedies.get(why, '')}"


def _how_to_read(name: str) -> str:
    return _how_to("read them", name, "text")


def _how_to(do: str, name: str, kind: str) -> str:
    return f"; to {do}: --column {name}={kind}, in Python encoder={{{name!r}: {kind!r}}}"


def _learn_numbers(name: str, kind: Kind, values: NDArray[np.float64]) -> Numbers | str:
    present = np.sort(values[~np.isnan(values)])  # makes sums independent of the order of rows
    if not len(present):
        return "no values"
    deviation = present.std() if present.min() < present.max() else 0.0
    scale = 1 / deviation if deviation > 1 / MAX_NUMBER else 0.0
    some_missing = len(present) < len(values)
    if not (scale or some_missing):
        return "only one value"
    # Values 0 and √2 w in one coordinate are as far apart as two indicators with weight w.
    counts = [len(present), len(values) - len(present)]
    missing = np.sqrt(2) * weight(counts) if some_missing else 0.0
    statistics = (np.median(present), present.mean(), scale, missing)
    return Numbers(name, kind, *map(float, statistics))


def _learn_categories(name: str, keys: list[str | None]) -> Categories | str:
    counts = Counter(keys)
    present = len(keys) - counts[None]
    num_categories = len(+counts) - (counts[None] > 0)
    if len(+counts) < 2:
        return "only one value"
    if num_categories > max(MIN_NAMES, MIN_NAME_SHARE * present):
        texts = are_texts([key for key in counts if key is not None])
        return TEXTS if texts else "nearly as many values as rows"
    by_frequency = sorted((+counts).items(), key=lambda pair: (-pair[1], pair[0] or ""))
    kept = [key for key, _ in by_frequency[:MAX_CATEGORIES]]
    kept.sort(key=lambda key: (key is None, key or ""))
    return Categories(name, tuple(kept), weight(counts.values()))


def weight(counts: Collection[int]) -> float:
    """Return w = 1 / √(1 - Σ p_c²) for categories with these counts, at most `MAX_WEIGHT`."""
    agreeing = sum(count**2 for count in counts) / sum(counts) ** 2
    return float(1 / np.sqrt(max(1 - agreeing, MAX_WEIGHT**-2)))


def _columns(frame: Frame) -> dict[str, Series]:
    """Return a table's columns by name."""
    pandas = optional("pandas", extra="encoders")
    if not isinstance(frame, pandas.DataFrame):
        raise InvalidInput("not a table", got=type(frame).__name__, allowed="a pandas.DataFrame")
    columns = {str(name): frame.iloc[:, place] for place, name in enumerate(frame.columns)}
    if len(columns) < frame.shape[1]:
        repeated = [name for name, count in Counter(map(str, frame.columns)).items() if count > 1]
        raise InvalidInput(
            "columns share a name", got=", ".join(map(repr, repeated)), allowed="distinct names"
        )
    return columns


def _restored(column: Mapping[str, Any]) -> Column:
    if "categories" in column:
        return Categories(**{**column, "categories": tuple(column["categories"])})
    return Numbers(**{**column, "kind": Kind(column["kind"])})


def kind_of(column: Series) -> Kind:
    """Return how to encode a column of the support."""
    pandas = optional("pandas", extra="encoders")
    inferred = pandas.api.types.infer_dtype(column, skipna=True)
    if inferred == "string":  # CSV files have no dates
        texts = column.dropna().astype(str)
        if texts.str.fullmatch(ISO_DATE).all() and not np.isnan(numbers_of(texts, Kind.DATE)).any():
            return Kind.DATE
    return KINDS.get(inferred, Kind.CATEGORY)


def numbers_of(column: Series, kind: Kind) -> NDArray[np.float64]:
    """Return a column as numbers, with dates in seconds since 1970; NaN for unreadable values."""
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
    """Return whether a column holds texts, by the length of its distinct values."""
    return kind_of(column) is Kind.CATEGORY and are_texts(set(keys_of(column)) - {None})


def are_texts(values: Collection[str | None]) -> bool:
    """Return whether values have enough words on average to be texts, not names."""
    words = sum(len(value.split()) for value in values if value is not None)
    return words >= MIN_WORDS * max(1, len(values))


def _without_numbers(objects: Series) -> Series:
    """Replace plain numbers by None, since pandas would read them as nanoseconds."""
    return objects.where(
        [not isinstance(value, int | float | np.number) for value in objects], None
    )


def keys_of(column: Series) -> list[str | None]:
    """Return each value as a category; None if missing. Whole numbers of any dtype are equal."""
    mask = column.isna().to_numpy(dtype=bool)
    values = column.astype(object).to_numpy()
    return [
        None if missing else category_of(value) for value, missing in zip(values, mask, strict=True)
    ]


def category_of(value: object) -> str:
    """Return a value as a category: 1, 1.0 and "1" are the same."""
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value)) if whole else str(value)  # type: ignore[call-overload]
