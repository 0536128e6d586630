"""A SQLite file of vectors, keyed by encoder and content.

Transactions keep the file intact if a process is killed, and let several processes read and write
at once. SQLite has no checksums, so each vector has its own.
"""

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TIMEOUT_SECONDS = 30.0
"""Time to wait for another process that is writing."""
READ_CHUNK = 500
"""Number of vectors per SELECT; older builds of SQLite allow 999 parameters."""
EVICTED_CHUNK = 32
USE_NOTED_SECONDS = 3600
"""A vector's last use is updated at most this often, so most reads write nothing."""
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
"""Error codes for a file that is damaged, is not a database or has other tables."""
TABLES = (
    "CREATE TABLE IF NOT EXISTS encoders (id INTEGER PRIMARY KEY, fingerprint TEXT UNIQUE,"
    " name TEXT)",
    "CREATE TABLE IF NOT EXISTS vectors (encoder INTEGER, content TEXT, vector BLOB,"
    " checksum BLOB, used INTEGER, PRIMARY KEY (encoder, content))",
    "CREATE INDEX IF NOT EXISTS vectors_by_use ON vectors (used)",
)

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class EncoderCount:
    """Number of vectors of one encoder."""

    name: str
    fingerprint: str
    entries: int


class VectorFile:
    """A file of vectors; every call opens it anew, so threads and forked processes may share it.

    Raises `sqlite3.Error` and `OSError`. A damaged file raises nothing: it is moved aside and reads
    as empty.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.broken = path.with_name(f"{path.name}.broken")
        """Path that a damaged file is moved to."""

    @property
    def bytes(self) -> int:
        """Size on disk; 0 before the tables exist."""
        return self.path.stat().st_size if self.path.exists() else 0

    def read(self, fingerprint: str, contents: Sequence[str]) -> dict[str, Vector]:
        """Return the vectors by content, without missing and damaged ones."""
        vectors: dict[str, Vector] = {}
        if self.bytes == 0:
            return vectors
        with self._set_damaged_aside(), closing(self._open()) as connection:
            for start in range(0, len(contents), READ_CHUNK):
                chunk = contents[start : start + READ_CHUNK]
                vectors.update(_read(connection, fingerprint, chunk))
        return vectors

    def write(self, fingerprint: str, name: str, vectors: Mapping[str, Vector], limit: int) -> None:
        """Write all vectors or none, then evict the least recently used."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # required by XDG
        with self._set_damaged_aside(), self._writing() as connection:
            sql = "INSERT OR IGNORE INTO encoders (fingerprint, name) VALUES (?, ?)"
            connection.execute(sql, (fingerprint, name))
            sql = "SELECT id FROM encoders WHERE fingerprint = ?"
            encoder = _number(connection, sql, fingerprint)
            rows = [(encoder, *_row(fingerprint, *entry)) for entry in vectors.items()]
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?, ?)", rows)
            _evict(connection, limit)

    def count(self) -> list[EncoderCount]:
        """Count the vectors of each encoder."""
        sql = """SELECT name, fingerprint, count(*) FROM vectors JOIN encoders ON id = encoder
                 GROUP BY encoder ORDER BY name, fingerprint"""
        counts: list[EncoderCount] = []
        if self.bytes > 0:
            with self._set_damaged_aside(), closing(self._open()) as connection:
                counts = [EncoderCount(*row) for row in connection.execute(sql)]
        return counts

    def clear(self) -> int:
        """Remove all vectors; return their number."""
        removed = 0
        if self.bytes > 0:
            with self._set_damaged_aside(), self._writing() as connection:
                removed = connection.execute("DELETE FROM vectors").rowcount
                connection.execute("DELETE FROM encoders")
        self.broken.unlink(missing_ok=True)
        return removed

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=TIMEOUT_SECONDS, isolation_level=None)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction, committed if no error is raised."""
        with closing(self._open()) as connection:
            # Lets the file shrink as it empties; must be set before the first table.
            connection.execute("PRAGMA auto_vacuum = FULL")
            # A power cut may destroy the cache, but checksums prevent wrong vectors.
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("BEGIN IMMEDIATE")  # wait for other writers here, not later
            for table in TABLES:
                connection.execute(table)
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _set_damaged_aside(self) -> Iterator[None]:
        """Move a damaged file aside instead of raising; the block ends early."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in DAMAGE:
                raise
            with suppress(FileNotFoundError):  # another process was faster
                os.replace(self.path, self.broken)


def _read(
    connection: sqlite3.Connection, fingerprint: str, contents: Sequence[str]
) -> dict[str, Vector]:
    """Return the undamaged vectors among these, and update their time of last use."""
    marks = ", ".join("?" * len(contents))
    sql = f"""SELECT vectors.rowid, content, vector, checksum, used FROM vectors JOIN encoders
              ON id = encoder WHERE fingerprint = ? AND content IN ({marks})"""
    now, vectors, updates = int(time.time()), {}, []
    for row, content, blob, checksum, used in connection.execute(sql, (fingerprint, *contents)):
        if not isinstance(blob, bytes) or checksum != _checksum(fingerprint, content, blob):
            continue
        vectors[content] = np.frombuffer(blob, dtype="<f4").astype(np.float32)
        is_recent = isinstance(used, int) and used >= now - USE_NOTED_SECONDS
        updates += [] if is_recent else [(now, row)]
    with suppress(sqlite3.OperationalError):  # a read-only cache can still be read
        connection.executemany("UPDATE vectors SET used = ? WHERE rowid = ?", updates)
    return vectors


def _row(fingerprint: str, content: str, vector: Vector) -> tuple[str, bytes, bytes, int]:
    blob = np.asarray(vector, dtype="<f4").tobytes()
    return content, blob, _checksum(fingerprint, content, blob), int(time.time())


def _checksum(fingerprint: str, content: str, blob: bytes) -> bytes:
    key = f"{fingerprint}\0{content}\0".encode()
    return hashlib.blake2b(key + blob, digest_size=8).digest()


def _evict(connection: sqlite3.Connection, limit: int) -> None:
    """Remove the least recently used vectors until the file fits the limit, in one transaction."""
    page = _number(connection, "PRAGMA page_size")
    oldest = f"SELECT rowid FROM vectors ORDER BY used, rowid LIMIT {EVICTED_CHUNK}"
    removed = 1
    while removed and limit < page * (
        _number(connection, "PRAGMA page_count") - _number(connection, "PRAGMA freelist_count")
    ):
        removed = connection.execute(f"DELETE FROM vectors WHERE rowid IN ({oldest})").rowcount


def _number(connection: sqlite3.Connection, sql: str, *values: object) -> int:
    return int(connection.execute(sql, values).fetchone()[0])
