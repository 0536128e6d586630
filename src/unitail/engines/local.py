"""The local engine: this process alone, or several processes on this machine."""

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
"""The work of this process if it is a worker, else empty."""


class LocalEngine(Engine):
    """Worker processes on this machine; a single worker is this process itself."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers

    def map(self, work: Work, chunks: Iterable[Chunk]) -> Iterator[ChunkReport]:
        """Apply the work to every chunk; see `Engine`."""
        if self.workers == 1:
            yield from map(work, chunks)
            return
        waiting, retries = iter(chunks), deque[Chunk]()
        deaths = Counter[int]()
        while True:
            died: list[Chunk] = []
            with self._pool(work) as pool:
                # All chunks in progress when a process died are tried again one at a time, which
                # shows which of them kills its worker.
                yield from _share(pool, 1, _pop_all(retries), died)
                if not died:
                    yield from _share(pool, self.workers, waiting, died)
            if not died:
                return
            deaths.update(chunk.index for chunk in died)
            for chunk in died:
                if deaths[chunk.index] >= MAX_ATTEMPTS:
                    raise gave_up(chunk)
            retries.extendleft(died)

    def _pool(self, work: Work) -> ProcessPoolExecutor:
        context = ready_to_fork(*PRELOADED)
        threads = threads_of_each(self.workers)
        counter = context.Value("i", 0)
        return ProcessPoolExecutor(self.workers, context, _start_worker, (work, threads, counter))


def _share(
    pool: ProcessPoolExecutor, room: int, waiting: Iterator[Chunk], died: list[Chunk]
) -> Iterator[ChunkReport]:
    """Keep up to `room` chunks in progress until none is waiting; yield their reports.

    If a worker dies, all chunks in progress are appended to `died`.
    """
    busy: dict[Future[ChunkReport], Chunk] = {}
    while not died:
        while len(busy) < room and (chunk := next(waiting, None)) is not None:
            try:
                busy[pool.submit(_run_work, chunk)] = chunk
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


def _pop_all(chunks: "deque[Chunk]") -> Iterator[Chunk]:
    while chunks:
        yield chunks.popleft()


def _start_worker(work: Work, threads: int, counter: Any) -> None:  # noqa: ANN401 - a shared number
    """Set up this process as a worker with its share of the cores, and its own GPU if possible."""
    end_with_parent()
    torch.set_num_threads(threads)
    with counter.get_lock():
        number, counter.value = counter.value, counter.value + 1
    if torch.cuda.device_count() > 1:
        torch.cuda.set_device(number % torch.cuda.device_count())
    _WORK[:] = [work]


def _run_work(chunk: Chunk) -> ChunkReport:
    return _WORK[0](chunk)
