"""A relational model on supports of any number of rows: read in a few walks, answered alone.

How it is done stands in `unitail.relational.large`. Rows enter as they do elsewhere, some at a
time, so that nothing beside the entered rows is as large as they are.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unitail.framework.episode import Support
from unitail.learners.in_context import MAX_ROWS, Entrance
from unitail.relational.geometry import coordinate_limit, limited
from unitail.relational.large.committee import Committee
from unitail.relational.large.first_answer import LargeReading
from unitail.relational.large.influence import first_answer_parts
from unitail.relational.large.moments import LabelledRows, Span, measured_scale
from unitail.relational.model import MAX_ORIGIN_DISTANCE, Relational

EXPLAINED, MAX_EXPLAINED = 32, 2**24
"""Queries whose answers are taken apart at once, the fewest, and most times rows."""


@dataclass(frozen=True, eq=False)
class LargeHypothesis:
    """f_S of a support that is too large for pairs of rows."""

    model: Relational
    reading: LargeReading
    committee: Committee | None
    enter: Entrance
    limit: Tensor | None
    """How far a coordinate counts, if there is an end: (1, 1, 1)."""
    span: Span
    order: Tensor
    """Of the rows as they were read, (n,)."""

    @torch.no_grad()
    def __call__(self, query_features: Tensor) -> Tensor:
        """Answer queries (1, m, d_T): log-probabilities (1, m, K)."""
        chunks = torch.split(query_features[0], MAX_ROWS)
        scores = [self._scores(self.enter(chunk[None], "query")) for chunk in chunks]
        return torch.cat(scores).log_softmax(dim=-1)[None]

    @torch.no_grad()
    def contributions(self, query_features: Tensor, classes: Tensor) -> Tensor:
        """Say what each labelled row adds to the scores of classes (1, m): (1, m, n)."""
        values = torch.zeros(1, query_features.shape[1], len(self.order))
        size = max(EXPLAINED, MAX_EXPLAINED // len(self.order))
        for start in range(0, query_features.shape[1], size):
            chunk = slice(start, start + size)
            queries = self._see(self.enter(query_features[:, chunk], "query"))
            asked = classes[0, chunk].to(queries.device)
            parts = first_answer_parts(self.reading, queries, asked)
            if self.committee is not None:
                first = self.reading.scores(queries)
                added = self.committee.contributions(queries, first, asked)
                parts[:, : added.shape[1]] += added
            values[0, chunk, self.order] = parts.to(values)
        return values

    def _see(self, queries: Tensor) -> Tensor:
        return self.span.see(limited(queries, self.limit)[0])

    def _scores(self, queries: Tensor) -> Tensor:
        seen = self._see(queries)
        first = self.reading.scores(seen)
        return first if self.committee is None else self.committee.correct(seen, first)


@torch.no_grad()
def read_many(model: Relational, support: Support, order: Tensor) -> LargeHypothesis:
    """Read a support (1, n, d_T) of any number of rows, in a random order (n,).

    Rows that come first have more say where not all can have one, so a user's order should have
    none in it (`randomness.content_order`).
    """
    weights = next(model.parameters())
    dtype, features = torch.promote_types(weights.dtype, torch.float32), support.features[0]
    origin = model.config.angles_from_origin
    scale = None
    if dtype != torch.float64:
        scale = measured_scale(features)
        scale = scale.keeping_origin(MAX_ORIGIN_DISTANCE) if origin else scale
    enter = Entrance(weights.device, dtype, scale)
    entered = torch.empty(features.shape, dtype=dtype, device=weights.device)
    for start in range(0, len(features), MAX_ROWS):
        chunk = slice(start, start + MAX_ROWS)
        entered[chunk] = enter(features[None, order[chunk]], "support")[0]
    pieces = torch.split(entered[None], MAX_ROWS, dim=1)
    limit = coordinate_limit(pieces, model.config.coordinate_limit)
    for piece in pieces:
        piece.copy_(limited(piece, limit))
    span = Span.of(entered)
    entered = span.see(entered)
    rows = LabelledRows(entered, support.class_indices[0][order].to(weights.device), support.ways)
    reading = LargeReading.of(rows, model.weighing, origin=origin)
    committee = Committee.of(model, reading, reading.weights.strength)
    return LargeHypothesis(model, reading, committee, enter, limit, span, order)
