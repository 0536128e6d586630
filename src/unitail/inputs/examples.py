"""Examples as `TailClassifier` takes them, vectors or whatever else, made an array of vectors."""

import sys
import warnings
from collections.abc import Mapping, Sequence, Sized
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unitail.encoders.cache import choose_cache
from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.registry import encoder_names
from unitail.encoders.tables import TableEncoder
from unitail.errors import BlankWarning, ColumnWarning, InvalidConfig, InvalidInput
from unitail.extras import optional
from unitail.inputs.columns import lay_out
from unitail.inputs.encode import encode, fit_encoder, fit_layout
from unitail.inputs.input_encoder import AUTO, InputEncoder, ItemEncoder, MixedEncoder
from unitail.inputs.recognise import (
    are_files,
    is_frame,
    listed,
    listed_with_gaps,
    recognise,
    says_nothing,
)
from unitail.inputs.tables import check_distinct
from unitail.missing_columns import list_columns
from unitail.wording import numbered

EncoderChoice: TypeAlias = str | Encoder[Any] | Mapping[str, str] | None
"""What users may say about what makes vectors of X."""
Examples: TypeAlias = ArrayLike | Sequence[object]
"""What users may give as X: vectors, or items for the encoder."""
NO_NUMBERS = ("could not convert string", "could not be promoted")
"""How numpy says that something is neither a number nor like one: texts, dates."""
MAX_DENSE_BYTES = 2 * 2**30
"""Of a sparse matrix that is written out."""


def choose_encoder(encoder: object, examples: Any, device: object) -> InputEncoder | None:  # noqa: ANN401
    """Return what makes vectors of X; None if X holds vectors, which are taken as they are.

    `encoder` is what `TailClassifier` takes: None, "auto", a name, an `Encoder`, or for tables
    what reads some of the columns.
    """
    if encoder is None:
        return None
    examples = converted(examples)
    if isinstance(encoder, Encoder):
        files = are_files(listed(examples))
        return ItemEncoder(
            encoder=encoder, named=False, strings_are_files=files, device=str(device)
        )
    if not isinstance(encoder, str | Mapping):
        raise InvalidConfig(
            "encoder is unknown",
            got=type(encoder).__name__,
            allowed=f"None, '{AUTO}', the name of an encoder, an Encoder, or for tables a mapping"
            " of columns",
        )
    if is_frame(examples):
        return _fit_frame(encoder, examples, str(device))
    if isinstance(encoder, Mapping):
        raise InvalidConfig(
            "a mapping says what reads the columns of a table",
            got=f"X of type {type(examples).__name__}",
            allowed="a DataFrame",
        )
    modality = encoder_names().get(encoder) or recognise(examples)
    if modality is None and encoder == AUTO:
        return None
    return fit_encoder(
        encoder,
        examples,
        modality,
        strings_are_files=are_files(listed(examples)),
        device=str(device),
    )


def _fit_frame(encoder: str | Mapping[str, str], frame: Any, device: str) -> InputEncoder:  # noqa: ANN401
    """Learn from a frame, and warn of columns that are not used as one may expect."""
    if encoder == TableEncoder.name:
        learned = fit_encoder(encoder, frame, Modality.TABLE)
    else:
        named = frame.set_axis([str(name) for name in frame.columns], axis=1)
        layout = lay_out(named, {} if isinstance(encoder, str) else encoder)
        learned = fit_layout(layout, named, encoder if isinstance(encoder, str) else AUTO, device)
    guessed = isinstance(encoder, str) and isinstance(learned, MixedEncoder)
    otherwise = "; if not, say what reads each column: encoder={column: ...}" if guessed else ""
    for place, note in enumerate(learned.notes):
        if guessed or not (isinstance(learned, MixedEncoder) and place == 0):
            warnings.warn(f"{note}{'' if place else otherwise}.", ColumnWarning, stacklevel=4)
    return learned


def vectors_of(encoder: InputEncoder | None, inputs: Any, cache: object = AUTO) -> Any:  # noqa: ANN401
    """Return X as an array (n, d_T), or what scikit-learn will make one of.

    `cache` is what `TailClassifier` takes.
    """
    inputs = converted(inputs)
    if encoder is None:
        return inputs
    used = choose_cache(cache, single=isinstance(inputs, Sized) and len(inputs) == 1)
    [vectors] = encode(encoder, inputs, cache=used)
    if used is not None and used.trouble is not None:
        warnings.warn(used.trouble, stacklevel=4)
    return vectors.features


def vectors_of_asked(encoder: InputEncoder | None, inputs: Any, cache: object = AUTO) -> Any:  # noqa: ANN401
    """Return X as `vectors_of` does, with a row of NaN for each item that says nothing.

    One empty text among those that are asked must not keep the others from an answer.
    """
    inputs = converted(inputs)
    if isinstance(encoder, ItemEncoder):
        inputs = listed_with_gaps(inputs)
    blank = _blank(encoder, inputs)
    if not blank.any():
        return vectors_of(encoder, inputs, cache)
    first = int(np.flatnonzero(blank)[0])
    say = "says" if blank.sum() == 1 else "say"
    warnings.warn(
        f"{blank.sum():,} of {numbered(len(blank), 'item')} {say} nothing (place {first}, the first"
        " is 0): answered by how frequent the classes are among the examples.",
        BlankWarning,
        stacklevel=4,
    )
    chosen = np.flatnonzero(~blank)
    rest = inputs.iloc[chosen] if is_frame(inputs) else [inputs[place] for place in chosen]
    told = vectors_of(encoder, rest, cache)
    vectors = np.full((len(blank), told.shape[1]), np.nan, dtype=told.dtype)
    vectors[chosen] = told
    return vectors


def _blank(encoder: InputEncoder | None, inputs: Any) -> NDArray[np.bool_]:  # noqa: ANN401
    """Tell which items say nothing; rows of numbers and categories always say something."""
    if isinstance(encoder, ItemEncoder):
        return np.array([says_nothing(item) for item in inputs], dtype=bool)
    if isinstance(encoder, MixedEncoder) and is_frame(inputs) and encoder.cells is None:
        columns = [inputs[name] for name in encoder.contents if name in inputs]
        cells = [[says_nothing(cell) for cell in column] for column in columns]
        every = np.array(cells, dtype=bool).reshape(len(cells), len(inputs)).all(axis=0)
        return np.asarray(every, dtype=bool)
    return np.zeros(0, dtype=bool)


def converted(rows: Any) -> Any:  # noqa: ANN401 - whatever users give
    """Return X in a form that is read: pandas for frames, arrays for other matrices, lists."""
    if _is_of("polars", "DataFrame", rows):
        pandas = optional("pandas", extra="encoders")
        return pandas.DataFrame(rows.to_dict(as_series=False))
    if _is_of("pyarrow", "Table", rows):
        return rows.to_pandas()
    if _is_of("polars", "Series", rows):
        return rows.to_list()
    if _is_of("pyarrow", "ChunkedArray", rows) or _is_of("pyarrow", "Array", rows):
        return rows.to_pylist()
    if is_frame(rows):
        check_distinct(map(str, rows.columns), "the table")
        return rows
    return _as_array(rows)


def no_numbers(rows: Any, error: Exception) -> InvalidInput | None:  # noqa: ANN401
    """Say which error means that X needs an encoder; None for any other."""
    if not any(words in str(error) for words in NO_NUMBERS):
        return None
    columns = rows.dtypes.items() if is_frame(rows) else ()
    names = [name for name, kind in columns if kind.kind not in "biuf"]
    return InvalidInput(
        "X holds what is no number",
        got=f"columns {list_columns(names)}" if names else str(error).partition("\n")[0],
        allowed="numbers; with an encoder, tables of texts, categories and dates, too",
        remedy="Give a DataFrame to TailClassifier(encoder='auto').",
    )


def _as_array(rows: Any) -> Any:  # noqa: ANN401
    """Return the array of a matrix of another kind; anything else as it is."""
    if _is_sparse(rows):
        return _dense(rows)
    if _is_of("torch", "Tensor", rows) and rows.ndim <= 2:
        return _from_torch(rows)
    if isinstance(rows, np.ma.MaskedArray):  # others would show again what it hides
        return np.ma.filled(rows.astype(np.float64), np.nan)
    return rows


def _from_torch(tensor: Any) -> Any:  # noqa: ANN401
    """Return the array of a tensor that may be on a GPU, or have a gradient."""
    plain = tensor.detach().cpu()
    try:
        return plain.numpy()
    except TypeError:  # bfloat16 and others that numpy does not have
        return plain.float().numpy()


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
