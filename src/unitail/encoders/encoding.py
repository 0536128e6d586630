"""Encode many items: cached vectors are looked up, all other items are read and embedded.

Threads read one batch while the previous one is embedded. Every batch is cached immediately, so an
interrupted run keeps its finished batches.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Encoder, Failure, Modality, Vectors
from unitail.encoders.hashing import content_hash
from unitail.errors import Unreadable, UserError
from unitail.progress import OnProgress

READERS = 8
"""Number of reader threads: decoders release the GIL, and disks serve several requests at once."""
WINDOW = 1024
"""Number of items per cache lookup."""


def encode_items(
    encoder: Encoder[Any],
    items: Sequence[object],
    *,
    cache: FeatureCache | None = None,
    on_progress: OnProgress | None = None,
) -> Vectors:
    """Return the vectors of all readable items, and the reasons why the others are unreadable.

    Items of equal content are encoded once. A string is a text for text encoders and a file name
    for all others. `on_progress` counts finished items, readable or not. Errors of the cache are in
    `cache.trouble`.
    """
    results = _Results(encoder, cache)
    keys: list[str] = []
    with ThreadPoolExecutor(READERS) as pool:
        for start in range(0, len(items), WINDOW):
            window = [_item(encoder, item) for item in items[start : start + WINDOW]]
            # An image in memory may occur twice, and two threads must not load it at once.
            files = all(isinstance(item, Path) for item in window)
            mapped = pool.map if files else map
            new = list(mapped(results.key, range(start, start + len(window)), window))
            keys += new
            unique = dict(zip(new, window, strict=True))
            for _ in _encode_window(results, unique, encoder.batch_size, pool):
                if on_progress is not None:
                    on_progress(start + sum(key in results for key in new), len(items))
    return results.assemble(keys)


def _item(encoder: Encoder[Any], item: object) -> object:
    is_name = isinstance(item, str) and encoder.modality is not Modality.TEXT
    return Path(str(item)) if is_name else item


def _encode_window(
    results: "_Results", items: Mapping[str, object], size: int, pool: ThreadPoolExecutor
) -> Iterator[None]:
    """Encode items, given by content hash; yields after the lookup and after every batch."""
    results.look_up([key for key in items if key not in results])
    yield
    missing = [key for key in items if key not in results]
    batches = [missing[start : start + size] for start in range(0, len(missing), size)]
    ahead: list[dict[str, Future[Any]]] = []
    for batch in batches:
        ahead.append({key: pool.submit(results.read, key, items[key]) for key in batch})
        if len(ahead) > 1:  # this batch is read while the previous one is embedded
            results.embed(ahead.pop(0), items)
            yield
    for last in ahead:
        results.embed(last, items)
        yield


class _Results:
    """Results by content hash: a vector, or the reason why there is none."""

    def __init__(self, encoder: Encoder[Any], cache: FeatureCache | None) -> None:
        self._encoder, self._cache = encoder, cache
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._reasons: dict[str, str] = {}
        self._cached: set[str] = set()
        self._states: dict[object, tuple[int, ...]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._vectors or key in self._reasons

    def key(self, place: int, item: object) -> str:
        """Return the content hash of an item, or a unique key if it cannot be hashed."""
        if isinstance(item, Path):
            self._states[item] = _state(item)
        try:
            return content_hash(item)
        except Unreadable as error:
            key = f"item {place}"
            self._reasons[key] = _reason(error, item)
            return key

    def look_up(self, keys: Sequence[str]) -> None:
        """Take over the vectors that are cached."""
        if self._cache is not None:
            vectors = self._cache.get_many(self._encoder.fingerprint, keys)
            shape = (self._encoder.width,)
            valid = {key: row for key, row in vectors.items() if row.shape == shape}
            self._vectors.update(valid)
            self._cached.update(valid)

    def read(self, key: str, item: object) -> Any:  # noqa: ANN401 - as the encoder decodes it
        """Decode an item."""
        decoded = self._encoder.read(item)
        # Otherwise the vector of the new content would be cached under the old hash.
        if isinstance(item, Path) and self._has_changed(item, key):
            raise Unreadable(
                f"{item} changed while it was read",
                got="new content",
                allowed="a file that does not change",
            )
        return decoded

    def _has_changed(self, path: Path, key: str) -> bool:
        """Return whether a file has other content now; it is not hashed again without reason."""
        return _state(path) != self._states[path] and content_hash(path) != key

    def embed(self, batch: Mapping[str, Future[Any]], items: Mapping[str, object]) -> None:
        """Wait until a batch is decoded, then embed and cache its readable items."""
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
        """Store and cache the vectors of one batch; non-finite ones count as unreadable items."""
        _check_shape(self._encoder, rows, len(keys))
        finite = {key: row for key, row in zip(keys, rows, strict=True) if np.isfinite(row).all()}
        self._vectors.update(finite)
        reason = f"{self._encoder.name} returned values that are not finite"
        self._reasons.update(dict.fromkeys(keys.keys() - finite.keys(), reason))
        if self._cache is not None:
            self._cache.put_many(self._encoder.fingerprint, finite, name=self._encoder.name)

    def assemble(self, keys: Sequence[str]) -> Vectors:
        """Return the vectors in the order of the items' keys."""
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
            hashes=tuple(keys[place] for place in kept),
        )


def _state(path: Path) -> tuple[int, ...]:
    """Return numbers of a file of which at least one changes whenever its content does."""
    try:
        status = path.stat()
    except (OSError, ValueError):  # reported when it is read
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _reason(error: Unreadable, item: object) -> str:
    """Return an error's message without its remedy and file name; other files may be equal."""
    name = str(item) if isinstance(item, Path) else ""
    return f"{error.wrong.removeprefix(name).strip()}: got {error.got}; allowed: {error.allowed}"


def _check_shape(encoder: Encoder[Any], rows: NDArray[np.float32], num_items: int) -> None:
    if np.shape(rows) != (num_items, encoder.width):
        raise UserError(
            f"the encoder {encoder.name} returned an array of the wrong shape",
            got=np.shape(rows),
            allowed=f"({num_items}, {encoder.width})",
            remedy="Correct its `embed`.",
        )
