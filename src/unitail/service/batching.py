"""Answers questions of concurrent requests together, where that changes no answer.

A batch never waits to be filled: questions that arrive while one batch is computed form the next.
Large questions are cut into pieces, between which others get their turn.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from unitail.service.questions import QueryRows, answer

Answers = list[dict[str, Any]]
PIECE_ROWS = 128
"""Rows of one question that are answered at once, if each row is answered by itself."""


@dataclass(frozen=True, eq=False)
class _Waiting:
    question: QueryRows
    answers: "asyncio.Future[Answers]"


class Batcher:
    """Answers questions in one thread, those of the same kind together."""

    def __init__(
        self,
        compute: Executor,
        *,
        max_rows: int,
        on_batch: Callable[[int, int], None] = lambda questions, rows: None,
    ) -> None:
        self._compute, self._max_rows, self._on_batch = compute, max_rows, on_batch
        self._waiting: deque[_Waiting] = deque()
        self._working: asyncio.Task[None] | None = None

    async def ask(self, question: QueryRows) -> Answers:
        """Wait for the answers; a question cancelled before its batch begins is not computed."""
        answers: Answers = []
        for piece in question.pieces(PIECE_ROWS):
            answers += await self._ask_at_once(piece)
        return answers

    async def _ask_at_once(self, question: QueryRows) -> Answers:
        waiting = _Waiting(question, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        return await waiting.answers

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while batch := self._next():
                results: Sequence[Answers | Exception]
                try:
                    questions = [each.question for each in batch]
                    self._on_batch(len(batch), sum(len(each.rows) for each in questions))
                    results = await loop.run_in_executor(self._compute, _answer_each, questions)
                except Exception as error:  # of the thread or the metrics: no question may hang
                    results = [error] * len(batch)
                for waiting, result in zip(batch, results, strict=True):
                    _settle(waiting.answers, result)
        finally:
            self._working = None

    def _next(self) -> list[_Waiting]:
        """Take the oldest question, and all that can be answered together with it."""
        batch: list[_Waiting] = []
        remaining: deque[_Waiting] = deque()
        rows = 0
        while self._waiting:
            waiting = self._waiting.popleft()
            if waiting.answers.done():  # cancelled
                continue
            if batch and not self._fits(waiting, batch[0], rows):
                remaining.append(waiting)
                continue
            batch.append(waiting)
            rows += len(waiting.question.rows)
        self._waiting = remaining
        return batch

    def _fits(self, waiting: _Waiting, first: _Waiting, rows: int) -> bool:
        question = waiting.question
        is_compatible = question.kind == first.question.kind and question.version.batches
        return is_compatible and rows + len(question.rows) <= self._max_rows


def _answer_each(questions: Sequence[QueryRows]) -> list[Answers | Exception]:
    """Answer together; if that fails, one by one, so that only the faulty question fails."""
    try:
        return list(answer(questions))
    except Exception as error:
        if len(questions) == 1:
            return [error]
        return [result for question in questions for result in _answer_each([question])]


def _settle(future: "asyncio.Future[Answers]", result: Answers | Exception) -> None:
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
