"""Many items to vectors: what was encoded before is looked up, the rest is read and embedded.

Threads read items while the batch before is embedded, and every batch is cached at once, so that a
run that is broken off keeps what it has done.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.hashing import content_hash
from unitail.errors import Unreadable, UserError
from unitail.progress import OnProgress

READERS = 8
"""Threads that read items: decoders let go of Python's lock, and disks answer several at once."""
WINDOW = 1024
"""Items that are looked up together."""


@dataclass(frozen=True)
class Failure:
    """An item that has no vector."""

    place: int
    """Its place among the items."""
    reason: str
    """What is wrong with it; it does not name the item."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Vectors:
    """The vectors of the items that could be read."""

    features: NDArray[np.float32]
    """(n_read, d_T), in the order of the items."""
    kept: NDArray[np.int64]
    """The places of the items that these are the vectors of, (n_read,)."""
    cached: NDArray[np.bool_]
    """Which of the vectors had been computed before, (n_read,)."""
    unreadable: tuple[Failure, ...] = ()
    """The other items, in their order."""

    @classmethod
    def of_all(cls, features: NDArray[np.float32]) -> Self:
        """Return the vectors of items that all could be read."""
        count = len(features)
        return cls(features=features, kept=np.arange(count), cached=np.zeros(count, bool))

    @property
    def num_cached(self) -> int:
        """How many of the vectors had been computed before."""
        return int(self.cached.sum())

    def split(self, sizes: Sequence[int]) -> "list[Vectors]":
        """Give the first items their vectors, then the next, and so on."""
        pieces, start = [], 0
        for size in sizes:
            low, high = np.searchsorted(self.kept, (start, start + size))
            failures = [each for each in self.unreadable if start <= each.place < start + size]
            pieces.append(
                Vectors(
                    features=self.features[low:high],
                    kept=self.kept[low:high] - start,
                    cached=self.cached[low:high],
                    unreadable=tuple(Failure(each.place - start, each.reason) for each in failures),
                )
            )
            start += size
        return pieces


def encode_items(
    encoder: Encoder[Any],
    items: Sequence[object],
    *,
    cache: FeatureCache | None = None,
    on_progress: OnProgress | None = None,
) -> Vectors:
    """Return the vectors of all items that can be read, and say why the others cannot.

    Items of equal content are encoded once. A string is a text for encoders of text, the name of a
    file for others. `on_progress` counts items that are finished, readable or not.
    What is wrong with the cache is in `cache.trouble`.
    """
    known = _Known(encoder, cache)
    keys: list[str] = []
    with ThreadPoolExecutor(READERS) as pool:
        for start in range(0, len(items), WINDOW):
            window = [_item(encoder, item) for item in items[start : start + WINDOW]]
            # An image in memory may be there twice, and is not safe to load in two threads.
            files = all(isinstance(item, Path) for item in window)
            each = pool.map if files else map
            new = list(each(known.key, range(start, start + len(window)), window))
            keys += new
            for _ in _find(known, dict(zip(new, window, strict=True)), encoder.batch_size, pool):
                if on_progress is not None:
                    on_progress(start + sum(key in known for key in new), len(items))
    return known.assemble(keys)


def _item(encoder: Encoder[Any], item: object) -> object:
    is_name = isinstance(item, str) and encoder.modality is not Modality.TEXT
    return Path(str(item)) if is_name else item


def _find(
    known: "_Known", items: Mapping[str, object], size: int, pool: ThreadPoolExecutor
) -> Iterator[None]:
    """Find the vectors of items by content, pausing whenever some more are known."""
    known.look_up([key for key in items if key not in known])
    yield
    missing = [key for key in items if key not in known]
    batches = [missing[start : start + size] for start in range(0, len(missing), size)]
    ahead: list[dict[str, Future[Any]]] = []
    for batch in batches:
        ahead.append({key: pool.submit(known.read, key, items[key]) for key in batch})
        if len(ahead) > 1:  # this batch is read while the one before is embedded
            known.embed(ahead.pop(0), items)
            yield
    for last in ahead:
        known.embed(last, items)
        yield


class _Known:
    """What is known of contents, each called by its hash: a vector, or why there is none."""

    def __init__(self, encoder: Encoder[Any], cache: FeatureCache | None) -> None:
        self._encoder, self._cache = encoder, cache
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._reasons: dict[str, str] = {}
        self._cached: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._vectors or key in self._reasons

    def key(self, place: int, item: object) -> str:
        """Return the hash of an item, or a name for one that has none."""
        try:
            return content_hash(item)
        except Unreadable as error:
            key = f"item {place}"
            self._reasons[key] = _reason(error, item)
            return key

    def look_up(self, keys: Sequence[str]) -> None:
        """Take what the cache has."""
        if self._cache is not None:
            vectors = self._cache.get_many(self._encoder.fingerprint, keys)
            shape = (self._encoder.width,)
            fitting = {key: row for key, row in vectors.items() if row.shape == shape}
            self._vectors.update(fitting)
            self._cached.update(fitting)

    def read(self, key: str, item: object) -> Any:  # noqa: ANN401 - as the encoder decodes it
        """Decode an item."""
        decoded = self._encoder.read(item)
        # Else the vector of the new content would be cached as that of the old one.
        if isinstance(item, Path) and content_hash(item) != key:
            raise Unreadable(
                f"{item} changed while it was read", got="another content", allowed="a file at rest"
            )
        return decoded

    def embed(self, batch: Mapping[str, Future[Any]], items: Mapping[str, object]) -> None:
        """Wait until a batch is decoded, embed what could be, and cache it."""
        decoded = {}
        for key, future in batch.items():
            try:
                decoded[key] = future.result()
            except Unreadable as error:
                self._reasons[key] = _reason(error, items[key])
            except OSError as error:
                self._reasons[key] = f"cannot be read: got {error.strerror or error}"
        if decoded:
            self._keep(decoded, self._encoder.embed(list(decoded.values())))

    def _keep(self, keys: Mapping[str, object], rows: NDArray[np.float32]) -> None:
        """Remember the vectors of one batch; those that no learner would take are left out."""
        _check_shape(self._encoder, rows, len(keys))
        finite = {key: row for key, row in zip(keys, rows, strict=True) if np.isfinite(row).all()}
        self._vectors.update(finite)
        strange = f"{self._encoder.name} gave values that are not finite"
        self._reasons.update(dict.fromkeys(keys.keys() - finite.keys(), strange))
        if self._cache is not None:
            self._cache.put_many(self._encoder.fingerprint, finite, name=self._encoder.name)

    def assemble(self, keys: Sequence[str]) -> Vectors:
        """Put the vectors in the order of the items."""
        kept = [place for place, key in enumerate(keys) if key in self._vectors]
        features = np.empty((len(kept), self._encoder.width), np.float32)
        for row, place in enumerate(kept):
            features[row] = self._vectors[keys[place]]
        return Vectors(
            features=features,
            kept=np.array(kept, dtype=np.int64),
            cached=np.array([keys[place] in self._cached for place in kept], dtype=bool),
            unreadable=tuple(
                Failure(place, self._reasons[key])
                for place, key in enumerate(keys)
                if key not in self._vectors
            ),
        )


def _reason(error: Unreadable, item: object) -> str:
    """Say what is wrong, without what to do and without the file, which others may be equal to."""
    name = str(item) if isinstance(item, Path) else ""
    return f"{error.wrong.removeprefix(name).strip()}: got {error.got}; allowed: {error.allowed}"


def _check_shape(encoder: Encoder[Any], rows: NDArray[np.float32], num_items: int) -> None:
    if np.shape(rows) != (num_items, encoder.width):
        raise UserError(
            f"the encoder {encoder.name} gave an array of the wrong shape",
            got=np.shape(rows),
            allowed=f"({num_items}, {encoder.width})",
            remedy="Correct its `embed`.",
        )
