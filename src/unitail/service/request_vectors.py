"""Turns the items of requests into vectors: JSON numbers, texts, table rows, uploaded files."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.encoding import encode_items
from unitail.errors import Unreadable, optional
from unitail.inputs.encode import encode
from unitail.inputs.input_encoder import ItemEncoder
from unitail.service.classifiers import Version
from unitail.service.decoder_pool import DecoderPool
from unitail.web.replies import Refusal

Vector = NDArray[Any]
MAX_DECODED = 3
"""Decoded files in memory, over all requests: two are decoded while one is encoded."""


class RequestVectors:
    """Encodes the items of requests.

    Items are encoded one at a time, so that a vector never depends on other requests, not even in
    its last bit.
    """

    def __init__(self, encode: Executor, decoders: DecoderPool) -> None:
        self._encode, self._decoders = encode, decoders
        self._room = asyncio.Semaphore(MAX_DECODED)

    @staticmethod
    def numbers(rows: Sequence[Sequence[float | None]]) -> NDArray[np.float64]:
        """Return JSON numbers as an array; null is a missing value."""
        if len({len(row) for row in rows}) > 1:
            raise Refusal(
                422,
                "the vectors differ in width",
                got=", ".join(str(width) for width in sorted({len(row) for row in rows})[:3]),
                allowed="the same number of values in each",
            )
        return np.array(rows, dtype=np.float64)  # None becomes NaN

    async def texts(self, version: Version, texts: Sequence[str]) -> Vector:
        """Encode texts."""
        encoder = _encoder(version, Modality.TEXT)
        return np.concatenate(
            [await self._encode_one(encoder, place, text) for place, text in enumerate(texts)]
        )

    async def table(self, version: Version, rows: Sequence[Mapping[str, Any]]) -> Vector:
        """Encode table rows, each a mapping from columns to values."""
        encoder = version.encoder
        if encoder is None or version.takes != Modality.TABLE:
            raise _wrong_kind(version, "rows of a table")
        pandas = optional("pandas", extra="encoders")
        loop = asyncio.get_running_loop()

        def encode_row(row: Mapping[str, Any]) -> Vector:
            [vectors] = encode(encoder, pandas.DataFrame([row]))
            return vectors.features

        vectors = [await loop.run_in_executor(self._encode, encode_row, row) for row in rows]
        return np.concatenate(vectors)

    async def files(self, version: Version, contents: Sequence[bytes]) -> Vector:
        """Decode uploaded files in another process, and encode each before the next."""
        if not isinstance(version.encoder, ItemEncoder):
            raise _wrong_kind(version, "files")
        encoder = version.encoder.encoder
        rows = []
        for place, content in enumerate(contents):
            async with self._room:  # a small file may hold a large image
                rows.append(await self._encode_file(encoder, place, content))
        return np.concatenate(rows)

    async def _encode_file(self, encoder: Encoder[Any], place: int, content: bytes) -> Vector:
        try:
            if encoder.modality is Modality.TEXT:
                item: object = content.decode("utf-8-sig")
            else:
                item = await self._decoders.decode(encoder.modality, content)
        except UnicodeDecodeError as error:
            reason = f"not UTF-8 text, {error.reason} at byte {error.start}"
            raise _unreadable(place, reason) from error
        except Unreadable as error:
            raise _unreadable(place, f"{error.wrong}: {error.got}", error.allowed) from error
        return await self._encode_one(encoder, place, item)

    async def _encode_one(self, encoder: Encoder[Any], place: int, item: object) -> Vector:
        loop = asyncio.get_running_loop()
        vectors = await loop.run_in_executor(self._encode, encode_items, encoder, [item])
        if vectors.unreadable:
            raise _unreadable(place, vectors.unreadable[0].reason)
        return vectors.features


def _encoder(version: Version, modality: Modality) -> Encoder[Any]:
    encoder = version.encoder
    if not isinstance(encoder, ItemEncoder) or encoder.encoder.modality is not modality:
        raise _wrong_kind(version, f"{modality}s")
    return encoder.encoder


def _wrong_kind(version: Version, got: str) -> Refusal:
    ways = {
        "vectors": "vectors",
        "table": "rows, or vectors",
        "text": "texts, files of text, or vectors",
    }
    return Refusal(
        422,
        f"the classifier {version.name!r} does not take such items",
        got=got,
        allowed=ways.get(version.takes, f"files ({version.takes}), or vectors"),
    )


def _unreadable(place: int, reason: str, allowed: str = "items that the encoder reads") -> Refusal:
    return Refusal(
        422,
        f"item {place} (the first is 0) cannot be read",
        got=reason,
        allowed=allowed,
        remedy="Fix it or leave it out.",
    )
