"""The vectors of all items, made in the background; those that are there can be used at once."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.encoding import Vectors as EncodedVectors
from unitail.encoders.hashing import content_hash
from unitail.errors import UserError
from unitail.inputs.encode import encode
from unitail.inputs.input_encoder import InputEncoder, ItemEncoder
from unitail.studio.catalogue import Catalogue
from unitail.workflows.predict import choose_for

FIRST_CHUNK, CHUNK = 16, 128
"""Items that are encoded at once; few at first, then twice as many, so that some are there soon."""

Floats = NDArray[np.float32]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class EncodingProgress:
    """How far the encoding is."""

    done: int
    total: int
    trouble: str = ""
    """Why it stopped, if it did."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.done == self.total or bool(self.trouble)


class Vectors:
    """Vectors of the items that have one by now; threads may share it."""

    def __init__(
        self,
        catalogue: Catalogue,
        *,
        encoder: str | Encoder[Any] | None = None,
        cache: FeatureCache | None = None,
        device: str = "auto",
    ) -> None:
        self._catalogue, self._cache = catalogue, cache
        self._wanted, self._device = encoder, device
        self._lock = threading.Lock()
        self._features: Floats | None = None
        self._known = np.zeros(len(catalogue), dtype=bool)
        self._begun = np.zeros(len(catalogue), dtype=bool)
        self._versions = np.zeros(len(catalogue), dtype=np.int64)
        self.encoder: InputEncoder | None = None
        self.contents: dict[int, str] = {}
        """The hash of each file's content, by place."""
        self.failures: dict[int, str] = {}
        """Why an item has no vector, by place."""
        self.progress = EncodingProgress(0, len(catalogue))
        self.changes = 0
        """Counts up whenever a vector comes, changes or goes, or items are new."""

    @property
    def chosen(self) -> InputEncoder:
        """What made the vectors that are there."""
        assert self.encoder is not None
        return self.encoder

    def encode_all(
        self,
        first: Iterable[int] = (),
        *,
        on_more: Callable[[], None] = lambda: None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Encode all items that were not yet, those at the `first` places first.

        `on_more` is called in between.
        """
        try:
            by = self.encoder or self._choose()
            order = self._begin(first)
            size = len(order) if self._catalogue.modality is Modality.TABLE else FIRST_CHUNK
            while order and not is_over():
                self._encode(by, order[:size], on_more=on_more)
                order, size = order[size:], min(2 * size, CHUNK)
                on_more()
        except UserError as error:
            self.progress = replace(self.progress, trouble=str(error))
            on_more()

    def _begin(self, first: Iterable[int]) -> list[int]:
        """Return what is to be encoded, in its order; nobody else will."""
        with self._lock:
            order = dict.fromkeys([*first, *range(len(self._begun))])
            own = [place for place in order if not self._begun[place]]
            self._begun[own] = True
            return own

    def grow(self) -> None:
        """Make room for items that are new; `encode_all` then encodes them."""
        with self._lock:
            self.changes += 1
            more = len(self._catalogue) - len(self._known)
            self._known = np.pad(self._known, (0, more))
            self._begun = np.pad(self._begun, (0, more))
            self._versions = np.pad(self._versions, (0, more))
            if self._features is not None:
                self._features = np.pad(self._features, ((0, more), (0, 0)))
            self.progress = replace(self.progress, total=len(self._catalogue))

    def encode_again(self, places: Sequence[int]) -> None:
        """Encode items whose files have changed, or are back."""
        if self.encoder is not None and self._catalogue.modality is not Modality.TABLE:
            with self._lock:
                self._versions[list(places)] += 1  # what is being read now is out of date
                self.changes += 1
            self._encode(self.encoder, places, again=True)

    def forget(self, places: Sequence[int], reason: str) -> None:
        """Take away the vectors of files that are gone."""
        with self._lock:
            self._known[list(places)] = False
            self._versions[list(places)] += 1
            self.changes += 1
            self.failures.update(dict.fromkeys(places, reason))

    def known(self) -> Places:
        """Return the places of all items that have a vector."""
        with self._lock:
            return np.flatnonzero(self._known)

    def versions(self, places: Places) -> Places:
        """Return numbers that count up whenever the vectors at some places change."""
        with self._lock:
            versions: Places = self._versions[places]
            return versions

    def at(self, places: Places) -> Floats:
        """Return the vectors at some places, all of them known: (n, d)."""
        with self._lock:
            assert self._features is not None
            rows: Floats = self._features[places]
            return rows

    def _choose(self) -> InputEncoder:
        items = self._catalogue.items
        if isinstance(self._wanted, Encoder):
            column = items.content_column
            by: InputEncoder = ItemEncoder(
                encoder=self._wanted, named=False, content_column=column, device=self._device
            )
        else:
            by = choose_for(items.with_labels(()), self._wanted, self._device)
        self.encoder = by
        return by

    def _encode(
        self,
        by: InputEncoder,
        places: Sequence[int],
        *,
        again: bool = False,
        on_more: Callable[[], None] = lambda: None,
    ) -> None:
        items = self._catalogue.items
        done = self.progress.done

        def tell(some: int, of: int) -> None:
            """Say how far a table is, which is encoded in one piece."""
            if items.modality is Modality.TABLE and some < of:
                self.progress = replace(self.progress, done=done + len(places) * some // of)
                on_more()

        if items.modality is Modality.TABLE:
            chosen = items.items.iloc[list(places)]  # type: ignore[attr-defined]
        else:
            chosen = [items.items[place] for place in places]
        before = self.versions(np.array(places, dtype=np.int64))
        contents = {place: _content(self._catalogue.file(place)) for place in places}
        [vectors] = encode(by, chosen, on_unreadable="skip", cache=self._cache, on_progress=tell)
        self._take(places, before, contents, vectors)
        if not again:
            self.progress = replace(self.progress, done=done + len(places))

    def _take(
        self,
        places: Sequence[int],
        before: Places,
        contents: Mapping[int, str],
        vectors: EncodedVectors,
    ) -> None:
        """Take vectors over, but for those of files that have changed since `before`."""
        with self._lock:
            if self._features is None:
                width = vectors.features.shape[1]
                self._features = np.zeros((len(self._known), width), np.float32)
            current = self._versions[list(places)] == before  # others have changed meanwhile
            rows = [row for row, place in enumerate(vectors.kept) if current[place]]
            kept = [places[vectors.kept[row]] for row in rows]
            self._features[kept] = vectors.features[rows]
            self._known[kept] = True
            for place in kept:
                self.failures.pop(place, None)
            for failure in vectors.unreadable:
                if current[failure.place]:
                    self.failures[places[failure.place]] = failure.reason
                    self._known[places[failure.place]] = False
            fresh = [place for place, is_so in zip(places, current, strict=True) if is_so]
            self._versions[fresh] += 1
            self.changes += 1
            self.contents.update({place: contents[place] for place in fresh if contents[place]})


def _content(path: Path | None) -> str:
    """Return the hash of a file's content; empty if there is none."""
    try:
        return "" if path is None else content_hash(path)
    except UserError:
        return ""
