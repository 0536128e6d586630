import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from helpers.services import ASKED, vector_classifier
from unitail.service import batching
from unitail.service.batching import Batcher
from unitail.service.classifiers import Classifiers, Version
from unitail.service.questions import AnswerOptions, QueryRows, answer

TOLERANCE = 1e-12
"""What float64 may differ by, as matrix products of other shapes add up in another order."""


def version(**settings: object) -> Version:
    classifiers = Classifiers()
    classifiers.add("blobs", vector_classifier(**settings))
    return classifiers.find("blobs").newest


def questions(asked: Version) -> list[QueryRows]:
    """Return questions of one to three rows that want different things."""
    kinds = (
        AnswerOptions(),
        AnswerOptions(coverage=0.5, novelty=False),
        AnswerOptions(coverage=None),
    )
    sizes = [1 + number % 3 for number in range(12)]
    starts = np.arange(12) % (len(ASKED) - 3)
    return [
        QueryRows(asked, ASKED[start : start + size], kinds[size - 1])
        for start, size in zip(starts, sizes, strict=True)
    ]


@contextmanager
def busy() -> Iterator[tuple[ThreadPoolExecutor, threading.Event]]:
    """Give a thread that is at work until an event."""
    free = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(free.wait)
        yield pool, free
        free.set()


def ask_at_once(
    asked: list[QueryRows], max_rows: int = 64
) -> tuple[list[Any], list[tuple[int, int]]]:
    """Ask all while the thread is busy; return the answers, and how they were batched."""
    batches: list[tuple[int, int]] = []

    async def run(pool: ThreadPoolExecutor, free: threading.Event) -> list[Any]:
        batcher = Batcher(
            pool, max_rows=max_rows, on_batch=lambda count, rows: batches.append((count, rows))
        )
        tasks = [asyncio.create_task(batcher.ask(question)) for question in asked]
        await asyncio.sleep(0)
        free.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    with busy() as (pool, free):
        return asyncio.run(run(pool, free)), batches


def assert_same(together: Any, alone: Any) -> None:  # noqa: ANN401
    assert len(together) == len(alone)
    for one, other in zip(together, alone, strict=True):
        assert one.keys() == other.keys()
        assert (one["label"], one.get("set")) == (other["label"], other.get("set"))
        for key in ("probability", "probabilities", "novelty"):
            if key in one:
                assert one[key] == pytest.approx(other[key], rel=0, abs=TOLERANCE)


def test_questions_asked_together_get_the_answers_that_they_get_alone() -> None:
    asked = questions(version())
    together, batches = ask_at_once(asked)
    assert max(count for count, _ in batches) > 4  # else nothing was tried
    for question, answers in zip(asked, together, strict=True):
        [alone] = answer([question])
        assert_same(answers, alone)
        bare = question.version.classifier.predict_proba(question.rows)
        assert [each["probability"] for each in answers] == pytest.approx(bare.max(axis=1))


@pytest.mark.parametrize("settings", [{"precision": "single"}, {"visibility": "joint"}])
def test_where_company_would_change_answers_there_is_none(settings: dict[str, str]) -> None:
    asked = questions(version(**settings))
    together, batches = ask_at_once(asked)
    assert {count for count, _ in batches} == {1}
    for question, answers in zip(asked, together, strict=True):
        assert answers == answer([question])[0]  # to the last bit


def test_batches_are_no_larger_than_allowed_unless_one_question_is() -> None:
    asked = [QueryRows(version(), ASKED[:3], AnswerOptions())] * 5
    assert all(rows <= 6 for _, rows in ask_at_once(asked, max_rows=6)[1])
    assert {count for count, _ in ask_at_once(asked, max_rows=1)[1]} == {1}


def test_versions_and_dtypes_are_not_mixed() -> None:
    one, other = version(), version()
    rows = ASKED[:2]
    asked = [
        QueryRows(kind, rows.astype(dtype), AnswerOptions())
        for _ in range(3)
        for kind in (one, other)
        for dtype in (np.float64, np.float32)
    ]
    _, batches = ask_at_once(asked)
    assert sorted(count for count, _ in batches)[-1] <= 3
    assert sum(count for count, _ in batches) == 12


def test_a_question_that_fails_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = questions(version())
    poisoned = asked[5]

    def failing(group: list[QueryRows]) -> list[Any]:
        if any(each is poisoned for each in group):
            raise ArithmeticError("poison")
        return answer(group)

    monkeypatch.setattr(batching, "answer", failing)
    results, batches = ask_at_once(asked)
    assert max(count for count, _ in batches) > 4
    assert [isinstance(each, ArithmeticError) for each in results] == [
        each is poisoned for each in asked
    ]


def test_nothing_is_computed_for_who_stopped_waiting() -> None:
    batches: list[int] = []

    async def run(pool: ThreadPoolExecutor, free: threading.Event) -> None:
        batcher = Batcher(pool, max_rows=1, on_batch=lambda count, rows: batches.append(rows))
        first, second, third = (
            asyncio.create_task(batcher.ask(QueryRows(asked, ASKED[:size], AnswerOptions())))
            for size in (1, 2, 3)
        )
        await asyncio.sleep(0)
        second.cancel()
        free.set()
        assert len(await first) == 1
        assert len(await third) == 3

    asked = version()
    with busy() as (pool, free):
        asyncio.run(run(pool, free))
    assert batches == [1, 3]
