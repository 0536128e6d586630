"""Convert X of `TailClassifier` from the types of other libraries, which are never imported."""

import sys
from typing import Any

import numpy as np

from unitail.errors import InvalidInput, optional
from unitail.inputs.recognise import is_frame, is_of
from unitail.inputs.table_files import check_distinct
from unitail.missing_columns import list_columns

NO_NUMBERS = ("could not convert string", "could not be promoted")
"""Parts of numpy's errors about values that cannot become numbers, such as texts and dates."""
MAX_DENSE_BYTES = 2 * 2**30
"""Largest size of a sparse matrix that is made dense."""


def converted(rows: Any) -> Any:  # noqa: ANN401 - whatever users give
    """Convert X to a supported type: pandas for frames, numpy for matrices, lists."""
    if isinstance(rows, list):
        return rows
    if is_of("polars", "DataFrame", rows):
        pandas = optional("pandas", extra="encoders")
        return pandas.DataFrame(rows.to_dict(as_series=False))
    if is_of("pyarrow", "Table", rows):
        return rows.to_pandas()
    if is_of("polars", "Series", rows):
        return rows.to_list()
    if is_of("pyarrow", "ChunkedArray", rows) or is_of("pyarrow", "Array", rows):
        return rows.to_pylist()
    if is_frame(rows):
        check_distinct(map(str, rows.columns), "the table")
        return rows
    return _as_array(rows)


def not_numeric(rows: Any, error: Exception) -> InvalidInput | None:  # noqa: ANN401
    """Return the error to raise if `error` means that X needs an encoder; None for others."""
    if not any(words in str(error) for words in NO_NUMBERS):
        return None
    columns = rows.dtypes.items() if is_frame(rows) else ()
    names = [name for name, kind in columns if kind.kind not in "biuf"]
    return InvalidInput(
        "X holds values that are not numbers",
        got=f"columns {list_columns(names)}" if names else str(error).partition("\n")[0],
        allowed="numbers; with an encoder also tables of texts, categories and dates",
        remedy="Give a DataFrame to TailClassifier(encoder='auto').",
    )


def _as_array(rows: Any) -> Any:  # noqa: ANN401
    """Convert sparse, masked and torch matrices to an array; leave anything else unchanged."""
    if _is_sparse(rows):
        return _dense(rows)
    if is_of("torch", "Tensor", rows) and rows.ndim <= 2:
        return _from_torch(rows)
    if isinstance(rows, np.ma.MaskedArray):  # other conversions would expose the masked values
        return np.ma.filled(rows.astype(np.float64), np.nan)
    return rows


def _from_torch(tensor: Any) -> Any:  # noqa: ANN401
    """Convert a tensor to an array; it may be on a GPU, or require a gradient."""
    tensor = tensor.detach().cpu()
    try:
        return tensor.numpy()
    except TypeError:  # bfloat16 and other dtypes that numpy lacks
        return tensor.float().numpy()


def _is_sparse(rows: object) -> bool:
    module = sys.modules.get("scipy.sparse")
    return module is not None and bool(module.issparse(rows))


def _dense(matrix: Any) -> Any:  # noqa: ANN401 - a sparse matrix or array of scipy
    needed = 8 * matrix.shape[0] * matrix.shape[1]  # in double precision, as rows are kept
    if needed > MAX_DENSE_BYTES:
        raise InvalidInput(
            "the sparse matrix is too large to be made dense",
            got=f"{matrix.shape[0]:,} rows of {matrix.shape[1]:,} columns,"
            f" {needed / 2**30:.1f} GiB",
            allowed=f"up to {MAX_DENSE_BYTES / 2**30:.0f} GiB",
            remedy="Reduce its columns first, for example with sklearn.decomposition.TruncatedSVD,"
            " or pass fewer rows at a time.",
        )
    return matrix.toarray()
