"""A random pool of unlabelled rows, drawn once from a stream and sent to all workers."""

import hashlib
import heapq
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from unitail.engines.engine import Chunk
from unitail.engines.rows import JobRows
from unitail.errors import optional
from unitail.estimator.rows import MAX_POOL
from unitail.inputs.items import Items


@contextmanager
def drawn_pool(rows: JobRows, count: int = MAX_POOL, seed: int = 0) -> Iterator[Items]:
    """Yield `count` random rows as items, drawn before any file is read or encoded.

    The rank of a row is a seeded hash of its content, and the rows of the lowest ranks are kept:
    memory does not grow with the number of rows, and their order and storage have no effect. Equal
    rows count once.
    """
    pyarrow = optional("pyarrow", extra="scale")
    column, lowest = rows.reading.column, dict[int, Any]()
    for table in rows.stream.tables():
        named = table if column is None else table.select([column])
        places = {_rank(cells, seed): place for place, cells in enumerate(named.to_pylist())}
        lowest = {
            # `take` copies: a slice would keep the whole table in memory
            rank: lowest[rank] if rank in lowest else table.take([places[rank]])
            for rank in heapq.nsmallest(count, {*lowest, *places})
        }
    chosen = list(lowest.values())
    with rows.reading.items(Chunk(0, 0, pyarrow.concat_tables(chosen))) as items:
        yield items


def _rank(cells: Any, seed: int) -> int:  # noqa: ANN401 - a row, by column
    content = json.dumps(cells, default=repr, sort_keys=True).encode()
    digest = hashlib.blake2b(content, digest_size=8, key=str(seed).encode()).digest()
    return int.from_bytes(digest, "big")
