"""What an engine is: a way to let workers do some work on every chunk of rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from unitail.errors import UserError

MAX_ATTEMPTS = 3
"""How often a chunk is tried whose worker dies: by then it is the chunk that kills them."""
MAX_NAMED = 10
"""Items that could not be read, which a report names."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows of a user that lie side by side; the work on them never depends on others."""

    index: int
    """Its number, from 0."""
    first: int
    """The place of its first row among all, from 0."""
    rows: Any
    """The user's columns, a table of pyarrow."""

    def __len__(self) -> int:
        return int(self.rows.num_rows)


@dataclass(frozen=True, kw_only=True)
class ChunkReport:
    """What came of a chunk; the rows themselves are in a file."""

    index: int
    rows: int
    unreadable: int = 0
    named: tuple[str, ...] = ()
    """The first few that could not be read, and why."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many answers there are of each state, or vectors."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """How long each stage took."""


Work = Callable[[Chunk], ChunkReport]
"""Done by a worker, which keeps it: what it loads for the first chunk serves all others."""


class Engine(ABC):
    """Workers that share the chunks of a job."""

    @abstractmethod
    def map(self, work: Work, chunks: Iterable[Chunk]) -> Iterator[ChunkReport]:
        """Do the work on every chunk and report, in whatever order they are finished.

        `work` can be pickled. Chunks are taken from the iterable as workers become free. One whose
        worker dies is done again by another worker, up to `MAX_ATTEMPTS` times; an error of the
        work itself is raised here.
        """


def gave_up(chunk: Chunk) -> UserError:
    """Return the error for a chunk that no worker outlives."""
    return UserError(
        "workers die of some rows",
        got=f"{MAX_ATTEMPTS} workers that died of rows {chunk.first + 1:,} to"
        f" {chunk.first + len(chunk):,}",
        allowed="rows that fit into a worker's memory and that its decoders survive",
        remedy="Look at what they said last, above, if anything. Use fewer workers for more memory"
        " each, or take the rows out and run again: it goes on where it stopped.",
    )
