"""An on-disk cache of vectors, keyed by encoder and content."""

import os
import sqlite3
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from unitail.encoders.vector_file import EncoderCount, Vector, VectorFile
from unitail.errors import CannotWrite, InvalidConfig

FOLDER_VARIABLE, LIMIT_VARIABLE = "UNITAIL_CACHE", "UNITAIL_CACHE_BYTES"
AUTO = "auto"
"""The user's cache, except that single items are not written to it."""
DEFAULT_LIMIT = 2 * 1024**3
"""2 GiB: some 350,000 vectors of width 1280."""
FILE = "features-1.sqlite"
"""The number is the version of the database schema."""


@dataclass(frozen=True, kw_only=True)
class CacheInfo:
    """Size and contents of a cache."""

    folder: Path
    entries: int
    bytes: int
    """Size on disk."""
    limit: int
    encoders: tuple[EncoderCount, ...]


class FeatureCache:
    """An LRU cache of vectors, keyed by the encoder's fingerprint and the content's hash.

    A cache that cannot be used costs time, never an answer: the error is stored in `trouble`, and
    encoding continues without the cache. Several processes may share one folder.
    """

    def __init__(self, folder: Path, limit_bytes: int = DEFAULT_LIMIT) -> None:
        self.folder, self.limit_bytes = folder, limit_bytes
        self.trouble: str | None = None
        """Error message for the user; None without errors. Once set, nothing more is written."""
        self._file = VectorFile(folder / FILE)

    def get_many(self, fingerprint: str, hashes: Iterable[str]) -> dict[str, Vector]:
        """Return the cached vectors by hash; missing and damaged ones are left out."""
        vectors: dict[str, Vector] = {}
        with self._tolerant():
            vectors = self._file.read(fingerprint, list(hashes))
        return vectors

    def put_many(self, fingerprint: str, vectors: Mapping[str, Vector], *, name: str = "") -> None:
        """Store vectors by hash; `name` is the encoder's name in `info`."""
        if vectors and self.limit_bytes > 0 and self.trouble is None:
            with self._tolerant():
                self._file.write(fingerprint, name, vectors, self.limit_bytes)

    def info(self) -> CacheInfo:
        """Return the size of the cache and its vectors per encoder."""
        counts: list[EncoderCount] = []
        with self._tolerant():
            counts = self._file.count()
        return CacheInfo(
            folder=self.folder,
            entries=sum(count.entries for count in counts),
            bytes=self._file.bytes,
            limit=self.limit_bytes,
            encoders=tuple(counts),
        )

    def clear(self) -> int:
        """Remove all vectors; return their number."""
        try:
            return self._file.clear()
        except (OSError, sqlite3.Error) as error:
            raise CannotWrite(
                f"the feature cache in {self.folder} could not be cleared",
                got=str(error),
                allowed="a folder that can be written to",
                remedy="Make it writable, or remove it by hand.",
            ) from error

    @contextmanager
    def _tolerant(self) -> Iterator[None]:
        """Store an error in `trouble` instead of raising it."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            self.trouble = f"the feature cache in {self.folder} cannot be used: {error}"


def default_cache() -> FeatureCache:
    """Return the user's cache: in UNITAIL_CACHE or `user_folder`, up to UNITAIL_CACHE_BYTES."""
    folder = os.environ.get(FOLDER_VARIABLE)
    limit = os.environ.get(LIMIT_VARIABLE) or str(DEFAULT_LIMIT)
    if not limit.isdecimal():
        raise InvalidConfig(
            f"the environment variable {LIMIT_VARIABLE} is not a size",
            got=repr(limit),
            allowed="an integer number of bytes; 0 keeps nothing",
            remedy="Correct the variable or remove it.",
        )
    return FeatureCache(Path(folder) if folder else user_folder(), int(limit))


def choose_cache(cache: object, *, single: bool = False) -> FeatureCache | None:
    """Return the cache for a value of `TailClassifier(cache=...)`; None if it is off.

    With "auto" a single item is looked up but not stored: writing takes as long as encoding.
    """
    if cache is False:
        return None
    if cache is True:
        return default_cache()
    if isinstance(cache, str) and cache == AUTO:
        default = default_cache()
        return FeatureCache(default.folder, 0) if single else default
    if isinstance(cache, Path) or (isinstance(cache, str) and cache):
        return FeatureCache(Path(cache), default_cache().limit_bytes)
    raise InvalidConfig(
        "cache is unknown", got=repr(cache), allowed=f"'{AUTO}', True, False, or a folder"
    )


def user_folder() -> Path:
    """Return the folder for a user's caches on this platform."""
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home, as in some containers
        return Path(tempfile.gettempdir()) / "unitail-cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "unitail"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "unitail"
    xdg_folder = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (xdg_folder if xdg_folder.is_absolute() else home / ".cache") / "unitail"
