"""Encode a user's inputs as vectors, for the command line and for `TailClassifier`.

The labelled examples determine the encoder: a frozen one for their modality, or the scales and
categories of their columns. Everything else is encoded with the same one. What the command line
reads is described by `Items`; X of `TailClassifier` is recognised here.
"""

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unitail.encoders.cache import FeatureCache, choose_cache
from unitail.encoders.encoder import Encoder, Failure, Modality, Vectors
from unitail.encoders.encoding import encode_items
from unitail.encoders.registry import default_encoder, encoder_names, make_encoder
from unitail.encoders.tables import TableEncoder
from unitail.errors import (
    BlankWarning,
    ColumnWarning,
    InvalidConfig,
    UnknownEncoder,
    Unreadable,
    warn_user,
)
from unitail.inputs.cells import reading_of
from unitail.inputs.columns import Layout, lay_out
from unitail.inputs.conversion import converted
from unitail.inputs.input_encoder import AUTO, InputEncoder, ItemEncoder, MixedEncoder
from unitail.inputs.items import Items
from unitail.inputs.mixed import encode_mixed, fit_mixed
from unitail.inputs.recognise import (
    are_files,
    is_blank,
    is_frame,
    listed,
    listed_with_gaps,
    recognise,
)
from unitail.progress import OnProgress
from unitail.wording import numbered, some

EncoderChoice: TypeAlias = str | Encoder[Any] | Mapping[str, str] | None
"""Values of the parameter `encoder`."""
Examples: TypeAlias = ArrayLike | Sequence[object]
"""Types of X: vectors, or items for the encoder."""


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


class Among(StrEnum):
    """What a user gave an item as."""

    EXAMPLES = "examples"
    FILES = "files"
    """What is answered."""
    POOL = "pool"
    LABELS = "labels"
    """Labels of the studio, some of whose items are gone."""


@dataclass(frozen=True)
class Unread:
    """An item that could not be read."""

    among: Among
    name: str
    reason: str
    place: int | None = None
    """Index of the item among the others that were given so."""


def unread_items(among: Among, items: Items, vectors: Vectors) -> tuple[Unread, ...]:
    """Return the items that could not be read, with their names."""
    return tuple(
        Unread(among, items.names[failure.place], failure.reason, failure.place)
        for failure in vectors.unreadable
    )


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
