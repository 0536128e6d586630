r"""The rows nearest to a query, and the regressions that need no others.

Gaussian kernels reach the neighbourhood alone, so of many rows a query is related to some hundred,
the nearest: with G among them and g between them and x, ridge regression answers
g (G + lambda I)^-1 Y. Which rows these are depends on the support and on x, on no other query.

Up to `MAX_EXACT` rows are searched one by one. Beyond, if faiss is installed (the extra
`retrieval`), its index looks into the `PROBES` cells nearest to x; if not, all rows are searched.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unitail.errors import MissingExtra
from unitail.extras import optional
from unitail.relational.moments import LabelledRows
from unitail.relational.regressions import FURTHER, OPERATORS, GaussianKernel

NEIGHBOURS = 256
MAX_EXACT = 200_000
"""Rows that are always searched exactly."""
CELLS, PROBES = 1024, 32
"""Of the index, and those that are looked into."""
TRAINED = 64
"""Rows for each cell that the index learns its cells from."""
QUERIES = 32
"""Queries that are answered at once."""
GAUSSIANS = tuple(
    (place, ridge.kernel.sharpness, ridge.penalty)
    for place, ridge in enumerate(OPERATORS + FURTHER)
    if isinstance(ridge.kernel, GaussianKernel)
)
"""Place among ridge regressions, sharpness, penalty."""


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """The rows of a support, ready to be searched."""

    rows: LabelledRows
    mean_distance: float
    """Squared, between different rows."""
    size: int = NEIGHBOURS
    """The rows in a neighbourhood."""

    def votes(self, queries: Tensor, places: Tensor | None = None) -> Tensor:
        """Return what Gaussian regressions say about queries (m, d_T): (gaussians, m, K).

        If the queries are rows of the support, at `places` (m,), each is left out of its own
        neighbourhood.
        """
        pieces = []
        for start in range(0, len(queries), QUERIES):
            chunk = slice(start, start + QUERIES)
            pieces.append(self._votes(queries[chunk], None if places is None else places[chunk]))
        return torch.cat(pieces, dim=1)

    def _votes(self, queries: Tensor, places: Tensor | None) -> Tensor:
        near = self.nearest(queries, places)  # (m, k)
        rows = self.rows.features[near]
        asked = (rows - queries.unsqueeze(1)).pow(2).sum(dim=2, keepdim=True)
        rows = rows - rows.mean(dim=1, keepdim=True)  # so that little is rounded, however far x is
        norms = rows.pow(2).sum(dim=2, keepdim=True)
        squares = (norms + norms.mT - 2 * rows @ rows.mT).clamp_min(0)
        squares.diagonal(dim1=1, dim2=2).zero_()
        classes, ways = self.rows.class_indices[near], self.rows.ways
        votes = []
        per_unit = 1 / self.mean_distance if self.mean_distance > 0 else 0.0  # all rows are equal
        for _, sharpness, penalty in GAUSSIANS:
            gram = torch.exp(-sharpness * per_unit * squares)
            gram.diagonal(dim1=1, dim2=2).add_(penalty)
            kernel = torch.exp(-sharpness * per_unit * asked)
            carried = torch.cholesky_solve(kernel, torch.linalg.cholesky(gram)).squeeze(2)
            vote = -carried.sum(dim=1, keepdim=True).repeat(1, ways) / ways
            votes.append(vote.scatter_add_(1, classes, carried))
        return torch.stack(votes)

    def nearest(self, queries: Tensor, places: Tensor | None = None) -> Tensor:
        """Return the places of the rows nearest to each query, (m, k)."""
        count = min(self.size, len(self.rows.features) - (places is not None))
        wanted = count + (places is not None)
        if self._index is None:
            found = self._search(queries, wanted)
        else:
            asked = np.ascontiguousarray(queries.cpu().numpy(), dtype=np.float32)
            found = torch.from_numpy(self._index.search(asked, wanted)[1]).to(queries.device)
            short = (found < 0).any(dim=1)  # where cells hold too few
            if short.any():
                found[short] = self._search(queries[short], wanted)
        if places is None:
            return found
        # Leave the query itself out, or the farthest where it is not among its own.
        own = found == places.unsqueeze(1)
        own[:, -1] |= ~own.any(dim=1)
        return found[~own].view(len(found), count)

    def _search(self, queries: Tensor, count: int) -> Tensor:
        """Compare queries with all rows, some at a time."""
        best = torch.empty(len(queries), 0, dtype=queries.dtype, device=queries.device)
        found = torch.empty(len(queries), 0, dtype=torch.int64, device=queries.device)
        start = 0
        for features, _ in self.rows.chunks():
            distances = features.pow(2).sum(dim=1) - 2 * queries @ features.mT
            near = distances.topk(min(count, len(features)), dim=1, largest=False)
            best = torch.cat([best, near.values], dim=1)
            found = torch.cat([found, near.indices + start], dim=1)
            chosen = best.topk(min(count, best.shape[1]), dim=1, largest=False)
            best, found = chosen.values, found.gather(1, chosen.indices)
            start += len(features)
        return found

    @cached_property
    def _index(self) -> Any:  # noqa: ANN401 - faiss has no types
        count, width = self.rows.features.shape
        if count <= MAX_EXACT:
            return None
        try:
            faiss = optional("faiss", extra="retrieval")
        except MissingExtra:
            return None
        index = faiss.index_factory(width, f"IVF{CELLS},Flat")  # which owns all of its parts
        index.nprobe = PROBES
        step = max(1, count // (TRAINED * CELLS))
        index.train(_single(self.rows.features[::step]))
        for features, _ in self.rows.chunks():
            index.add(_single(features))
        return index


def _single(features: Tensor) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(features.cpu().numpy(), dtype=np.float32)
