"""Time limits on changes: "too late" means "not made", and what has begun is made to its end."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from helpers.services import ASKED, vector_classifier
from unitail.service.classifiers import Classifiers, Served, Version
from unitail.service.limits import ServiceLimits
from unitail.service.questions import AnswerOptions
from unitail.service.service import Service
from unitail.web.replies import Refusal


def with_service(
    work: Callable[[Service, Served], Awaitable[None]], answer_seconds: float = 0.2
) -> None:
    classifiers = Classifiers()
    classifiers.add("blobs", vector_classifier(scale="none"))
    service = Service(classifiers, ServiceLimits(answer_seconds=answer_seconds))

    async def run() -> None:
        await service.start()
        await work(service, classifiers.find("blobs"))
        await service.stop()

    asyncio.run(run())


async def add(service: Service, served: Served) -> Version:
    async with service.in_time() as deadline:
        return await service.add(served, ASKED[:1], [0], deadline)


def hold(served: Served, monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, threading.Event]:
    """Let changes begin, and go on when they may; the first event says that one has begun."""
    begun, may_go_on = asyncio.Event(), threading.Event()
    loop, change = asyncio.get_running_loop(), served.changed

    def held(how: Any) -> Version:  # noqa: ANN401
        loop.call_soon_threadsafe(begun.set)
        may_go_on.wait(60)
        return change(how)

    monkeypatch.setattr(served, "changed", held)
    return begun, may_go_on


def test_a_change_that_does_not_get_its_turn_in_time_is_never_made() -> None:
    async def work(service: Service, served: Served) -> None:
        async with served.lock:  # somebody else's change
            with pytest.raises(Refusal, match=r"got no answer within 0\.2 s") as caught:
                await add(service, served)
            assert (caught.value.status, caught.value.headers["Retry-After"]) == (503, "1")
        await asyncio.sleep(0.05)
        assert served.newest.number == 1
        assert (await add(service, served)).number == 2

    with_service(work)


def test_a_change_that_has_begun_is_answered_however_long_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(service: Service, served: Served) -> None:
        begun, may_go_on = hold(served, monkeypatch)
        task = asyncio.create_task(add(service, served))
        await begun.wait()
        await asyncio.sleep(0.3)  # longer than answers may take
        assert not task.done()
        may_go_on.set()
        assert (await task).number == served.newest.number == 2

    with_service(work)


def test_answers_are_given_and_right_during_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(service: Service, served: Served) -> None:
        first, options = served.newest, AnswerOptions()
        before = await service.predict(first, ASKED, options)
        begun, may_go_on = hold(served, monkeypatch)
        task = asyncio.create_task(add(service, served))
        await begun.wait()
        assert await service.predict(served.newest, ASKED, options) == before
        may_go_on.set()
        await task
        changes = asyncio.gather(*(add(service, served) for _ in range(10)))
        while not changes.done():
            assert await service.predict(first, ASKED, options) == before
        assert served.newest.number == 12

    with_service(work, answer_seconds=60)


def test_who_goes_away_before_it_begins_changes_nothing_and_later_nothing_is_half_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(service: Service, served: Served) -> None:
        async with served.lock:
            early = asyncio.create_task(add(service, served))
            await asyncio.sleep(0.02)
            early.cancel()
            await asyncio.wait([early])
        begun, may_go_on = hold(served, monkeypatch)
        late = asyncio.create_task(add(service, served))
        await begun.wait()
        late.cancel()
        await asyncio.wait([late])
        assert (early.cancelled(), late.cancelled(), served.newest.number) == (True, True, 1)
        may_go_on.set()
        async with served.lock:
            assert served.newest.number == 2
            assert len(served.newest.labels) == 13

    with_service(work, answer_seconds=60)


def test_a_correction_replaces_one_example_that_needs_it() -> None:
    async def work(service: Service, served: Served) -> None:
        before, row = served.newest.labels.tolist(), ASKED[:1]
        for label in (1, 0, 1):  # one item for several annotators
            await service.add(served, row, [label])
        version, replaced = await service.correct(served, row, [2])
        assert (version.labels.tolist(), replaced) == ([*before, 1, 0, 2], 1)
        version, replaced = await service.correct(served, row, [2])  # the newest other one
        assert (version.labels.tolist(), replaced) == ([*before, 1, 2, 2], 1)
        both = await service.correct(served, np.concatenate([row, row]), [0, 0])
        assert both[1] == 2
        assert len(both[0].labels) == len(before) + 3
        version, replaced = await service.correct(served, row + 1, [0])  # of an unknown item
        assert (len(version.labels), replaced) == (len(before) + 4, 0)

    with_service(work, answer_seconds=60)


def test_a_correction_at_the_limit_of_examples_is_made_if_their_number_does_not_grow() -> None:
    async def work(service: Service, served: Served) -> None:
        await service.add(served, ASKED[:1], [0])
        service.limits = ServiceLimits(examples=len(served.newest.labels))
        version, replaced = await service.correct(served, ASKED[:1], [1])
        assert (len(version.labels), replaced) == (service.limits.examples, 1)
        with pytest.raises(Refusal, match="too many examples: got 14; allowed: at most 13"):
            await service.correct(served, ASKED[1:2], [1])
        assert served.newest is version

    with_service(work, answer_seconds=60)
