import asyncio
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import pytest

from helpers.services import MODEL, colour_classifier, large_png, picture
from unitail import TailClassifier
from unitail.encoders.encoder import Modality
from unitail.errors import UserError
from unitail.service.classifiers import Classifiers, Version
from unitail.service.decoder_pool import DecoderPool
from unitail.service.limits import ServiceLimits
from unitail.service.request_vectors import MAX_DECODED, RequestVectors

TABLE = pd.DataFrame({"size": [1.0, 1.2, 0.8, 5.0, 5.5, 4.9], "kind": list("xxyzzz")})
LAST = 1
"""The thread that encodes lets go of an item a moment after it was told that it is done."""


class Watched(DecoderPool):
    """Decoders that know how many of the images they decoded are still in memory."""

    def __init__(self) -> None:
        super().__init__(ServiceLimits(), 2)
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


def with_items(work: Callable[[RequestVectors, Watched], Awaitable[Any]]) -> Any:  # noqa: ANN401
    async def run() -> Any:  # noqa: ANN401
        decoders = Watched()
        with ThreadPoolExecutor(1) as pool:
            result = await work(RequestVectors(pool, decoders), decoders)
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
            ({"size": "abc", "kind": "x"}, "column 'size' holds no numbers"),
            ({"kind": "x"}, "the table lacks columns"),
        ):
            for given in ([wrong], [rows[0], wrong]):
                with pytest.raises(UserError, match=told):
                    await items.table(table, given)

    with_items(work)
