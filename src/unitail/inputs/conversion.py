"""Frames, columns and matrices of other libraries, as those that are read here.

None of these libraries is imported: what is of one of them comes with it.
"""

import sys
from typing import Any

from unitail.errors import InvalidInput
from unitail.extras import optional

MAX_DENSE_BYTES = 2 * 2**30
"""Of a sparse matrix that is written out."""


def converted(rows: Any) -> Any:  # noqa: ANN401 - whatever users give
    """Return X in a form that is read: pandas for frames, arrays for sparse matrices, lists."""
    if _is_of("polars", "DataFrame", rows):
        pandas = optional("pandas", extra="encoders")
        return pandas.DataFrame(rows.to_dict(as_series=False))
    if _is_of("pyarrow", "Table", rows):
        return rows.to_pandas()
    if _is_of("polars", "Series", rows):
        return rows.to_list()
    if _is_of("pyarrow", "ChunkedArray", rows) or _is_of("pyarrow", "Array", rows):
        return rows.to_pylist()
    if _is_sparse(rows):
        return _dense(rows)
    return rows


def _is_of(library: str, kind: str, rows: object) -> bool:
    module = sys.modules.get(library)
    return module is not None and isinstance(rows, getattr(module, kind))


def _is_sparse(rows: object) -> bool:
    module = sys.modules.get("scipy.sparse")
    return module is not None and bool(module.issparse(rows))


def _dense(matrix: Any) -> Any:  # noqa: ANN401 - a sparse matrix or array of scipy
    needed = 8 * matrix.shape[0] * matrix.shape[1]  # in double precision, as rows are kept
    if needed > MAX_DENSE_BYTES:
        raise InvalidInput(
            "the sparse matrix is too large to be written out",
            got=f"{matrix.shape[0]:,} rows of {matrix.shape[1]:,} columns,"
            f" {needed / 2**30:.1f} GiB",
            allowed=f"up to {MAX_DENSE_BYTES / 2**30:.0f} GiB",
            remedy="Reduce its columns first, for example by sklearn.decomposition.TruncatedSVD,"
            " or ask for fewer rows at a time.",
        )
    return matrix.toarray()
