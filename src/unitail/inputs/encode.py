"""The road from what a user has to vectors, for the command line and `TailClassifier` alike.

The labelled examples decide what makes the vectors: a frozen encoder for what they are, or the
scales and categories of their columns. Everything else is then encoded by the same.
"""

import warnings
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unitail.encoders.cache import FeatureCache, choose_cache
from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.encoding import Failure, Vectors, encode_items
from unitail.encoders.registry import default_encoder, encoder_names, make_encoder
from unitail.encoders.tables import TableEncoder
from unitail.errors import (
    BlankWarning,
    ColumnWarning,
    InvalidConfig,
    UnknownEncoder,
    Unreadable,
)
from unitail.inputs.columns import Layout, lay_out
from unitail.inputs.input_encoder import AUTO, InputEncoder, ItemEncoder, MixedEncoder
from unitail.inputs.items import Items
from unitail.inputs.mixed import encode_mixed, fit_mixed
from unitail.inputs.recognise import (
    are_files,
    converted,
    is_frame,
    listed,
    listed_with_gaps,
    recognise,
    says_nothing,
)
from unitail.progress import OnProgress
from unitail.wording import numbered, some

EncoderChoice: TypeAlias = str | Encoder[Any] | Mapping[str, str] | None
"""What users may say about what makes vectors of X."""
Examples: TypeAlias = ArrayLike | Sequence[object]
"""What users may give as X: vectors, or items for the encoder."""


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
        return TableEncoder().fit(examples)
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


def long_texts(encoder: InputEncoder, *inputs: Any) -> tuple[str, ...]:  # noqa: ANN401 - as in encode
    """Say of how many texts the encoder reads the beginning only; those in files do not count."""
    most = encoder.encoder.max_words if isinstance(encoder, ItemEncoder) else None
    if most is None:
        return ()
    texts = (item for items in inputs for item in items if isinstance(item, str))
    number = sum(len(text.split(maxsplit=most)) > most for text in texts)
    return (f"{numbered(number, 'text')} read up to word {most:,} at most",) if number else ()


def vectors_of(encoder: InputEncoder | None, inputs: Any, cache: object = AUTO) -> Any:  # noqa: ANN401
    """Return X as an array (n, d_T), or what scikit-learn will make one of.

    `cache` is what `TailClassifier` takes.
    """
    inputs = converted(inputs)
    if encoder is None:
        return inputs
    used = choose_cache(cache, single=is_single(inputs))
    [vectors] = encode(encoder, inputs, cache=used)
    if used is not None and used.trouble is not None:
        warnings.warn(used.trouble, stacklevel=3)
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


def is_single(inputs: object) -> bool:
    """Tell whether X is one item."""
    return isinstance(inputs, Sized) and len(inputs) == 1


@dataclass(frozen=True)
class Unread:
    """An item that could not be read."""

    among: str
    """"examples" or "files"."""
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
