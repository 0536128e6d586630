"""The engine of many machines: actors of Ray, each with the encoder loaded once.

Chunks go to the actors that are up. In place of one that dies, alone or with its node, another is
started wherever there is room, and its chunk goes to whoever is free.
"""

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from unitail.engines.engine import MAX_ATTEMPTS, Chunk, ChunkReport, Engine, Work, gave_up
from unitail.errors import UserError, optional

START_SECONDS = 600.0
"""How long to wait for a first worker, as clusters that grow on demand need minutes."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""Ray's settings, unless the user has others: it reports to nobody and leaves GPUs visible."""


class RayEngine(Engine):
    """Actors on a cluster of Ray; without a number, as many as it has room for."""

    def __init__(
        self,
        workers: int | None = None,
        *,
        address: str | None = None,
        gpus: float = 0.0,
        start_seconds: float = START_SECONDS,
    ) -> None:
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        self._ray = optional("ray", extra="scale")
        self._gpus, self._start_seconds = gpus, start_seconds
        if not self._ray.is_initialized():
            self._connect(address, workers)
        self.workers = workers or self._room()

    def map(self, work: Work, chunks: Iterable[Chunk]) -> Iterator[ChunkReport]:
        """Do the work on every chunk; see `Engine`."""
        kind = self._ray.remote(num_cpus=1, num_gpus=self._gpus)(_Worker)
        shared = self._ray.put(work)
        sharing = _Sharing(
            self._ray, iter(chunks), self._start_seconds, partial(kind.remote, shared)
        )
        for _ in range(self.workers):
            sharing.start()
        try:
            yield from sharing.run()
        finally:
            sharing.stop()

    def _connect(self, address: str | None, workers: int | None) -> None:
        """Join the cluster at an address, or start one on this machine."""
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address is None and not os.environ.get("RAY_ADDRESS"):
            address = "local"
            options |= {"num_cpus": workers, "include_dashboard": False}
        try:
            self._ray.init(address=address, **options)
        except Exception as error:  # ConnectionError, RuntimeError, ValueError, by its mood
            raise UserError(
                "no cluster of Ray answers",
                got=f"{type(error).__name__} at {address!r}: {error}",
                allowed="the address of a running cluster, 'auto', or none to start one here",
                remedy="Start it (`ray start --head`), or correct --address.",
            ) from error

    def _room(self) -> int:
        """Return how many workers the cluster has room for now."""
        resources = self._ray.cluster_resources()
        room = int(resources.get("CPU", 1))
        if self._gpus > 0:
            room = min(room, int(resources.get("GPU", 0) / self._gpus))
        return max(1, room)


class _Worker:
    """An actor: it keeps the work, and with it all that the work has loaded."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def ready(self) -> None:
        """Answer as soon as it is up."""

    def do(self, chunk: Chunk) -> ChunkReport:
        return self._work(chunk)


class _Sharing:
    """Chunks that wait, actors that are up, and what is going on between them."""

    def __init__(
        self,
        ray: Any,  # noqa: ANN401
        waiting: Iterator[Chunk],
        start_seconds: float,
        make: Callable[[], Any],
    ) -> None:
        self._ray, self._waiting, self._start_seconds = ray, waiting, start_seconds
        self._make = make
        self._again: list[Chunk] = []
        self._idle: list[Any] = []
        self._failures, self._deaths = 0, Counter[int]()
        self._pending: dict[Any, tuple[Any, Chunk | None]] = {}
        """Calls that were made: of actors that start (None), or that work on a chunk."""

    def start(self) -> None:
        """Ask for one more actor, which may have to wait for room."""
        actor = self._make()
        self._pending[actor.ready.remote()] = (actor, None)

    def stop(self) -> None:
        """Let all actors go."""
        for actor in [*self._idle, *(actor for actor, _ in self._pending.values())]:
            self._ray.kill(actor)

    def run(self) -> Iterator[ChunkReport]:
        """Give every actor that is up a chunk at a time, until all are done."""
        chunk = self._take()
        while chunk is not None or self._busy:
            if chunk is not None and self._idle:
                actor = self._idle.pop()
                self._pending[actor.do.remote(chunk)] = (actor, chunk)
                chunk = self._take()
                continue
            call = self._finished()
            actor, done = self._pending.pop(call)
            try:
                report = self._ray.get(call)
            except self._ray.exceptions.RayTaskError as error:
                self._idle.append(actor)
                raise _cause(error) from error
            except self._ray.exceptions.RayError as error:  # the worker died, or its node
                self._replace(done, error)
                chunk = self._take() if chunk is None else chunk
                continue
            self._idle.append(actor)
            self._failures = 0
            if done is not None:
                yield report

    @property
    def _busy(self) -> bool:
        return any(chunk is not None for _, chunk in self._pending.values())

    def _take(self) -> Chunk | None:
        return self._again.pop() if self._again else next(self._waiting, None)

    def _finished(self) -> Any:  # noqa: ANN401 - a reference of Ray
        """Wait for some call to end; for ever only as long as somebody works."""
        limit = None if self._busy else self._start_seconds
        ended, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=limit)
        if not ended:
            raise UserError(
                "no worker could be started",
                got=f"none in {self._start_seconds:.0f} s",
                allowed="a cluster with a free CPU, and the GPUs that a worker is to have",
                remedy="Add a node, or ask for less: --workers, --gpus-per-worker.",
            )
        return ended[0]

    def _replace(self, chunk: Chunk | None, error: Exception) -> None:
        """Ask for an actor in place of one that died; its chunk is done by whoever is free."""
        if chunk is not None:
            self._deaths[chunk.index] += 1
            if self._deaths[chunk.index] >= MAX_ATTEMPTS:
                raise gave_up(chunk) from error
            self._again.append(chunk)
        else:
            self._failures += 1
        if self._failures < MAX_ATTEMPTS:
            self.start()
        elif not self._pending and not self._idle:
            raise UserError(
                "no worker can start",
                got=str(error).strip().splitlines()[-1],
                allowed="nodes on which the same version of unitail is installed",
                remedy="Install it on all of them, and run again.",
            ) from error


def _cause(error: Any) -> Exception:  # noqa: ANN401 - a RayTaskError
    """Return what was raised in the worker, so that users read one sentence."""
    cause = error.cause
    return cause if isinstance(cause, UserError) else RuntimeError(str(error))
