"""Encode a user's inputs as vectors, for the command line and for `TailClassifier`.

The labelled examples determine the encoder: a frozen one for their modality, or the scales and
categories of their columns. Everything else is encoded with the same one. The first half is for
files and tables of the command line, the second for X of `TailClassifier`.
"""

import sys
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unitail.encoders.cache import FeatureCache, choose_cache
from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.encoding import Failure, Vectors, encode_items
from unitail.encoders.registry import default_encoder, encoder_names, make_encoder
from unitail.encoders.tables import Numbers, TableEncoder, numbers_of
from unitail.errors import (
    BlankWarning,
    ColumnWarning,
    InvalidConfig,
    InvalidInput,
    UnknownEncoder,
    Unreadable,
    optional,
    warn_user,
)
from unitail.inputs.cells import reading_of
from unitail.inputs.columns import Layout, lay_out
from unitail.inputs.input_encoder import AUTO, InputEncoder, ItemEncoder, MixedEncoder
from unitail.inputs.items import Items, LabelledItems
from unitail.inputs.mixed import encode_mixed, fit_mixed
from unitail.inputs.recognise import (
    are_files,
    is_blank,
    is_frame,
    listed,
    listed_with_gaps,
    recognise,
)
from unitail.inputs.table_files import check_distinct
from unitail.missing_columns import list_columns
from unitail.progress import OnProgress
from unitail.wording import numbered, some

MAX_BEYOND = 0.5
"""Columns with a larger share of values outside the examples' range are reported."""
EncoderChoice: TypeAlias = str | Encoder[Any] | Mapping[str, str] | None
"""Values of the parameter `encoder`."""
Examples: TypeAlias = ArrayLike | Sequence[object]
"""Types of X: vectors, or items for the encoder."""
NO_NUMBERS = ("could not convert string", "could not be promoted")
"""Parts of numpy's errors about values that cannot become numbers, such as texts and dates."""
MAX_DENSE_BYTES = 2 * 2**30
"""Largest size of a sparse matrix that is made dense."""


def fit_layout(layout: Layout, frame: Any, encoder: str, device: str) -> InputEncoder:  # noqa: ANN401
    """Return an encoder fitted to a table with this layout."""
    if layout.contents:
        return fit_mixed(layout, frame, encoder, device)
    fitted = fit_encoder(encoder, frame[list(layout.features)], Modality.TABLE)
    assert isinstance(fitted, TableEncoder)
    fitted.dropped = {**layout.unused, **fitted.dropped}
    return fitted


def fit_encoder(
    encoder: str,
    examples: Any,  # noqa: ANN401 - a DataFrame, or a list of items
    modality: Modality | None,
    *,
    strings_are_files: bool = False,
    device: str = AUTO,
) -> InputEncoder:
    """Return an encoder for inputs like these examples, whose modality is known."""
    if modality is Modality.TABLE:
        if encoder not in (AUTO, TableEncoder.name):
            raise UnknownEncoder(
                "tables have one encoder",
                got=repr(encoder),
                allowed=TableEncoder.name,
                remedy=f"Name no encoder, or '{AUTO}'.",
            )
        return TableEncoder(reading_of(examples)).fit(examples)
    name = default_encoder(modality) if encoder == AUTO and modality else encoder
    return ItemEncoder(
        encoder=make_encoder(name, modality, device=device),
        named=True,
        strings_are_files=strings_are_files,
        device=device,
    )


def encode(
    encoder: InputEncoder,
    *inputs: Any,  # noqa: ANN401 - DataFrames, or lists of items
    on_unreadable: Literal["skip", "raise"] = "raise",
    cache: FeatureCache | None = None,
    on_progress: OnProgress | None = None,
) -> list[Vectors]:
    """Return the vectors of each input; `on_progress` counts the items of all inputs.

    All inputs are encoded together: equal items are encoded once, and batches are full.
    """
    if isinstance(encoder, TableEncoder):
        tables = [Vectors.of_all(encoder.transform(table)) for table in inputs]
        if on_progress is not None:
            total = sum(map(len, inputs))
            on_progress(total, total)
        return tables
    items: Sequence[object]
    if isinstance(encoder, MixedEncoder):
        items = range(sum(map(len, inputs)))
        vectors = encode_mixed(encoder, inputs, cache=cache, on_progress=on_progress)
    else:
        items = list(chain.from_iterable(map(encoder.items, inputs)))
        vectors = encode_items(encoder.encoder, items, cache=cache, on_progress=on_progress)
    if vectors.unreadable and on_unreadable == "raise":
        raise _unreadable(encoder.name, vectors.unreadable, items)
    return vectors.split([len(each) for each in inputs])


def beyond_examples(encoder: InputEncoder, examples: Any, queries: Any) -> tuple[str, ...]:  # noqa: ANN401
    """Return a note on columns in which most queries lie outside the range of the examples."""
    cells = encoder.cells if isinstance(encoder, MixedEncoder) else encoder
    columns = cells.columns if isinstance(cells, TableEncoder) and len(examples) else ()
    beyond = [
        column.name
        for column in columns
        if isinstance(column, Numbers) and _share_beyond(column, examples, queries) > MAX_BEYOND
    ]
    if not beyond:
        return ()
    return (
        f"Most values of {some(map(repr, beyond))} lie outside the range of the examples, where"
        f" they may mislead; to leave a column out: --column {beyond[0]}=skip",
    )


def _share_beyond(column: Numbers, examples: Any, queries: Any) -> float:  # noqa: ANN401
    old, new = (numbers_of(table[column.name], column.kind) for table in (examples, queries))
    new = new[~np.isnan(new)]
    if not len(new) or np.isnan(old).all():
        return 0.0
    return float(((new < np.nanmin(old)) | (new > np.nanmax(old))).mean())


def long_texts(encoder: InputEncoder, *inputs: Any) -> tuple[str, ...]:  # noqa: ANN401 - as in encode
    """Return a note on the number of texts that the encoder truncates, not counting files."""
    limit = encoder.encoder.max_words if isinstance(encoder, ItemEncoder) else None
    if limit is None:
        return ()
    texts = (item for items in inputs for item in items if isinstance(item, str))
    number = sum(len(text.split(maxsplit=limit)) > limit for text in texts)
    return (f"{numbered(number, 'text')} read up to word {limit:,} at most",) if number else ()


@dataclass(frozen=True)
class Unread:
    """An item that could not be read."""

    among: str
    """"examples" or "files"; in the studio also "labels"."""
    name: str
    reason: str
    place: int | None = None
    """Index of the item among the examples, or among the files."""


def unread_items(among: str, items: Items, vectors: Vectors) -> tuple[Unread, ...]:
    """Return the items that could not be read, with their names."""
    return tuple(
        Unread(among, items.names[failure.place], failure.reason, failure.place)
        for failure in vectors.unreadable
    )


def contradictions(support: LabelledItems, vectors: Vectors) -> tuple[str, ...]:
    """Return a note on examples that have equal vectors but different labels."""
    groups: dict[bytes, list[int]] = {}
    for place, row in zip(vectors.kept.tolist(), vectors.features, strict=True):
        groups.setdefault(blake2b(row.tobytes(), digest_size=16).digest(), []).append(place)
    labels = support.labels
    conflicts = [group for group in groups.values() if len({labels[place] for place in group}) > 1]
    listed_conflicts = some(
        (
            " = ".join(f"{support.names[place]} ({labels[place]})" for place in group)
            for group in conflicts
        ),
        3,
        separator="; ",
    )
    return (f"Equal examples with different labels: {listed_conflicts}",) if conflicts else ()


def _unreadable(name: str, failures: Sequence[Failure], items: Sequence[object]) -> Unreadable:
    def described(failure: Failure) -> str:
        item = items[failure.place]
        file = f" ({item})" if isinstance(item, Path) else ""
        return f"item {failure.place}{file}: {failure.reason}"

    return Unreadable(
        f"{len(failures)} of {len(items)} items could not be encoded",
        got=some(map(described, failures), separator="; "),
        allowed=f"what the encoder {name} reads",
        remedy="Fix them or leave them out.",
    )


def choose_encoder(encoder: object, examples: Any, device: object) -> InputEncoder | None:  # noqa: ANN401
    """Return an encoder for X; None if X holds vectors, which need none.

    `encoder` is the parameter of `TailClassifier`: None, "auto", a name, an `Encoder`, or for
    tables a mapping from columns to encoders.
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
            "a mapping of columns to encoders needs a table",
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
    """Fit an encoder to a frame, and warn about columns that are guessed or not used."""
    if encoder == TableEncoder.name:
        fitted = fit_encoder(encoder, frame, Modality.TABLE)
    else:
        named = frame.set_axis([str(name) for name in frame.columns], axis=1)
        layout = lay_out(named, {} if isinstance(encoder, str) else encoder)
        fitted = fit_layout(layout, named, encoder if isinstance(encoder, str) else AUTO, device)
    guessed = isinstance(encoder, str) and isinstance(fitted, MixedEncoder)
    remedy = "; to choose an encoder for a column: encoder={column: ...}" if guessed else ""
    for place, note in enumerate(fitted.notes):
        if guessed or not (isinstance(fitted, MixedEncoder) and place == 0):
            warn_user(f"{note}{'' if place else remedy}.", ColumnWarning)
    return fitted


def vectors_of(encoder: InputEncoder | None, inputs: Any, cache: object = AUTO) -> Any:  # noqa: ANN401
    """Return X as vectors (n, d_T), or unencoded for scikit-learn to convert.

    `cache` is the parameter of `TailClassifier`.
    """
    inputs = converted(inputs)
    if encoder is None:
        return inputs
    used = choose_cache(cache, single=isinstance(inputs, Sized) and len(inputs) == 1)
    [vectors] = encode(encoder, inputs, cache=used)
    if used is not None and used.trouble is not None:
        warn_user(used.trouble)
    return vectors.features


def vectors_of_queries(encoder: InputEncoder | None, inputs: Any, cache: object = AUTO) -> Any:  # noqa: ANN401
    """Return X as `vectors_of` does, with a row of NaN for each blank item.

    One empty text among the queries must not prevent answers for the others.
    """
    inputs = converted(inputs)
    if isinstance(encoder, ItemEncoder):
        inputs = listed_with_gaps(inputs)
    blank = _blank_mask(encoder, inputs)
    if not blank.any():
        return vectors_of(encoder, inputs, cache)
    first = int(np.flatnonzero(blank)[0])
    are = "is" if blank.sum() == 1 else "are"
    warn_user(
        f"{blank.sum():,} of {numbered(len(blank), 'item')} {are} blank (first at index {first}):"
        " answered with the shares of the classes among the examples.",
        BlankWarning,
    )
    chosen = np.flatnonzero(~blank)
    filled = inputs.iloc[chosen] if is_frame(inputs) else [inputs[place] for place in chosen]
    encoded = vectors_of(encoder, filled, cache)
    vectors = np.full((len(blank), encoded.shape[1]), np.nan, dtype=encoded.dtype)
    vectors[chosen] = encoded
    return vectors


def _blank_mask(encoder: InputEncoder | None, inputs: Any) -> NDArray[np.bool_]:  # noqa: ANN401
    """Return a mask of the blank items; empty if none can be, as for numbers and categories."""
    if isinstance(encoder, ItemEncoder):
        return np.array([is_blank(item) for item in inputs], dtype=bool)
    if isinstance(encoder, MixedEncoder) and is_frame(inputs) and encoder.cells is None:
        columns = [inputs[name] for name in encoder.contents if name in inputs]
        cells = [[is_blank(cell) for cell in column] for column in columns]
        mask = np.array(cells, dtype=bool).reshape(len(cells), len(inputs)).all(axis=0)
        return np.asarray(mask, dtype=bool)
    return np.zeros(0, dtype=bool)


def converted(rows: Any) -> Any:  # noqa: ANN401 - whatever users give
    """Convert X to a supported type: pandas for frames, numpy for matrices, lists."""
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
    if _is_of("torch", "Tensor", rows) and rows.ndim <= 2:
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
            "the sparse matrix is too large to be made dense",
            got=f"{matrix.shape[0]:,} rows of {matrix.shape[1]:,} columns,"
            f" {needed / 2**30:.1f} GiB",
            allowed=f"up to {MAX_DENSE_BYTES / 2**30:.0f} GiB",
            remedy="Reduce its columns first, for example with sklearn.decomposition.TruncatedSVD,"
            " or pass fewer rows at a time.",
        )
    return matrix.toarray()
