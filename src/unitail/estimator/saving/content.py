"""Validation of a saved classifier's files, which may come from an untrusted source."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.estimator.rows import copies_limit

WEIGHTS, WEIGHTLESS, POOL = "weights", "weightless", "pool"
REPRESENTATIVE = "representative"
"""Optional arrays, besides features and class indices."""
COUNTS = "counts"
"""An array of folders before format 5; since then, counts are made of the weights again."""
MAX_LABEL_BYTES = 2**28
"""Largest size of all class labels together; a forged dtype could request any amount of memory."""
MAX_OLDER_COPIES = 1_000_000
"""Limit on copies in older files, which store counts without weights."""
MAX_WEIGHTLESS = 2**24
"""Largest number of rows of weight zero, each of which takes memory."""
PLAIN = (str, bool, int, float)
"""Types of labels that JSON can store."""


def check_arrays(arrays: Mapping[str, NDArray[Any]], ways: int) -> None:
    """Raise `ValueError` unless the arrays form a support of `ways` classes."""
    features, indices, pool = arrays["features"], arrays["class_indices"], arrays.get(POOL)
    checks = {
        "features": features.ndim == 2 and features.dtype.kind == "f" and _no_infinities(features),
        "class_indices": indices.shape == features.shape[:1] and indices.dtype == np.int64,
        "classes": ways >= 2 and np.array_equal(np.unique(indices), np.arange(ways)),
        COUNTS: _positive_per_row(arrays.get(COUNTS), indices),
        WEIGHTS: _positive_per_row(arrays.get(WEIGHTS), indices),
        WEIGHTLESS: _places_beside(arrays.get(WEIGHTLESS), len(indices)),
        REPRESENTATIVE: _mask_of_rows(arrays.get(REPRESENTATIVE), indices),
        POOL: pool is None or (pool.shape[1:] == features.shape[1:] and _no_infinities(pool)),
    }
    for name, fits in checks.items():
        if not fits:
            raise ValueError(f"{name} that do not fit the rest")
    _check_counts(arrays.get(COUNTS), older=WEIGHTS not in arrays)


def labels_from_table(table: Mapping[str, Any]) -> NDArray[Any]:
    """Return the classes as an array of the labels' dtype; `ValueError` if they are invalid."""
    values, dtype = list(table["values"]), np.dtype(table["dtype"])
    if not all(isinstance(value, PLAIN) for value in values) or len(set(values)) < len(values):
        raise ValueError("classes that are not different labels")
    if dtype.itemsize * len(values) > MAX_LABEL_BYTES:
        raise ValueError(f"labels of {dtype.itemsize:,} bytes")
    return np.array(values, dtype=dtype)


def column_names(columns: object, width: int) -> list[str] | None:
    """Return the names of a data frame's columns; `ValueError` if they are invalid."""
    if columns is None:
        return None
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise ValueError("names of columns that are not texts")
    if len(columns) != width:
        raise ValueError(f"{len(columns)} names of columns for {width} columns")
    return columns


def _check_counts(counts: NDArray[Any] | None, *, older: bool) -> None:
    """Refuse more copies of rows than `fit` would make, as each takes memory."""
    if counts is None:
        return
    if counts.dtype != np.int64:
        raise ValueError(f"counts of type {counts.dtype}, not int64")
    limit = max(copies_limit(len(counts)), MAX_OLDER_COPIES if older else 0)
    total = counts.sum(dtype=np.float64)  # integers would overflow at 2**63
    if total > limit:
        raise ValueError(f"counts that stand for {total:,.0f} rows, more than {limit:,}")


def _places_beside(places: NDArray[Any] | None, rows: int) -> bool:
    """Return whether these can be places, in order, among those of `rows` other rows."""
    if places is None:
        return True
    if places.ndim != 1 or places.dtype != np.int64 or len(places) > MAX_WEIGHTLESS:
        return False
    in_range = (places >= 0) & (places < len(places) + rows)
    return bool(in_range.all() and (np.diff(places) > 0).all())


def _mask_of_rows(mask: NDArray[Any] | None, indices: NDArray[Any]) -> bool:
    return mask is None or (mask.dtype == np.bool_ and mask.shape == indices.shape)


def _no_infinities(array: NDArray[Any]) -> bool:
    return not np.isinf(array).any()


def _positive_per_row(numbers: NDArray[Any] | None, indices: NDArray[Any]) -> bool:
    """Return whether there is a finite number above zero for each row, or no array at all."""
    if numbers is None:
        return True
    positive = (numbers > 0) & (numbers < np.inf)
    return numbers.shape == indices.shape and bool(positive.all())
