"""The engine of one machine: this process alone, or several that share the work."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import torch

from unitail.engines.engine import MAX_ATTEMPTS, Chunk, ChunkReport, Engine, Work, gave_up
from unitail.processes import end_with_parent, ready_to_fork, threads_of_each

PRELOADED = ("unitail.engines.encoding", "unitail.engines.answering")
_WORK: list[Work] = []
"""What this process does, if it is a worker."""


class LocalEngine(Engine):
    """Processes of this machine; one is this process itself."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers

    def map(self, work: Work, chunks: Iterable[Chunk]) -> Iterator[ChunkReport]:
        """Do the work on every chunk; see `Engine`."""
        if self.workers == 1:
            yield from map(work, chunks)
            return
        waiting, begun = iter(chunks), deque[Chunk]()
        deaths = Counter[int]()
        while True:
            died: list[Chunk] = []
            with self._pool(work) as pool:
                # Whoever was at work when a process died is tried alone, so that the chunk that
                # kills is found out and no other pays for it.
                yield from _share(pool, 1, _taken(begun), died)
                if not died:
                    yield from _share(pool, self.workers, waiting, died)
            if not died:
                return
            deaths.update(chunk.index for chunk in died)
            for chunk in died:
                if deaths[chunk.index] >= MAX_ATTEMPTS:
                    raise gave_up(chunk)
            begun.extendleft(died)

    def _pool(self, work: Work) -> ProcessPoolExecutor:
        context = ready_to_fork(*PRELOADED)
        threads = threads_of_each(self.workers)
        counter = context.Value("i", 0)
        return ProcessPoolExecutor(self.workers, context, _begin, (work, threads, counter))


def _share(
    pool: ProcessPoolExecutor, room: int, waiting: Iterator[Chunk], died: list[Chunk]
) -> Iterator[ChunkReport]:
    """Have `room` chunks at work until none waits; after a death, `died` has all that were."""
    busy: dict[Future[ChunkReport], Chunk] = {}
    while not died:
        while len(busy) < room and (chunk := next(waiting, None)) is not None:
            try:
                busy[pool.submit(_do, chunk)] = chunk
            except BrokenProcessPool:  # a worker died while the chunk was read
                died.append(chunk)
                break
        if not busy:
            return
        done, _ = wait(busy, return_when=FIRST_COMPLETED)
        for future in done:
            chunk = busy.pop(future)
            if isinstance(future.exception(), BrokenProcessPool):
                died.append(chunk)
            else:
                yield future.result()
    died += busy.values()


def _taken(chunks: "deque[Chunk]") -> Iterator[Chunk]:
    while chunks:
        yield chunks.popleft()


def _begin(work: Work, threads: int, counter: Any) -> None:  # noqa: ANN401 - a shared number
    """Make this process a worker with its share of the cores, on a GPU of its own if possible."""
    end_with_parent()
    torch.set_num_threads(threads)
    with counter.get_lock():
        number, counter.value = counter.value, counter.value + 1
    if torch.cuda.device_count() > 1:
        torch.cuda.set_device(number % torch.cuda.device_count())
    _WORK[:] = [work]


def _do(chunk: Chunk) -> ChunkReport:
    return _WORK[0](chunk)
