"""The interface of engines, which let workers process every chunk of rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from unitail.errors import UserError

MAX_ATTEMPTS = 3
"""Number of workers that may die on a chunk before it is given up as the cause."""
MAX_NAMED = 10
"""Largest number of unreadable items that a report names."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive rows of a job; chunks are processed independently of each other."""

    index: int
    """Number of the chunk, from 0."""
    first: int
    """Number of its first row among all rows, from 0."""
    rows: Any
    """The user's columns, as a pyarrow table."""

    def __len__(self) -> int:
        return int(self.rows.num_rows)


@dataclass(frozen=True, kw_only=True)
class ChunkReport:
    """Summary of a finished chunk; the rows themselves are in a file."""

    index: int
    rows: int
    unreadable: int = 0
    named: tuple[str, ...] = ()
    """The first few unreadable items, with the reasons."""
    unread_cells: Mapping[str, int] = field(default_factory=dict)
    """Number of cells by column that count as missing: no number or date in its format."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Number of answers of each state, or of vectors."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Duration of each stage."""


Work = Callable[[Chunk], ChunkReport]
"""Function of a chunk. A worker keeps it, so anything loaded for the first chunk is reused."""


class Engine(ABC):
    """Workers that share the chunks of a job."""

    @abstractmethod
    def map(self, work: Work, chunks: Iterable[Chunk]) -> Iterator[ChunkReport]:
        """Apply the work to every chunk; yield the reports in the order of completion.

        `work` can be pickled. Chunks are taken from the iterable as workers become free. If a
        worker dies, another one tries its chunk again, up to `MAX_ATTEMPTS` times in all; an
        exception of the work itself is raised here.
        """


def gave_up(chunk: Chunk) -> UserError:
    """Return the error for a chunk on which `MAX_ATTEMPTS` workers have died."""
    return UserError(
        "workers die on some rows",
        got=f"{MAX_ATTEMPTS} workers that died on rows {chunk.first + 1:,} to"
        f" {chunk.first + len(chunk):,}",
        allowed="rows that fit into a worker's memory and do not crash its decoders",
        remedy="See the last messages of the workers above, if any. Use fewer workers, so that each"
        " has more memory, or remove the rows and run again: the job resumes where it stopped.",
    )
