import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from helpers.services import ASKED, MODEL, vector_classifier
from unitail import TailClassifier
from unitail.service import batching
from unitail.service.batching import PIECE_ROWS, Batcher
from unitail.service.classifiers import Classifiers, Version
from unitail.service.questions import (
    ALL,
    INFLUENCE,
    NOVELTY,
    PROBABILITIES,
    AnswerOptions,
    QueryRows,
    _steady,
    answer,
)


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


def test_questions_asked_together_get_the_answers_that_they_get_alone() -> None:
    asked = questions(version())
    together, batches = ask_at_once(asked)
    assert max(count for count, _ in batches) > 4  # else nothing was tried
    for question, answers in zip(asked, together, strict=True):
        assert answers == answer([question])[0]  # to the last bit
        bare = question.version.classifier.predict_proba(question.rows)
        told = [each["probability"] for each in answers]
        assert told == pytest.approx(bare.max(axis=1), rel=1e-8)


def mirrored(width: int) -> tuple[Version, np.ndarray[Any, Any]]:
    """Return a classifier of two mirrored classes, and rows that are as near to one as to both."""
    generator = np.random.default_rng(width)
    half = generator.normal(size=(4, width))
    classifier = TailClassifier(device="cpu", scale="none")
    classifier.fit(np.vstack([half, -half]), np.repeat(["a", "b"], 4))
    rows = generator.normal(size=(20, width))
    rows -= rows @ np.linalg.pinv(half) @ half
    classifiers = Classifiers()
    classifiers.add("mirrored", classifier)
    return classifiers.find("mirrored").newest, rows


@pytest.mark.parametrize("width", [5, 8])
def test_equally_probable_classes_are_the_first_whatever_is_asked_with_them(width: int) -> None:
    asked, rows = mirrored(width)
    options = AnswerOptions(influence=2)
    alone = [answer([QueryRows(asked, row[None], options)])[0][0] for row in rows]
    assert {(each["label"], each["probability"]) for each in alone} == {("a", 0.5)}
    for size in (3, 20):
        groups = [rows[start : start + size] for start in range(0, len(rows), size)]
        together = [
            each for group in groups for each in answer([QueryRows(asked, group, options)])[0]
        ]
        assert together == alone


def test_many_rows_of_many_classes_are_answered_as_they_are_alone() -> None:
    generator = np.random.default_rng(0)
    classifier = TailClassifier(MODEL, device="cpu", scale="none")
    classifier.fit(generator.normal(size=(60, 12)), np.arange(60) % 20)
    classifiers = Classifiers()
    classifiers.add("many", classifier)
    asked, rows = classifiers.find("many").newest, generator.normal(size=(150, 12))
    alone = [answer([QueryRows(asked, row[None], AnswerOptions())])[0][0] for row in rows]
    assert answer([QueryRows(asked, rows, AnswerOptions())])[0] == alone
    start = 7
    mixed = answer([QueryRows(asked, rows[place:][:3], AnswerOptions()) for place in (start, 90)])
    assert mixed == [alone[start : start + 3], alone[90:93]]


def test_numbers_on_a_border_of_the_grid_are_those_of_the_row_alone() -> None:
    """Without the second look, noise would move about half of these numbers to the other side."""
    generator, asked = np.random.default_rng(0), version()
    on_border = (np.arange(400).reshape(200, 2) + 12_345_678.5) / 1e8

    def noisy(places: slice) -> np.ndarray[Any, Any]:
        values = on_border[places]
        if len(values) == 1:
            return values
        return values * (1 + generator.normal(size=values.shape) / 1e14)

    assert _steady(asked, noisy(ALL), noisy, PROBABILITIES).tolist() == (
        PROBABILITIES.rounded(on_border).tolist()
    )
    careless = PROBABILITIES.rounded(noisy(ALL))
    assert (careless != PROBABILITIES.rounded(on_border)).mean() > 0.2


def test_influence_of_a_row_is_the_same_whatever_is_asked_with_it() -> None:
    """Also where distances nearly cancel, and where examples are equal and so are their values."""
    generator, options = np.random.default_rng(3), AnswerOptions(influence=100)
    half = generator.normal(size=(40, 6))
    for support in (
        generator.normal(size=(100, 6)),
        np.repeat(half, 2, axis=0) + 1e-9 * generator.normal(size=(80, 6)),
        np.repeat(half, 2, axis=0),
    ):
        classifiers = Classifiers()
        labels = np.arange(len(support)) % 3
        classifiers.add("one", TailClassifier(device="cpu").fit(support, labels))
        asked = classifiers.find("one").newest
        rows = np.concatenate([generator.normal(size=(30, 6)), support[:10]])
        rows[5, 2] = np.nan
        alone = [answer([QueryRows(asked, row[None], options)])[0][0] for row in rows]
        for size in (7, 40):
            groups = [rows[start : start + size] for start in range(0, len(rows), size)]
            together = [
                each for group in groups for each in answer([QueryRows(asked, group, options)])[0]
            ]
            assert together == alone  # to the last bit, and in the same order


def test_influence_on_a_border_of_its_grid_is_that_of_the_row_alone() -> None:
    """Noise is as large for small values as for large ones, of both signs."""
    generator, asked = np.random.default_rng(0), version()
    on_border = (np.arange(-400, 400).reshape(200, 4) + 0.5) / 1e8

    def noisy(places: slice) -> np.ndarray[Any, Any]:
        values = on_border[places]
        return values if len(values) == 1 else values + generator.normal(size=values.shape) / 1e14

    expected = INFLUENCE.rounded(on_border)
    assert _steady(asked, noisy(ALL), noisy, INFLUENCE).tolist() == expected.tolist()
    assert (INFLUENCE.rounded(noisy(ALL)) != expected).mean() > 0.2
    assert str(INFLUENCE.rounded(np.array([-1e-9, 1.23456789012, -123.0])).tolist()) == (
        "[0.0, 1.23456789, -123.0]"
    )


def test_a_grid_keeps_eight_digits_and_powers_of_ten_are_no_border() -> None:
    values = np.array([1 / 3, 0.1, 0.09999999999999, 1 - 1e-16, 0.0, 2.5e-18, 0.123456784])
    told = [0.33333333, 0.1, 0.1, 1.0, 0.0, 2.5e-18, 0.12345678]
    assert PROBABILITIES.rounded(values).tolist() == told
    assert not PROBABILITIES.is_doubtful(values).any()
    assert PROBABILITIES.is_doubtful(np.array([0.123456785])).all()
    assert NOVELTY.rounded(np.array([0.99999996, 0.25, 0.0123456])).tolist() == [1, 0.25, 0.012346]


def test_a_large_question_is_cut_and_others_get_their_turn_in_between() -> None:
    asked = version()
    many = QueryRows(asked, np.tile(ASKED[:1], (3 * PIECE_ROWS + 1, 1)), AnswerOptions())
    one = QueryRows(asked, ASKED[:2], AnswerOptions())
    [all_answers, few], batches = ask_at_once([many, one])
    assert [rows for _, rows in batches] == [PIECE_ROWS, 2, PIECE_ROWS, PIECE_ROWS, 1]
    assert all_answers == [few[0]] * (3 * PIECE_ROWS + 1)
    joint = QueryRows(version(visibility="joint"), many.rows, AnswerOptions())
    assert joint.pieces(PIECE_ROWS) == [joint]


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
