"""The engine for many machines: Ray actors, each of which loads the encoder once.

Chunks go to actors that are ready. If an actor dies, alone or with its node, another is started
wherever there is room, and its chunk goes to the next free actor.
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
"""How long to wait for the first worker; clusters that grow on demand need minutes."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""Default settings of Ray: it sends no usage statistics and leaves GPUs visible."""


class RayEngine(Engine):
    """Actors on a Ray cluster, by default as many as fit."""

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
        """Apply the work to every chunk; see `Engine`."""
        kind = self._ray.remote(num_cpus=1, num_gpus=self._gpus)(_Worker)
        shared = self._ray.put(work)
        scheduler = _Scheduler(
            self._ray, iter(chunks), self._start_seconds, partial(kind.remote, shared)
        )
        for _ in range(self.workers):
            scheduler.start()
        try:
            yield from scheduler.run()
        finally:
            scheduler.stop()

    def _connect(self, address: str | None, workers: int | None) -> None:
        """Join the cluster at an address, or start one on this machine."""
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address is None and not os.environ.get("RAY_ADDRESS"):
            address = "local"
            options |= {"num_cpus": workers, "include_dashboard": False}
        try:
            self._ray.init(address=address, **options)
        except Exception as error:  # ConnectionError, RuntimeError or ValueError
            raise UserError(
                "no Ray cluster answers",
                got=f"{type(error).__name__} at {address!r}: {error}",
                allowed="the address of a running cluster, 'auto', or none to start one here",
                remedy="Start it (`ray start --head`), or correct --address.",
            ) from error

    def _room(self) -> int:
        """Return how many workers fit on the cluster now."""
        resources = self._ray.cluster_resources()
        room = int(resources.get("CPU", 1))
        if self._gpus > 0:
            room = min(room, int(resources.get("GPU", 0) / self._gpus))
        return max(1, room)


class _Worker:
    """An actor that keeps the work, and with it everything that the work has loaded."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def ready(self) -> None:
        """Return as soon as the actor has started."""

    def do(self, chunk: Chunk) -> ChunkReport:
        return self._work(chunk)


class _Scheduler:
    """Assigns waiting chunks to actors, and replaces actors that die."""

    def __init__(
        self,
        ray: Any,  # noqa: ANN401
        waiting: Iterator[Chunk],
        start_seconds: float,
        make: Callable[[], Any],
    ) -> None:
        self._ray, self._waiting, self._start_seconds = ray, waiting, start_seconds
        self._make = make
        self._retries: list[Chunk] = []
        self._idle: list[Any] = []
        self._failures, self._deaths = 0, Counter[int]()
        self._pending: dict[Any, tuple[Any, Chunk | None]] = {}
        """Pending calls with their actors and chunks; None for an actor that is starting."""

    def start(self) -> None:
        """Request one more actor, which may have to wait for room."""
        actor = self._make()
        self._pending[actor.ready.remote()] = (actor, None)

    def stop(self) -> None:
        """Stop all actors."""
        for actor in [*self._idle, *(actor for actor, _ in self._pending.values())]:
            self._ray.kill(actor)

    def run(self) -> Iterator[ChunkReport]:
        """Give each ready actor one chunk at a time until all are done; yield the reports."""
        chunk = self._next_chunk()
        while chunk is not None or self._busy:
            if chunk is not None and self._idle:
                actor = self._idle.pop()
                self._pending[actor.do.remote(chunk)] = (actor, chunk)
                chunk = self._next_chunk()
                continue
            call = self._wait_for_call()
            actor, done = self._pending.pop(call)
            try:
                report = self._ray.get(call)
            except self._ray.exceptions.RayTaskError as error:
                self._idle.append(actor)
                raise _cause(error) from error
            except self._ray.exceptions.RayError as error:  # the worker died, or its node
                self._replace(done, error)
                chunk = self._next_chunk() if chunk is None else chunk
                continue
            self._idle.append(actor)
            self._failures = 0
            if done is not None:
                yield report

    @property
    def _busy(self) -> bool:
        return any(chunk is not None for _, chunk in self._pending.values())

    def _next_chunk(self) -> Chunk | None:
        return self._retries.pop() if self._retries else next(self._waiting, None)

    def _wait_for_call(self) -> Any:  # noqa: ANN401 - a reference of Ray
        """Wait for any call to end; the wait is limited if no actor is working."""
        limit = None if self._busy else self._start_seconds
        ended, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=limit)
        if not ended:
            raise UserError(
                "no worker could be started",
                got=f"none in {self._start_seconds:.0f} s",
                allowed="a cluster with a free CPU, and free GPUs if workers need them",
                remedy="Add a node, or lower --workers or --gpus-per-worker.",
            )
        return ended[0]

    def _replace(self, chunk: Chunk | None, error: Exception) -> None:
        """Request a new actor for one that died; its chunk goes to the next free actor."""
        if chunk is not None:
            self._deaths[chunk.index] += 1
            if self._deaths[chunk.index] >= MAX_ATTEMPTS:
                raise gave_up(chunk) from error
            self._retries.append(chunk)
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
    """Return the error raised in the worker, so that users see one sentence."""
    cause = error.cause
    return cause if isinstance(cause, UserError) else RuntimeError(str(error))
