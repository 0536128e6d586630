"""Classifiers at work: questions are batched, changes made one after the other."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unitail.estimator.classifier import TailClassifier
from unitail.service.admission import overloaded
from unitail.service.batching import Batcher
from unitail.service.classifiers import Classifiers, Served, Version
from unitail.service.decoder_pool import DecoderPool
from unitail.service.limits import ServiceLimits
from unitail.service.metrics import Metrics
from unitail.service.questions import AnswerOptions, QueryRows, check_rows
from unitail.service.request_vectors import RequestVectors
from unitail.web.replies import Refusal
from unitail.wording import numbered

T = TypeVar("T")


class Service:
    """All that answers requests, whatever brings them."""

    def __init__(
        self,
        classifiers: Classifiers,
        limits: ServiceLimits | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        self.classifiers, self.limits = classifiers, limits or ServiceLimits()
        self.read_only = read_only
        self.metrics = Metrics()
        self.ready = False
        # One thread each: torch has threads of its own, and encoding must not hold answers up.
        self._compute = ThreadPoolExecutor(1, "answers")
        self._encode = ThreadPoolExecutor(1, "encoding")
        self._parse = ThreadPoolExecutor(1, "parsing")
        self._batcher = Batcher(
            self._compute, max_rows=self.limits.batch_rows, on_batch=self.metrics.count_batch
        )
        self.decoders = DecoderPool(self.limits, on_death=self.metrics.decoder_deaths.inc)
        self.vectors = RequestVectors(self._encode, self.decoders)

    async def start(self) -> None:
        """Get ready: from then on no answer waits for what could have been computed before."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._compute, self.classifiers.warm)
        if any(served.newest.takes in ("image", "audio") for served in self.classifiers):
            await self.decoders.start()
        for served in self.classifiers:
            self.metrics.watch_examples(served.newest.name, served.count_examples)
        self.ready = True

    async def stop(self) -> None:
        """End threads and processes once they have finished."""
        self.ready = False
        await self.decoders.close()
        self._compute.shutdown()
        self._encode.shutdown()
        self._parse.shutdown()

    async def parse(self, work: Callable[..., T], *given: Any) -> T:  # noqa: ANN401
        """Read what a request brings, one request at a time, while others are answered."""
        return await asyncio.get_running_loop().run_in_executor(self._parse, work, *given)

    async def predict(
        self, version: Version, rows: NDArray[Any], wanted: AnswerOptions
    ) -> list[dict[str, Any]]:
        """Answer rows (m, d_T)."""
        check_rows(version, rows)
        return await self._batcher.ask(QueryRows(version, rows, wanted))

    async def compute(self, work: Callable[[Version], Any], version: Version) -> Any:  # noqa: ANN401
        """Do other work on a version in its turn."""
        return await asyncio.get_running_loop().run_in_executor(self._compute, work, version)

    async def add(
        self,
        served: Served,
        rows: NDArray[Any],
        labels: Sequence[Any],
        deadline: asyncio.Timeout | None = None,
    ) -> Version:
        """Take more examples in; the deadline is until this begins."""
        check_rows(served.newest, rows)
        if len(rows) != len(labels):
            raise Refusal(
                422,
                "items and labels are not equally many",
                got=f"{numbered(len(rows), 'item')} and {numbered(len(labels), 'label')}",
                allowed="a label for each item",
            )

        def take_in(classifier: TailClassifier) -> None:
            self._check_size(len(served.newest.labels) + len(rows))
            classifier.add(rows, list(labels))

        return await self._change(served, take_in, deadline)

    def _check_size(self, count: int) -> None:
        if count > self.limits.examples:
            raise Refusal(
                422,
                "the classifier would have too many examples",
                got=f"{count:,}",
                allowed=f"at most {self.limits.examples:,}",
            )

    async def remove(
        self,
        served: Served,
        version: int,
        choose: Callable[[Version], NDArray[np.int64]],
        deadline: asyncio.Timeout | None = None,
    ) -> Version:
        """Forget examples, as they are numbered in a version, which must be the newest."""

        def forget(classifier: TailClassifier) -> None:
            newest = served.newest
            if newest.number != version:
                raise Refusal(
                    409,
                    "the classifier has changed since",
                    got=f"version {version}",
                    allowed=f"version {newest.number}, the newest",
                    remedy="Look at its examples again.",
                )
            classifier.remove(choose(newest))

        return await self._change(served, forget, deadline)

    async def _change(
        self,
        served: Served,
        change: Callable[[TailClassifier], object],
        deadline: asyncio.Timeout | None,
    ) -> Version:
        if self.read_only:
            raise Refusal(
                403,
                "this service takes no changes",
                got="a change",
                allowed="questions",
                remedy="Start it without --read-only.",
            )
        begun = asyncio.Event()
        task = asyncio.create_task(self._make(served, change, deadline, begun))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # Whoever asked may go away; a change that has begun is made to its end.
            if not begun.is_set():
                task.cancel()
            raise

    async def _make(
        self,
        served: Served,
        change: Callable[[TailClassifier], object],
        deadline: asyncio.Timeout | None,
        begun: asyncio.Event,
    ) -> Version:
        loop = asyncio.get_running_loop()
        async with served.lock:
            if deadline is not None:
                if deadline.expired():
                    raise asyncio.CancelledError
                # "Too late" must mean "not made": else who tries again would make it twice.
                deadline.reschedule(None)
            begun.set()
            version = await loop.run_in_executor(self._compute, served.changed, change)
            served.put(version)
        return version

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[asyncio.Timeout]:
        """Give up what takes too long; a change stops the clock when it begins."""
        seconds = self.limits.answer_seconds
        try:
            async with asyncio.timeout(seconds) as deadline:
                yield deadline
        except TimeoutError:
            late = f"no answer within {seconds:g} s"
            raise overloaded(late, f"answers within {seconds:g} s") from None

    def check_count(self, count: int, what: str) -> None:
        """Refuse requests with nothing in them, or too much."""
        if not 1 <= count <= self.limits.items:
            raise Refusal(
                422 if count == 0 else 413,
                f"a request cannot bring this many {what}",
                got=f"{count:,}",
                allowed=f"1 to {self.limits.items:,}",
                remedy="Send several requests." if count else "Send one at least.",
            )
