"""Work for engines that needs no encoder, and work that goes wrong."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow

from unitail.engines.engine import Chunk, Report, Work
from unitail.errors import InvalidInput


def chunks_of(count: int, rows: int = 3) -> Iterator[Chunk]:
    """Make chunks of numbered rows."""
    for index in range(count):
        numbers = range(index * rows, (index + 1) * rows)
        yield Chunk(index, index * rows, pyarrow.table({"number": list(numbers)}))


@dataclass
class Note:
    """Writes the rows of each chunk to a file, with the process that did it."""

    folder: Path

    def __call__(self, chunk: Chunk) -> Report:
        numbers = chunk.rows.column("number").to_pylist()
        with (self.folder / f"{chunk.index}.txt").open("a") as file:
            file.write("".join(f"{number} {os.getpid()}\n" for number in numbers))
        return Report(index=chunk.index, rows=len(chunk))


@dataclass
class Die:
    """Kills the worker at some chunk, so often, before it does the work."""

    work: Work
    folder: Path
    at: int
    times: int

    def __call__(self, chunk: Chunk) -> Report:
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

    def __call__(self, chunk: Chunk) -> Report:
        if chunk.index == self.at:
            raise InvalidInput("this chunk is wrong", got=chunk.index, allowed="others")
        return self.work(chunk)


def noted(folder: Path) -> list[int]:
    """Return all numbers that were noted, sorted, and as often as they were."""
    lines = [line for path in folder.glob("*.txt") for line in path.read_text().splitlines()]
    return sorted(int(line.split()[0]) for line in lines)


def workers(folder: Path) -> set[str]:
    """Return the processes that noted something."""
    lines = [line for path in folder.glob("*.txt") for line in path.read_text().splitlines()]
    return {line.split()[1] for line in lines}
