"""The road from what a user has to vectors, for the command line and `TailClassifier` alike.

The labelled examples decide what makes the vectors: a frozen encoder for what they are, or the
scales and categories of their columns. Everything else is then encoded by the same. First come
files and tables of the command line, then X of `TailClassifier`: vectors, or whatever else.
"""

import sys
import warnings
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
)
from unitail.inputs.cells import reading_of
from unitail.inputs.columns import Layout, lay_out
from unitail.inputs.input_encoder import AUTO, InputEncoder, ItemEncoder, MixedEncoder
from unitail.inputs.items import Items, LabelledItems
from unitail.inputs.mixed import encode_mixed, fit_mixed
from unitail.inputs.recognise import (
    are_files,
    is_frame,
    listed,
    listed_with_gaps,
    recognise,
    says_nothing,
)
from unitail.inputs.table_files import check_distinct
from unitail.missing_columns import list_columns
from unitail.progress import OnProgress
from unitail.wording import numbered, some

MAX_BEYOND = 0.5
"""The share of numbers beyond those of the examples from which on it is said."""
EncoderChoice: TypeAlias = str | Encoder[Any] | Mapping[str, str] | None
"""What users may say about what makes vectors of X."""
Examples: TypeAlias = ArrayLike | Sequence[object]
"""What users may give as X: vectors, or items for the encoder."""
NO_NUMBERS = ("could not convert string", "could not be promoted")
"""How numpy says that something is neither a number nor like one: texts, dates."""
MAX_DENSE_BYTES = 2 * 2**30
"""Of a sparse matrix that is written out."""


def fit_layout(layout: Layout, frame: Any, encoder: str, device: str) -> InputEncoder:  # noqa: ANN401
    """Return what makes vectors of tables whose columns are laid out so."""
    if layout.contents:
        return fit_mixed(layout, frame, encoder, device)
    learned = fit_encoder(encoder, frame[list(layout.features)], Modality.TABLE)
    assert isinstance(learned, TableEncoder)
    learned.dropped = {**layout.unused, **learned.dropped}
    return learned


def fit_encoder(
    encoder: str,
    examples: Any,  # noqa: ANN401 - a DataFrame, or a list of items
    modality: Modality | None,
    *,
    strings_are_files: bool = False,
    device: str = AUTO,
) -> InputEncoder:
    """Return what makes vectors of inputs like these examples of a known modality."""
    if modality is Modality.TABLE:
        if encoder not in (AUTO, TableEncoder.name):
            raise UnknownEncoder(
                "tables have one encoder",
                got=repr(encoder),
                allowed=TableEncoder.name,
                remedy=f"Name none, or '{AUTO}'.",
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
    """Return the vectors of each of the inputs; `on_progress` counts the items of all.

    All are encoded together, so that equal items are encoded once and batches are full.
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


def beyond_examples(encoder: InputEncoder, examples: Any, asked: Any) -> tuple[str, ...]:  # noqa: ANN401
    """Name the columns of two tables most of whose numbers or dates lie beyond the examples'."""
    cells = encoder.cells if isinstance(encoder, MixedEncoder) else encoder
    columns = cells.columns if isinstance(cells, TableEncoder) and len(examples) else ()
    beyond = [
        column.name
        for column in columns
        if isinstance(column, Numbers) and _share_beyond(column, examples, asked) > MAX_BEYOND
    ]
    if not beyond:
        return ()
    return (
        f"Most values of {some(map(repr, beyond))} lie beyond those of the examples, where they may"
        f" mislead; to leave a column out: --column {beyond[0]}=skip",
    )


def _share_beyond(column: Numbers, examples: Any, asked: Any) -> float:  # noqa: ANN401
    known, new = (numbers_of(table[column.name], column.kind) for table in (examples, asked))
    new = new[~np.isnan(new)]
    if not len(new) or np.isnan(known).all():
        return 0.0
    return float(((new < np.nanmin(known)) | (new > np.nanmax(known))).mean())


def long_texts(encoder: InputEncoder, *inputs: Any) -> tuple[str, ...]:  # noqa: ANN401 - as in encode
    """Say of how many texts the encoder reads the beginning only; those in files do not count."""
    most = encoder.encoder.max_words if isinstance(encoder, ItemEncoder) else None
    if most is None:
        return ()
    texts = (item for items in inputs for item in items if isinstance(item, str))
    number = sum(len(text.split(maxsplit=most)) > most for text in texts)
    return (f"{numbered(number, 'text')} read up to word {most:,} at most",) if number else ()


@dataclass(frozen=True)
class Unread:
    """An item that could not be read."""

    among: str
    """"examples" or "files"; in a studio "labels", too."""
    name: str
    reason: str
    place: int | None = None
    """The number of the item among its like, from 0."""


def unread_items(among: str, items: Items, vectors: Vectors) -> tuple[Unread, ...]:
    """Name the items without a vector."""
    return tuple(
        Unread(among, items.names[each.place], each.reason, each.place)
        for each in vectors.unreadable
    )


def contradictions(support: LabelledItems, known: Vectors) -> tuple[str, ...]:
    """Say which examples are equal, as far as they are read, and have different labels."""
    places: dict[bytes, list[int]] = {}
    for place, row in zip(known.kept.tolist(), known.features, strict=True):
        places.setdefault(blake2b(row.tobytes(), digest_size=16).digest(), []).append(place)
    labels = support.labels
    odd = [equal for equal in places.values() if len({labels[place] for place in equal}) > 1]
    told = some(
        (
            " = ".join(f"{support.names[place]} ({labels[place]})" for place in equal)
            for equal in odd
        ),
        3,
        separator="; ",
    )
    return (f"Equal examples with different labels: {told}",) if odd else ()


def _unreadable(name: str, failures: Sequence[Failure], items: Sequence[object]) -> Unreadable:
    def told(failure: Failure) -> str:
        item = items[failure.place]
        file = f" ({item})" if isinstance(item, Path) else ""
        return f"item {failure.place}{file}: {failure.reason}"

    return Unreadable(
        f"{len(failures)} of {len(items)} items have no vector",
        got=some(map(told, failures), separator="; "),
        allowed=f"what the encoder {name} reads",
        remedy="Fix them or leave them out.",
    )


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
