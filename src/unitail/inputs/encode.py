"""The road from what a user has to vectors, for the command line and `TailClassifier` alike.

The labelled examples decide what makes the vectors: a frozen encoder for what they are, or the
scales and categories of their columns. Everything else is then encoded by the same.
"""

import warnings
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

from numpy.typing import ArrayLike

from unitail.encoders.cache import FeatureCache, choose_cache
from unitail.encoders.columns import holds_texts
from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.encoding import Failure, Vectors, encode_items
from unitail.encoders.registry import default_encoder, encoder_names, make_encoder
from unitail.encoders.tables import TableEncoder
from unitail.errors import (
    ColumnWarning,
    InvalidConfig,
    InvalidInput,
    UnknownEncoder,
    Unreadable,
)
from unitail.inputs.conversion import converted
from unitail.inputs.input_encoder import AUTO, InputEncoder, ItemEncoder
from unitail.inputs.items import Items
from unitail.inputs.recognise import are_files, is_frame, listed, recognise
from unitail.progress import OnProgress
from unitail.wording import some

Examples: TypeAlias = ArrayLike | Sequence[object]
"""What users may give as X: vectors, or items for the encoder."""


def choose_encoder(encoder: object, examples: Any, device: object) -> InputEncoder | None:  # noqa: ANN401
    """Return what makes vectors of X; None if X holds vectors, which are taken as they are.

    `encoder` is what `TailClassifier` takes: None, "auto", a name, or an `Encoder`.
    """
    if encoder is None:
        return None
    examples = converted(examples)
    if isinstance(encoder, Encoder):
        files = are_files(listed(examples))
        return ItemEncoder(
            encoder=encoder, named=False, strings_are_files=files, device=str(device)
        )
    if not isinstance(encoder, str):
        raise InvalidConfig(
            "encoder is unknown",
            got=type(encoder).__name__,
            allowed=f"None, '{AUTO}', the name of an encoder, or an Encoder",
        )
    if is_frame(examples):
        return _fit_table(encoder, examples)
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


def _fit_table(encoder: str, frame: Any) -> InputEncoder:  # noqa: ANN401 - a DataFrame
    """Learn from a frame, and warn of columns that are not used as one may expect."""
    if frame.shape[1] and all(holds_texts(frame.iloc[:, place]) for place in range(frame.shape[1])):
        name = frame.columns[0]
        raise InvalidInput(
            "the table holds texts, which have no meaning as categories",
            got=f"column {name!r}" if frame.shape[1] == 1 else f"{frame.shape[1]} such columns",
            allowed="columns of numbers, dates or categories",
            remedy=f"Give the texts themselves, X[{name!r}], with encoder='{AUTO}'.",
        )
    learned = fit_encoder(encoder, frame, Modality.TABLE)
    for note in learned.notes:
        warnings.warn(f"{note}.", ColumnWarning, stacklevel=4)
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
    lists = [encoder.items(each) for each in inputs]
    items = list(chain.from_iterable(lists))
    vectors = encode_items(encoder.encoder, items, cache=cache, on_progress=on_progress)
    if vectors.unreadable and on_unreadable == "raise":
        raise _unreadable(encoder.name, vectors.unreadable, items)
    return vectors.split([len(each) for each in lists])


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


def is_single(inputs: object) -> bool:
    """Tell whether X is one item."""
    return isinstance(inputs, Sized) and len(inputs) == 1


@dataclass(frozen=True)
class Unread:
    """An item that could not be read."""

    among: str
    """"support" or "queries"."""
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
