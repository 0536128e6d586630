"""What the files of a saved classifier may hold: they may come from a stranger."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.estimator.rows import copies_limit

COUNTS, WEIGHTS, POOL = "counts", "weights", "pool"
"""The arrays beside features and class indices."""
MAX_LABEL_BYTES = 2**28
"""Of all classes together: a dtype alone can ask for any amount of memory."""
MAX_OLDER_COPIES = 1_000_000
"""The rows that weighted ones stood for at most when weights were not saved beside counts."""
PLAIN = (str, bool, int, float)
"""The labels that JSON carries."""


def check_arrays(arrays: Mapping[str, NDArray[Any]], ways: int) -> None:
    """Refuse arrays that cannot be those of a support of `ways` classes; `ValueError`."""
    features, indices, pool = arrays["features"], arrays["class_indices"], arrays.get(POOL)
    demands = {
        "features": features.ndim == 2 and features.dtype.kind == "f" and _ends(features),
        "class_indices": indices.shape == features.shape[:1] and indices.dtype == np.int64,
        "classes": ways >= 2 and np.array_equal(np.unique(indices), np.arange(ways)),
        COUNTS: _stand_for_rows(arrays.get(COUNTS), indices),
        WEIGHTS: _stand_for_rows(arrays.get(WEIGHTS), indices),
        POOL: pool is None or (pool.shape[1:] == features.shape[1:] and _ends(pool)),
    }
    for name, fits in demands.items():
        if not fits:
            raise ValueError(f"{name} that do not fit the rest")
    _check_counts(arrays.get(COUNTS), older=WEIGHTS not in arrays)


def labels_from_table(table: Mapping[str, Any]) -> NDArray[Any]:
    """Return the classes as an array of the dtype that the labels had; `ValueError` if forged."""
    values, dtype = list(table["values"]), np.dtype(table["dtype"])
    if not all(isinstance(value, PLAIN) for value in values) or len(set(values)) < len(values):
        raise ValueError("classes that are not different labels")
    if dtype.itemsize * len(values) > MAX_LABEL_BYTES:
        raise ValueError(f"labels of {dtype.itemsize:,} bytes")
    return np.array(values, dtype=dtype)


def column_names(columns: object, width: int) -> list[str] | None:
    """Return the names of a frame's columns, one each; `ValueError` if they are not names."""
    if columns is None:
        return None
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise ValueError("names of columns that are not texts")
    if len(columns) != width:
        raise ValueError(f"{len(columns)} names of columns for {width} columns")
    return columns


def _check_counts(counts: NDArray[Any] | None, *, older: bool) -> None:
    """Refuse more equal rows than `fit` makes: each takes memory."""
    if counts is None:
        return
    if counts.dtype != np.int64:
        raise ValueError(f"counts of type {counts.dtype}, not int64")
    limit = max(copies_limit(len(counts)), MAX_OLDER_COPIES if older else 0)
    total = counts.sum(dtype=np.float64)  # integers would begin anew at 2**63
    if total > limit:
        raise ValueError(f"counts that stand for {total:,.0f} rows, more than {limit:,}")


def _ends(array: NDArray[Any]) -> bool:
    return not np.isinf(array).any()


def _stand_for_rows(numbers: NDArray[Any] | None, indices: NDArray[Any]) -> bool:
    """Tell whether there is a number above zero for each row, or none at all."""
    if numbers is None:
        return True
    above = (numbers > 0) & (numbers < np.inf)
    return numbers.shape == indices.shape and bool(above.all())
