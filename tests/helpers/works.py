"""Work for engines that needs no encoder, and work that goes wrong."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow

from unitail.engines.chunk_results import ChunkFolder
from unitail.engines.engine import Chunk, ChunkReport, Work
from unitail.engines.storage import Storage
from unitail.errors import InvalidInput


def chunks_of(count: int, rows: int = 3) -> Iterator[Chunk]:
    """Make chunks of numbered rows."""
    for index in range(count):
        numbers = range(index * rows, (index + 1) * rows)
        yield Chunk(index, index * rows, pyarrow.table({"number": list(numbers)}))


@dataclass
class Note:
    """Writes the rows of each chunk to its file, with the process that did it."""

    folder: Path

    def __call__(self, chunk: Chunk) -> ChunkReport:
        rows = chunk.rows.append_column("process", [[os.getpid()] * len(chunk)])
        report = ChunkReport(index=chunk.index, rows=len(chunk))
        ChunkFolder(Storage(self.folder)).write(rows, report)
        return report


@dataclass
class Die:
    """Kills the worker at some chunk, so often, before it does the work."""

    work: Work
    folder: Path
    at: int
    times: int

    def __call__(self, chunk: Chunk) -> ChunkReport:
        died = list(self.folder.glob("death*"))
        if chunk.index == self.at and len(died) < self.times:
            (self.folder / f"death{len(died)}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.work(chunk)


@dataclass
class Refuse:
    """Raises an error of the user's at some chunk."""

    work: Work
    at: int

    def __call__(self, chunk: Chunk) -> ChunkReport:
        if chunk.index == self.at:
            raise InvalidInput("this chunk is wrong", got=chunk.index, allowed="others")
        return self.work(chunk)


def noted(folder: Path) -> list[int]:
    """Return all numbers that were noted, in their order, and as often as they were."""
    return _column(folder, "number")


def workers(folder: Path) -> set[int]:
    """Return the processes that noted something."""
    return set(_column(folder, "process"))


def _column(folder: Path, name: str) -> list[int]:
    results = ChunkFolder(Storage(folder))
    count = len(list(folder.glob("chunk-*.parquet")))
    tables = [results.read(index) for index in range(count)]
    return [number for table in tables for number in table.column(name).to_pylist()]
