"""A user's labelled examples as rows of vectors to estimate from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Modality
from unitail.encoders.encoding import encode_items
from unitail.encoders.registry import default_encoder, make_encoder
from unitail.encoders.tables import TableEncoder
from unitail.errors import UnknownEncoder
from unitail.estimator.reduction import Rows
from unitail.tasks.source_items import numbered
from unitail.tasks.sources import LabelledItems
from unitail.workflows.own_splits import thinned

TABLE = "columns"
"""The name of the encoder of tables, the only one there is."""


@dataclass(frozen=True)
class Unread:
    """An example that could not be read."""

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnData:
    """Vectors of the examples that could be read, each content once."""

    rows: Rows
    classes: tuple[str, ...]
    """The names of the classes 0..K-1; one without a readable example is not among them."""
    modality: Modality
    encoder: str
    unreadable: tuple[Unread, ...] = ()
    notes: tuple[str, ...] = ()
    """What else the user should know, a sentence each."""


def encode_own(
    examples: LabelledItems,
    *,
    encoder: str | None = None,
    device: str = "auto",
    cache: FeatureCache | None = None,
    seed: int = 0,
    on_progress: Callable[[int], None] | None = None,
) -> OwnData:
    """Encode labelled examples once; without `encoder` by the modality's default.

    Of files or texts of equal content in a class all but the first are left out: asked about one
    and shown the other, any learner would be right. Of very many examples some are drawn by `seed`.
    """
    if examples.modality is Modality.TABLE:
        return _encode_rows(examples, encoder, seed)
    made = make_encoder(
        encoder or default_encoder(examples.modality), examples.modality, device=device
    )
    found = encode_items(made, examples.items, cache=cache, on_progress=on_progress)
    labels = np.array([examples.labels[place] for place in found.kept], dtype=object)
    first = _first_of_each(found.features, labels)
    twice = len(labels) - len(first)
    note = f"{numbered(twice, 'example')} equal to another of the same class: left out."
    return _own(
        found.features[first],
        labels[first],
        seed,
        modality=examples.modality,
        encoder=made.name,
        unreadable=tuple(
            Unread(examples.names[failure.place], failure.reason) for failure in found.unreadable
        ),
        notes=(note,) if twice else (),
    )


def _encode_rows(examples: LabelledItems, encoder: str | None, seed: int) -> OwnData:
    """Encode a table; scales and categories are learned from all of its rows, once."""
    if encoder not in (None, TABLE):
        raise UnknownEncoder(
            "tables have one encoder", got=repr(encoder), allowed=TABLE, remedy="Name none."
        )
    made = TableEncoder().fit(examples.items)
    notes = [f"Column {name!r} is not used: {why}." for name, why in made.dropped.items()]
    return _own(
        made.transform(examples.items),
        np.array(examples.labels, dtype=object),
        seed,
        modality=Modality.TABLE,
        encoder=TABLE,
        notes=tuple(notes),
    )


def _first_of_each(features: NDArray[np.float32], labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places of the first row of each label and vector, in order."""
    seen = {(label, row.tobytes()): place for place, (label, row) in _backwards(labels, features)}
    return np.array(sorted(seen.values()), dtype=np.int64)


def _backwards(*columns: Any) -> list[tuple[int, Any]]:  # noqa: ANN401 - arrays
    return list(enumerate(zip(*columns, strict=True)))[::-1]


def _own(
    features: NDArray[np.float32],
    labels: NDArray[Any],
    seed: int,
    *,
    notes: tuple[str, ...],
    **facts: Any,  # noqa: ANN401 - the other fields
) -> OwnData:
    classes, indices = np.unique(labels, return_inverse=True)
    rows = Rows(features, indices.astype(np.int64), len(classes))
    kept = thinned(rows, seed)
    if len(kept) < len(labels):
        notes += (f"{len(kept):,} of {len(labels):,} examples were drawn for the estimate.",)
    return OwnData(rows=rows.take(kept), classes=tuple(classes), notes=notes, **facts)
