"""Turns the items of requests into vectors: JSON numbers, texts, table rows, uploaded files."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.encoding import encode_items
from unitail.encoders.tables import TableEncoder
from unitail.errors import Unreadable, UserError, optional
from unitail.inputs.encode import encode
from unitail.inputs.input_encoder import InputEncoder, ItemEncoder, MixedEncoder
from unitail.missing_columns import list_columns
from unitail.service.classifiers import Version
from unitail.service.decoder_pool import DecoderPool
from unitail.service.limits import ServiceLimits
from unitail.web.replies import Refusal
from unitail.wording import excerpt, is_utf8

Vector = NDArray[Any]
MAX_DECODED = 3
"""Decoded files in memory, over all requests: two are decoded while one is encoded."""
MAX_CELL = 1e300
"""Largest absolute number in a cell; see `MAX_NUMBER` of the classifier."""


class RequestVectors:
    """Encodes the items of requests.

    Items are encoded one at a time, so that a vector never depends on other requests, not even in
    its last bit.
    """

    def __init__(self, encode: Executor, decoders: DecoderPool, limits: ServiceLimits) -> None:
        self._encode, self._decoders, self._limits = encode, decoders, limits
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
        for place, text in enumerate(texts):
            self._check_text(_item(place), text)
        return np.concatenate(
            [await self._encode_one(encoder, place, text) for place, text in enumerate(texts)]
        )

    async def table(self, version: Version, rows: Sequence[Mapping[str, Any]]) -> Vector:
        """Encode table rows, each a mapping from columns to values."""
        encoder = version.encoder
        if encoder is None or version.takes != Modality.TABLE:
            raise _wrong_kind(version, "rows of a table")
        self._check_columns(rows)
        pandas = optional("pandas", extra="encoders")
        loop, columns = asyncio.get_running_loop(), _columns(encoder)

        def encode_row(place: int, row: Mapping[str, Any]) -> Vector:
            try:
                # Only columns that the encoder reads: pandas takes seconds for thousands.
                known = {name: row[name] for name in columns if name in row}
                cells = {name: self._cell(name, value) for name, value in known.items()}
                [vectors] = encode(encoder, pandas.DataFrame([cells]))
            except UserError as error:
                raise _wrong_row(place, row, columns, error) from error
            return vectors.features

        vectors = [
            await loop.run_in_executor(self._encode, encode_row, place, row)
            for place, row in enumerate(rows)
        ]
        return np.concatenate(vectors)

    def _cell(self, name: str, value: Any) -> object:  # noqa: ANN401 - JSON
        """Return a cell of a table; refuse what is not a plain value, or too large."""
        if isinstance(value, str):
            self._check_text(f"the text in column {excerpt(repr(name))}", value)
        elif isinstance(value, float | int) and not isinstance(value, bool):
            if not abs(value) <= MAX_CELL and value == value:
                raise _wrong_cell(name, "a number that is too large", f"within ±{MAX_CELL:g}")
            return float(value) if abs(value) >= 2**63 else value
        elif value is not None and not isinstance(value, bool):
            raise _wrong_cell(name, f"a {type(value).__name__}", "texts, numbers, booleans, null")
        return value

    def _check_columns(self, rows: Sequence[Mapping[str, Any]]) -> None:
        limit, counts = self._limits.columns, [len(row) for row in rows]
        if max(counts) > limit:
            raise Refusal(
                422,
                f"row {counts.index(max(counts))} (the first is 0) has too many columns",
                got=f"{max(counts):,}",
                allowed=f"at most {limit:,}",
            )

    def _check_text(self, what: str, text: str) -> None:
        """Refuse long texts, all of which would be split into tokens in the server's process."""
        limit = self._limits.text_characters
        if len(text) > limit:
            raise Refusal(
                422,
                f"{what} is too long",
                got=f"{len(text):,} characters",
                allowed=f"texts of at most {limit:,} characters",
                remedy="Send the beginning of it.",
            )
        if not is_utf8(text):
            raise Refusal(
                422,
                f"{what} is no text",
                got=excerpt(repr(text[:60])),
                allowed="characters that UTF-8 can encode",
            )

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
                text = content.decode("utf-8-sig")
                self._check_text(_item(place), text)
                item: object = text
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


def _item(place: int) -> str:
    return f"item {place} (the first is 0)"


def _columns(encoder: InputEncoder) -> list[str]:
    """Return the columns that an encoder of tables reads."""
    if isinstance(encoder, MixedEncoder):
        return list(dict.fromkeys(name for part in encoder.parts for name in part.columns))
    assert isinstance(encoder, TableEncoder), "other encoders take no rows of a table"
    return [column.name for column in encoder.columns]


def _wrong_row(
    place: int, row: Mapping[str, Any], columns: Sequence[str], error: UserError
) -> Refusal:
    """Say which row is wrong, without the remedies of commands."""
    lacking = [name for name in columns if name not in row]
    if lacking:
        return Refusal(
            422,
            f"row {place} (the first is 0) lacks columns that the examples have",
            got=f"no {list_columns(lacking)}",
            allowed=f"all of {list_columns(columns)}",
            remedy="Add them, with null where a value is missing.",
        )
    return Refusal(
        422,
        f"row {place} (the first is 0) cannot be read: {error.wrong}",
        got=error.got,
        allowed=error.allowed,
    )


def _wrong_cell(name: str, got: str, allowed: str) -> Refusal:
    return Refusal(422, f"column {excerpt(repr(name))} has a wrong value", got=got, allowed=allowed)


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
        f"{_item(place)} cannot be read",
        got=reason,
        allowed=allowed,
        remedy="Fix it or leave it out.",
    )
