"""The vectors of all items, encoded in the background; each can be used as soon as it exists."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Encoder, Modality, Vectors
from unitail.encoders.hashing import content_hash
from unitail.errors import UserError
from unitail.inputs.encode import encode
from unitail.inputs.input_encoder import InputEncoder, ItemEncoder
from unitail.studio.catalogue import Catalogue
from unitail.workflows.fit import ClassifierOptions

FIRST_CHUNK, CHUNK = 16, 128
"""Items encoded at a time: few at first, for early results, then twice as many up to `CHUNK`."""

Floats = NDArray[np.float32]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class EncodingProgress:
    """Progress of the encoding."""

    done: int
    total: int
    trouble: str = ""
    """Why it stopped; empty if it has not."""

    @property
    def is_over(self) -> bool:
        """Whether the encoding has finished or stopped."""
        return self.done == self.total or bool(self.trouble)


class ItemVectors:
    """The vectors of all items encoded so far; threads may share it."""

    def __init__(
        self,
        catalogue: Catalogue,
        *,
        encoder: str | Encoder[Any] | None = None,
        cache: FeatureCache | None = None,
        device: str = "auto",
    ) -> None:
        self._catalogue, self._cache = catalogue, cache
        self._choice, self._device = encoder, device
        self._lock = threading.Lock()
        self._features: Floats | None = None
        self._is_encoded = np.zeros(len(catalogue), dtype=bool)
        self._is_queued = np.zeros(len(catalogue), dtype=bool)
        self._versions = np.zeros(len(catalogue), dtype=np.int64)
        self.encoder: InputEncoder | None = None
        self.contents: dict[int, str] = {}
        """Hash of each file's content, by place."""
        self.first_contents: dict[int, str] = {}
        """The same when each file was first read."""
        self.failures: dict[int, str] = {}
        """Reason why an item has no vector, by place."""
        self.progress = EncodingProgress(0, len(catalogue))
        self.changes = 0
        """Counter that increases whenever vectors or items are added, changed or removed."""

    @property
    def chosen_encoder(self) -> InputEncoder:
        """The encoder of the existing vectors; there must be one already."""
        assert self.encoder is not None
        return self.encoder

    def encode_all(
        self,
        first: Iterable[int] = (),
        *,
        on_more: Callable[[], None] = lambda: None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Encode all items that are not queued yet, those at the `first` places first.

        `on_more` is called after each chunk, and `is_over` before it, to stop early.
        """
        try:
            encoder = self.encoder or self._choose()
            order = self._queue(first)
            size = len(order) if self._catalogue.modality is Modality.TABLE else FIRST_CHUNK
            while order and not is_over():
                self._encode(encoder, order[:size], on_more=on_more)
                order, size = order[size:], min(2 * size, CHUNK)
                on_more()
        except UserError as error:
            self.progress = replace(self.progress, trouble=str(error))
            on_more()

    def _queue(self, first: Iterable[int]) -> list[int]:
        """Reserve all places that are not queued yet, and return them in order."""
        with self._lock:
            order = dict.fromkeys([*first, *range(len(self._is_queued))])
            reserved = [place for place in order if not self._is_queued[place]]
            self._is_queued[reserved] = True
            return reserved

    def grow(self) -> None:
        """Make room for new items; `encode_all` then encodes them."""
        with self._lock:
            self.changes += 1
            more = len(self._catalogue) - len(self._is_encoded)
            self._is_encoded = np.pad(self._is_encoded, (0, more))
            self._is_queued = np.pad(self._is_queued, (0, more))
            self._versions = np.pad(self._versions, (0, more))
            if self._features is not None:
                self._features = np.pad(self._features, ((0, more), (0, 0)))
            self.progress = replace(self.progress, total=len(self._catalogue))

    def encode_again(self, places: Sequence[int]) -> None:
        """Encode items whose files have changed or come back."""
        if self.encoder is not None and self._catalogue.modality is not Modality.TABLE:
            with self._lock:
                self._versions[list(places)] += 1  # invalidates encodings under way
                self.changes += 1
            self._encode(self.encoder, places, again=True)

    def forget(self, places: Sequence[int], reason: str) -> None:
        """Remove the vectors of files that are gone."""
        with self._lock:
            self._is_encoded[list(places)] = False
            self._versions[list(places)] += 1
            self.changes += 1
            self.failures.update(dict.fromkeys(places, reason))

    def encoded_places(self) -> Places:
        """Return the places of all items that have a vector."""
        with self._lock:
            return np.flatnonzero(self._is_encoded)

    def versions(self, places: Places) -> Places:
        """Return the version numbers of some vectors, which increase with every change."""
        with self._lock:
            versions: Places = self._versions[places]
            return versions

    def at(self, places: Places) -> Floats:
        """Return the vectors at some places, all of which must be encoded: (n, d)."""
        with self._lock:
            assert self._features is not None
            rows: Floats = self._features[places]
            return rows

    def _choose(self) -> InputEncoder:
        items = self._catalogue.items
        if isinstance(self._choice, Encoder):
            column = items.content_column
            encoder: InputEncoder = ItemEncoder(
                encoder=self._choice, named=False, content_column=column, device=self._device
            )
        else:
            options = ClassifierOptions(encoder=self._choice, device=self._device)
            encoder = options.encoder_for(items.with_labels(()))
        self.encoder = encoder
        return encoder

    def _encode(
        self,
        encoder: InputEncoder,
        places: Sequence[int],
        *,
        again: bool = False,
        on_more: Callable[[], None] = lambda: None,
    ) -> None:
        items = self._catalogue.items
        done = self.progress.done

        def update(some: int, total: int) -> None:
            """Update the progress of a table, which is encoded in one piece."""
            if items.modality is Modality.TABLE and some < total:
                self.progress = replace(self.progress, done=done + len(places) * some // total)
                on_more()

        if items.modality is Modality.TABLE:
            chosen = items.items.iloc[list(places)]  # type: ignore[attr-defined]
        else:
            chosen = [items.items[place] for place in places]
        before = self.versions(np.array(places, dtype=np.int64))
        contents = {place: _content_hash(self._catalogue.file(place)) for place in places}
        [vectors] = encode(
            encoder, chosen, on_unreadable="skip", cache=self._cache, on_progress=update
        )
        self._store(places, before, contents, vectors)
        if not again:
            self.progress = replace(self.progress, done=done + len(places))

    def _store(
        self,
        places: Sequence[int],
        before: Places,
        contents: Mapping[int, str],
        vectors: Vectors,
    ) -> None:
        """Store vectors, except those whose versions have changed since `before`."""
        with self._lock:
            if self._features is None:
                width = vectors.features.shape[1]
                self._features = np.zeros((len(self._is_encoded), width), np.float32)
            is_current = self._versions[list(places)] == before  # unless changed meanwhile
            rows = [row for row, place in enumerate(vectors.kept) if is_current[place]]
            kept = [places[vectors.kept[row]] for row in rows]
            self._features[kept] = vectors.features[rows]
            self._is_encoded[kept] = True
            for place in kept:
                self.failures.pop(place, None)
            for failure in vectors.unreadable:
                if is_current[failure.place]:
                    self.failures[places[failure.place]] = failure.reason
                    self._is_encoded[places[failure.place]] = False
            stored = [place for place, is_so in zip(places, is_current, strict=True) if is_so]
            self._versions[stored] += 1
            self.changes += 1
            read = {place: contents[place] for place in stored if contents[place]}
            self.contents.update(read)
            self.first_contents = {**read, **self.first_contents}


def _content_hash(path: Path | None) -> str:
    """Return the hash of a file's content; empty if there is no readable file."""
    try:
        return "" if path is None else content_hash(path)
    except UserError:
        return ""
