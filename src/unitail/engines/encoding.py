"""Work for the workers of an engine: encode a chunk of rows as vectors."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from unitail.encoders.encoder import Encoder, Vectors
from unitail.encoders.encoding import encode_items
from unitail.engines.chunk_items import Reading
from unitail.engines.chunk_results import ChunkFolder
from unitail.engines.engine import MAX_NAMED, Chunk, ChunkReport
from unitail.errors import optional
from unitail.inputs.items import Items
from unitail.inputs.table_files import prefix_beside
from unitail.workflows.encode_bank import encoder_for

ADDED = ("vector", "content", "reason")
"""Columns that are added: the vector, a hash of the item, and the reason for a missing vector."""


@dataclass(eq=False)
class EncodeChunk:
    """Encodes chunks with an encoder that every worker loads once.

    The feature cache is not used: batches then depend on the chunk alone, and all engines give the
    same vectors to the last bit.
    """

    encoder: str | None
    """Its name, or FILE.py:NAME in a file that all workers see; None for the default encoder."""
    device: str
    reading: Reading
    results: ChunkFolder
    dtype: str = "float32"

    @cached_property
    def _encoder(self) -> Encoder[Any]:
        return encoder_for(self.encoder, self.reading.modality, self.device)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_encoder"}

    def __call__(self, chunk: Chunk) -> ChunkReport:
        """Write the rows with their vectors, and return a report on them."""
        encoder, began = self._encoder, time.monotonic()
        with self.reading.items(chunk) as items:
            read = time.monotonic()
            vectors = encode_items(encoder, items.items)
        encoded = time.monotonic()
        reasons = row_reasons(items, vectors)
        table = _with_vectors(self.reading.kept(chunk), items, vectors, reasons, self.dtype)
        report = ChunkReport(
            index=chunk.index,
            rows=len(chunk),
            **unreadable_rows(self.reading, items, reasons),
            counts={"vectors": len(vectors.kept)},
            seconds={"read": read - began, "encode": encoded - read},
        )
        self.results.write(table, report)
        seconds = {**report.seconds, "write": time.monotonic() - encoded}
        return replace(report, seconds=seconds)


def row_reasons(items: Items, vectors: Vectors) -> list[str | None]:
    """Return for each row the reason why it has no vector; None if it has one."""
    failures = {each.place: each.reason for each in vectors.unreadable}
    return [
        record.reason or None if record.item is None else failures.get(record.item)
        for record in items.records
    ]


def unreadable_rows(
    reading: Reading, items: Items, reasons: Sequence[str | None]
) -> dict[str, Any]:
    """Return the fields of a report on unreadable rows; rows without an item do not count."""
    messages = [
        f"row {record.row} ({reading.name(record)}): {reason}"
        for record, reason in zip(items.records, reasons, strict=True)
        if reason not in (None, reading.nothing)
    ]
    return {"unreadable": len(messages), "named": tuple(messages[:MAX_NAMED])}


def _with_vectors(
    rows: Any,  # noqa: ANN401 - a table of pyarrow
    items: Items,
    vectors: Vectors,
    reasons: Sequence[str | None],
    dtype: str,
) -> Any:  # noqa: ANN401
    """Append the columns `ADDED` to the user's; rows without a vector have a reason instead."""
    pyarrow = optional("pyarrow", extra="scale")
    numbers = dict(zip(vectors.kept.tolist(), range(len(vectors.kept)), strict=True))
    places = [None if each.item is None else numbers.get(each.item) for each in items.records]
    flat = pyarrow.array(vectors.features.astype(np.dtype(dtype)).ravel())
    lists = pyarrow.FixedSizeListArray.from_arrays(flat, vectors.features.shape[1])
    chosen = pyarrow.array(places, pyarrow.int64())
    hashed = pyarrow.array(vectors.hashes, pyarrow.string()).take(chosen)
    reason = pyarrow.array(reasons, pyarrow.string())
    prefix = prefix_beside(rows.column_names, ADDED)
    for name, column in zip(ADDED, (lists.take(chosen), hashed, reason), strict=True):
        rows = rows.append_column(f"{prefix}{name}", column)
    return rows
