"""The road from what a user has to vectors, for the command line and `TailClassifier` alike.

The labelled examples decide what makes the vectors: a frozen encoder for what they are, or the
scales and categories of their columns. Everything else is then encoded by the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Modality
from unitail.encoders.encoding import Failure, Vectors, encode_items
from unitail.encoders.registry import default_encoder, make_encoder
from unitail.encoders.tables import Numbers, TableEncoder, numbers_of
from unitail.errors import (
    UnknownEncoder,
    Unreadable,
)
from unitail.inputs.cells import reading_of
from unitail.inputs.columns import Layout
from unitail.inputs.input_encoder import AUTO, InputEncoder, ItemEncoder, MixedEncoder
from unitail.inputs.items import Items, LabelledItems
from unitail.inputs.mixed import encode_mixed, fit_mixed
from unitail.progress import OnProgress
from unitail.wording import numbered, some

MAX_BEYOND = 0.5
"""The share of numbers beyond those of the examples from which on it is said."""


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
