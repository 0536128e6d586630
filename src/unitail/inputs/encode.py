"""Vectors of all that a user's sources hold, by one encoder."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Modality
from unitail.encoders.encoding import Encoded, encode_items
from unitail.encoders.registry import default_encoder, make_encoder
from unitail.encoders.tables import TableEncoder
from unitail.errors import InvalidSource, UnknownEncoder
from unitail.inputs.sources import Items
from unitail.progress import OnProgress

TABLE = "columns"
"""The name of the encoder of tables, the only one there is."""


@dataclass(frozen=True)
class Unread:
    """An item that could not be read."""

    source: str
    """"support" or "queries"."""
    name: str
    reason: str


@dataclass(frozen=True, eq=False)
class Vectors:
    """The items of one source that could be read."""

    features: NDArray[np.float32]
    places: NDArray[np.int64]
    """The places of the items that these are the vectors of."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedSources:
    """The vectors of all sources, in the order given."""

    encoder: str
    parts: tuple[Vectors, ...]
    unreadable: tuple[Unread, ...] = ()
    num_cached: int = 0
    """How many items had been encoded before."""
    notes: tuple[str, ...] = ()
    """What else the user should know, a phrase each."""


def encode_sources(
    sources: dict[str, Items],
    *,
    encoder: str | None = None,
    device: str = "auto",
    cache: FeatureCache | None = None,
    on_progress: OnProgress | None = None,
) -> EncodedSources:
    """Encode sources, each called by its name; without `encoder` by the modality's default.

    All must be of the first one's modality. The columns of tables are learned from the first alone.
    """
    first, *others = sources.values()
    for other in others:
        _check_kind(other, first.modality)
    if first.modality is not Modality.TABLE:
        return _encode_items(sources, encoder, device, cache, on_progress)
    found = _encode_rows(list(sources.values()), encoder)
    if on_progress is not None:
        total = sum(map(len, sources.values()))
        on_progress(total, total)
    return found


def _encode_items(
    sources: dict[str, Items],
    encoder: str | None,
    device: str,
    cache: FeatureCache | None,
    on_progress: OnProgress | None,
) -> EncodedSources:
    """Encode all at once, so that an item of two sources is encoded once, and batches are full."""
    modality = next(iter(sources.values())).modality
    made = make_encoder(encoder or default_encoder(modality), modality, device=device)
    everything = [item for source in sources.values() for item in source.items]
    found = encode_items(made, everything, cache=cache, on_progress=on_progress)
    names = [(source, name) for source, items in sources.items() for name in items.names]
    return EncodedSources(
        encoder=made.name,
        parts=tuple(_parts(found, [len(source) for source in sources.values()])),
        unreadable=tuple(Unread(*names[each.place], each.reason) for each in found.unreadable),
        num_cached=found.num_cached,
    )


def _parts(found: Encoded, sizes: Sequence[int]) -> Iterator[Vectors]:
    """Give each source its vectors."""
    start = 0
    for size in sizes:
        low, high = np.searchsorted(found.kept, (start, start + size))
        yield Vectors(found.features[low:high], found.kept[low:high] - start)
        start += size


def _encode_rows(tables: Sequence[Items], encoder: str | None) -> EncodedSources:
    if encoder not in (None, TABLE):
        raise UnknownEncoder(
            "tables have one encoder", got=repr(encoder), allowed=TABLE, remedy="Name none."
        )
    made = TableEncoder().fit(tables[0].items)
    return EncodedSources(
        encoder=TABLE,
        parts=tuple(Vectors(made.transform(t.items), np.arange(len(t))) for t in tables),
        notes=tuple(f"Column {name!r} is not used: {why}" for name, why in made.dropped.items()),
    )


def _check_kind(items: Items, modality: Modality) -> None:
    if items.modality is not modality:
        raise InvalidSource(
            "queries are of another kind than the examples",
            got=items.modality,
            allowed=str(modality),
        )
