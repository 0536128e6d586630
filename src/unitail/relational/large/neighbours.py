"""Search for the rows nearest to a query.

Up to `MAX_SEARCHED` rows the search is exhaustive. Beyond, if faiss is installed (the extra
`retrieval`), an index searches the `PROBES` cells nearest to x; if not, all rows are searched.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unitail.errors import MissingExtra, optional
from unitail.relational.large.moments import NUMBERS_AT_ONCE

MAX_SEARCHED = 200_000
"""Largest number of rows with an exhaustive search in any case."""
CELLS, PROBES = 1024, 32
"""Number of cells of the index, and of those that are searched."""
QUERIES_AT_ONCE = 256
"""Number of queries that are compared with all rows at once."""
TRAINED = 64
"""Rows per cell that the index is trained on."""


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """Rows with an index for nearest neighbours."""

    features: Tensor
    """(n, d_T)."""
    size: int
    """Number of rows in a neighbourhood."""

    def nearest(self, queries: Tensor, places: Tensor | None = None) -> Tensor:
        """Return the indices of the rows nearest to each query: (m, k).

        `places` are the indices of queries that are rows themselves, which are left out.
        """
        count = min(self.size, len(self.features) - (places is not None))
        wanted = count + (places is not None)
        if self._index is None:
            nearest = self._search(queries, wanted)
        else:
            _, indices = self._index.search(_single(queries), wanted)
            nearest = torch.from_numpy(indices).to(queries.device)
            short = (nearest < 0).any(dim=1)  # where the cells hold too few rows
            if short.any():
                nearest[short] = self._search(queries[short], wanted)
        if places is None:
            return nearest
        # Drop the query itself, or the farthest row where the query was not found.
        is_query = nearest == places.unsqueeze(1)
        is_query[:, -1] |= ~is_query.any(dim=1)
        return nearest[~is_query].view(len(nearest), count)

    def _chunks(self) -> tuple[Tensor, ...]:
        return torch.split(self.features, max(1, NUMBERS_AT_ONCE // self.features.shape[1]))

    @cached_property
    def _squares(self) -> tuple[Tensor, ...]:
        return tuple(features.pow(2).sum(dim=1) for features in self._chunks())

    def _search(self, queries: Tensor, count: int) -> Tensor:
        """Search all rows for some queries at a time."""
        chunks = torch.split(queries, QUERIES_AT_ONCE)
        return torch.cat([self._search_for(chunk, count) for chunk in chunks])

    def _search_for(self, queries: Tensor, count: int) -> Tensor:
        """Search all rows in chunks."""
        best = torch.empty(len(queries), 0, dtype=queries.dtype, device=queries.device)
        nearest = torch.empty(len(queries), 0, dtype=torch.int64, device=queries.device)
        start = 0
        for features, squares in zip(self._chunks(), self._squares, strict=True):
            distances = torch.addmm(squares, queries, features.mT, alpha=-2)
            near = distances.topk(min(count, len(features)), dim=1, largest=False)
            best = torch.cat([best, near.values], dim=1)
            nearest = torch.cat([nearest, near.indices + start], dim=1)
            chosen = best.topk(min(count, best.shape[1]), dim=1, largest=False)
            best, nearest = chosen.values, nearest.gather(1, chosen.indices)
            start += len(features)
        return nearest

    @cached_property
    def _index(self) -> Any:  # noqa: ANN401 - faiss has no types
        count, width = self.features.shape
        if count <= MAX_SEARCHED:
            return None
        try:
            faiss = optional("faiss", extra="retrieval")
        except MissingExtra:
            return None
        index = faiss.index_factory(width, f"IVF{CELLS},Flat")  # owns its quantiser
        index.nprobe = PROBES
        step = max(1, count // (TRAINED * CELLS))
        index.train(_single(self.features[::step]))
        for features in self._chunks():
            index.add(_single(features))
        return index


def _single(features: Tensor) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(features.cpu().numpy(), dtype=np.float32)
