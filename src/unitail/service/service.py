"""The service: answers questions in batches, and changes classifiers one change at a time."""

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
from unitail.service.labels import new_labels
from unitail.service.limits import ServiceLimits
from unitail.service.metrics import Metrics
from unitail.service.questions import AnswerOptions, QueryRows, check_rows
from unitail.service.request_vectors import RequestVectors
from unitail.web.replies import Refusal
from unitail.wording import numbered

T = TypeVar("T")


class Service:
    """Answers requests, whatever protocol they come by."""

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
        # One thread each: torch has its own threads; encoding and changes must not delay answers.
        self._compute = ThreadPoolExecutor(1, "answers")
        self._changes = ThreadPoolExecutor(1, "changes")
        self._encode = ThreadPoolExecutor(1, "encoding")
        self._parse = ThreadPoolExecutor(1, "parsing")
        self._batcher = Batcher(
            self._compute, max_rows=self.limits.batch_rows, on_batch=self.metrics.count_batch
        )
        self.decoders = DecoderPool(self.limits, on_death=self.metrics.decoder_deaths.inc)
        self.vectors = RequestVectors(self._encode, self.decoders, self.limits)

    async def start(self) -> None:
        """Warm up classifiers and start decoders, so that the first answers need not wait."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._compute, self.classifiers.warm)
        if any(served.newest.takes in ("image", "audio") for served in self.classifiers):
            await self.decoders.start()
        for served in self.classifiers:
            self.metrics.watch_examples(served.newest.name, served.count_examples)
        self.ready = True

    async def stop(self) -> None:
        """Stop threads and processes once they have finished their work."""
        self.ready = False
        await self.decoders.close()
        self._compute.shutdown()
        self._changes.shutdown()
        self._encode.shutdown()
        self._parse.shutdown()

    async def parse(self, work: Callable[..., T], *args: Any) -> T:  # noqa: ANN401
        """Run a function in the parsing thread, one at a time, while others are answered."""
        return await asyncio.get_running_loop().run_in_executor(self._parse, work, *args)

    async def predict(
        self, version: Version, rows: NDArray[Any], options: AnswerOptions
    ) -> list[dict[str, Any]]:
        """Answer rows (m, d_T)."""
        check_rows(version, rows)
        return await self._batcher.ask(QueryRows(version, rows, options))

    async def compute(self, work: Callable[[Version], Any], version: Version) -> Any:  # noqa: ANN401
        """Run a function of a version in the thread of changes, while others are answered."""
        return await asyncio.get_running_loop().run_in_executor(self._changes, work, version)

    async def add(
        self,
        served: Served,
        rows: NDArray[Any],
        labels: Sequence[Any],
        deadline: asyncio.Timeout | None = None,
    ) -> Version:
        """Add examples; the deadline ends when the change begins."""
        _check_labels(served.newest, rows, labels)

        def add(classifier: TailClassifier) -> None:
            self._check_size(len(served.newest.labels) + len(rows))
            classifier.add(rows, new_labels(classifier.classes_, labels))

        return await self._change(served, add, deadline)

    async def correct(
        self,
        served: Served,
        rows: NDArray[Any],
        labels: Sequence[Any],
        deadline: asyncio.Timeout | None = None,
    ) -> tuple[Version, int]:
        """Add examples, each in place of one with the same vector; return how many were replaced.

        None is replaced if a single class would be left.
        """
        _check_labels(served.newest, rows, labels)
        replaced: list[int] = []

        def correct(classifier: TailClassifier) -> None:
            kept, corrected = classifier.kept_examples(), new_labels(classifier.classes_, labels)
            outdated = _outdated(kept.vectors, kept.labels, rows, corrected)
            if len({*np.delete(kept.labels, outdated).tolist(), *corrected}) > 1:
                replaced.extend(outdated)
            self._check_size(len(kept.labels) + len(rows) - len(replaced))
            classifier.add(rows, corrected)
            if replaced:
                classifier.remove(kept.places[replaced])

        return await self._change(served, correct, deadline), len(replaced)

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
        """Remove examples by their places in a version, which must be the newest."""

        def remove(classifier: TailClassifier) -> None:
            newest = served.newest
            if newest.number != version:
                raise Refusal(
                    409,
                    "the classifier has changed since",
                    got=f"version {version}",
                    allowed=f"version {newest.number}, the newest",
                    remedy="List its examples again.",
                )
            chosen, count = np.unique(choose(newest)), len(newest.places)
            if chosen[-1] >= count:
                raise Refusal(
                    422,
                    "there is no such example",
                    got=f"place {chosen[-1]}",
                    allowed=f"places from 0 to {count - 1}",
                    remedy="List its examples.",
                )
            classifier.remove(newest.places[chosen])

        return await self._change(served, remove, deadline)

    async def _change(
        self,
        served: Served,
        change: Callable[[TailClassifier], object],
        deadline: asyncio.Timeout | None,
    ) -> Version:
        if self.read_only:
            raise Refusal(
                403,
                "this service is read-only",
                got="a change",
                allowed="predictions",
                remedy="Start it without --read-only.",
            )
        started = asyncio.Event()
        task = asyncio.create_task(self._make_version(served, change, deadline, started))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # The client may disconnect; a change that has started is still completed.
            if not started.is_set():
                task.cancel()
            raise

    async def _make_version(
        self,
        served: Served,
        change: Callable[[TailClassifier], object],
        deadline: asyncio.Timeout | None,
        started: asyncio.Event,
    ) -> Version:
        loop = asyncio.get_running_loop()
        async with served.lock:
            if deadline is not None:
                if deadline.expired():
                    raise asyncio.CancelledError
                # A timeout must mean that nothing was changed: clients would repeat the change.
                deadline.reschedule(None)
            started.set()
            version = await loop.run_in_executor(self._changes, served.changed, change)
            served.put(version)
        return version

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[asyncio.Timeout]:
        """Raise a refusal if the block takes too long; a change stops the clock when it starts."""
        seconds = self.limits.answer_seconds
        try:
            async with asyncio.timeout(seconds) as deadline:
                yield deadline
        except TimeoutError:
            got = f"no answer within {seconds:g} s"
            raise overloaded(got, f"answers within {seconds:g} s") from None

    def check_count(self, count: int, what: str) -> None:
        """Refuse requests with no items or too many."""
        if not 1 <= count <= self.limits.items:
            raise too_many(what, f"{count:,}", self.limits.items)


def _check_labels(version: Version, rows: NDArray[Any], labels: Sequence[Any]) -> None:
    check_rows(version, rows)
    if len(rows) != len(labels):
        raise Refusal(
            422,
            "the numbers of items and labels differ",
            got=f"{numbered(len(rows), 'item')} and {numbered(len(labels), 'label')}",
            allowed="a label for each item",
        )


def _outdated(
    vectors: NDArray[Any],
    labels: NDArray[Any],
    rows: NDArray[Any],
    corrected: NDArray[Any] | list[Any],
) -> list[int]:
    """Return for each corrected row the place of one example with the same vector, if any is left.

    Of several it is the newest with another label, which is the one that needs a correction.
    """
    outdated: list[int] = []
    for row, label in zip(rows, corrected, strict=True):
        is_same = ((vectors == row) | (np.isnan(vectors) & np.isnan(row))).all(axis=1)
        is_same[outdated] = False
        places = np.flatnonzero(is_same)
        if len(places):
            others = places[labels[places] != label]
            outdated.append(int((others if len(others) else places)[-1]))
    return outdated


def too_many(what: str, got: str, limit: int) -> Refusal:
    """Return the refusal of a request with too many items, or none."""
    return Refusal(
        422 if got == "0" else 413,
        f"a request cannot contain this many {what}",
        got=got,
        allowed=f"1 to {limit:,}",
        remedy="Send at least one." if got == "0" else "Send several requests.",
    )
