import asyncio
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest

from helpers.services import MODEL, colour_classifier, large_png, picture, text_classifier
from unitail import TailClassifier
from unitail.encoders.encoder import Modality
from unitail.service import request_vectors
from unitail.service.classifiers import Classifiers, Version
from unitail.service.decoder_pool import DecoderPool
from unitail.service.limits import ServiceLimits
from unitail.service.request_vectors import MAX_DECODED, RequestVectors
from unitail.web.replies import Refusal

TABLE = pd.DataFrame({"size": [1.0, 1.2, 0.8, 5.0, 5.5, 4.9], "kind": list("xxyzzz")})
LAST = 1
"""The thread that encodes lets go of an item a moment after it was told that it is done."""


class Watched(DecoderPool):
    """Decoders that know how many of the images they decoded are still in memory."""

    def __init__(self) -> None:
        super().__init__(ServiceLimits())
        self.alive, self.most, self.decoded = 0, 0, 0

    async def decode(self, modality: Modality, content: bytes) -> object:
        image = await super().decode(modality, content)
        self.decoded += 1
        self.alive += 1
        self.most = max(self.most, self.alive)
        weakref.finalize(image, self._gone)
        return image

    def _gone(self) -> None:
        self.alive -= 1


def version(classifier: TailClassifier) -> Version:
    classifiers = Classifiers()
    classifiers.add("one", classifier)
    return classifiers.find("one").newest


def with_items(work: Callable[[RequestVectors, Watched], Awaitable[Any]], **limits: int) -> Any:  # noqa: ANN401
    settings = ServiceLimits(**limits)  # type: ignore[arg-type]

    async def run() -> Any:  # noqa: ANN401
        decoders = Watched()
        with ThreadPoolExecutor(1) as pool:
            result = await work(RequestVectors(pool, decoders, settings), decoders)
        await decoders.close()
        return result

    return asyncio.run(run())


def test_many_large_images_in_one_request_are_never_in_memory_together() -> None:
    bomb = large_png(3000)
    assert len(bomb) < 20_000  # and 27 MB as RGB
    colours = version(colour_classifier())

    async def work(items: RequestVectors, decoders: Watched) -> None:
        vectors = await items.files(colours, [bomb, picture((255, 0, 0))] * 4)
        assert vectors.tolist() == [[0, 0, 0], [1, 0, 0]] * 4
        assert decoders.decoded == 8
        assert decoders.most <= 1 + LAST

    with_items(work)


def test_texts_that_utf8_cannot_encode_are_refused_also_in_cells() -> None:
    letters = version(text_classifier())
    table = version(TailClassifier(MODEL, device="cpu", encoder="auto").fit(TABLE, list("aaabbb")))

    async def work(items: RequestVectors, decoders: Watched) -> None:
        with pytest.raises(Refusal, match=r"item 1 \(the first is 0\) is no text: got 'a.ud800'"):
            await items.texts(letters, ["a", "a\ud800"])
        with pytest.raises(Refusal, match=r"the text in column 'kind' is no text: got '.udfff'"):
            await items.table(table, [{"size": 1, "kind": "\udfff"}])
        assert len(await items.texts(letters, ["ab\0"])) == 1

    with_items(work)


def test_nor_are_those_of_many_requests() -> None:
    colours = version(colour_classifier())

    async def work(items: RequestVectors, decoders: Watched) -> None:
        asked = [items.files(colours, [picture((255, 0, 0), (90, 90))] * 3) for _ in range(8)]
        await asyncio.gather(*asked)
        assert decoders.decoded == 24
        assert decoders.most <= MAX_DECODED + LAST

    with_items(work)


def test_rows_have_the_vectors_that_they_have_alone() -> None:
    table = version(TailClassifier(MODEL, device="cpu", encoder="auto").fit(TABLE, list("aaabbb")))
    rows = [{"size": 1, "kind": "x"}, {"kind": "z", "size": None}, {"size": 2.5, "kind": None}]

    async def work(items: RequestVectors, decoders: Watched) -> None:
        together = await items.table(table, rows)
        alone = [await items.table(table, [row]) for row in rows]
        assert np.array_equal(together, np.concatenate(alone))
        for wrong, told in (
            ({"size": "abc", "kind": "x"}, "cannot be read: column 'size' holds no numbers"),
            ({"kind": "x"}, "lacks columns that the examples have: got no 'size'"),
            ({"size": 10**400, "kind": "x"}, "column 'size' has a wrong value: got a number that"),
            ({"size": float("inf"), "kind": "x"}, "a number that is too large"),
            ({"size": [1], "kind": "x"}, "column 'size' has a wrong value: got a list"),
            ({"size": 1, "kind": {}}, "column 'kind' has a wrong value: got a dict"),
            ({"size": 1, "kind": "x" * 101}, "the text in column 'kind' is too long"),
        ):
            for place, given in enumerate(([wrong], [rows[0], wrong])):
                with pytest.raises(Refusal, match=told) as caught:
                    await items.table(table, given)
                assert f"row {place} (the first is 0)" in str(caught.value)
                assert "--column" not in str(caught.value)

    with_items(work, text_characters=100)


def test_columns_that_the_examples_lack_cost_nothing_and_too_many_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = version(TailClassifier(MODEL, device="cpu", encoder="auto").fit(TABLE, list("aaabbb")))
    row = {"size": 1.0, "kind": "x"}
    widths: list[int] = []
    real = request_vectors.encode

    def watched(encoder: Any, frame: pd.DataFrame) -> Any:  # noqa: ANN401
        widths.append(len(frame.columns))
        return real(encoder, frame)

    monkeypatch.setattr(request_vectors, "encode", watched)

    async def work(items: RequestVectors, decoders: Watched) -> None:
        wide = {**{f"more {place}": place for place in range(899)}, **row}
        assert np.array_equal(await items.table(table, [wide]), await items.table(table, [row]))
        with pytest.raises(
            Refusal, match=r"row 1 \(the first is 0\) has too many columns: got 902"
        ):
            await items.table(table, [row, wide | {"one more": 0}])

    with_items(work, columns=901)
    assert widths == [2, 2]


def test_large_whole_numbers_in_cells_are_numbers() -> None:
    table = version(TailClassifier(MODEL, device="cpu", encoder="auto").fit(TABLE, list("aaabbb")))

    async def work(items: RequestVectors, decoders: Watched) -> None:
        whole = await items.table(table, [{"size": 10**30, "kind": "x"}])
        assert np.array_equal(whole, await items.table(table, [{"size": 1e30, "kind": "x"}]))

    with_items(work)


def test_long_texts_are_refused_before_they_are_split_into_tokens() -> None:
    letters = version(text_classifier())

    async def work(items: RequestVectors, decoders: Watched) -> None:
        assert len(await items.texts(letters, ["a" * 50])) == 1
        assert len(await items.files(letters, [b"a" * 50])) == 1
        for asked in (
            items.texts(letters, ["a", "b" * 51]),
            items.files(letters, [b"a", b"b" * 51]),
        ):
            with pytest.raises(Refusal) as caught:
                await asked
            assert str(caught.value) == (
                "item 1 (the first is 0) is too long: got 51 characters; allowed: texts of at most"
                " 50 characters. Send the beginning of it."
            )

    with_items(work, text_characters=50)
