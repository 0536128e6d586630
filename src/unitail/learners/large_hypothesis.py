"""A relational model on supports of any size: a few passes over the rows, isolated queries.

The method is explained in `unitail.relational.large`. Rows are scaled and converted in chunks, so
the converted rows are the only tensor of their size.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unitail.framework.episode import Support
from unitail.learners.in_context import MAX_ROWS, InputConversion
from unitail.relational.geometry import coordinate_limit, limited
from unitail.relational.large.committee import Committee
from unitail.relational.large.first_answer import LargeReading
from unitail.relational.large.influence import first_answer_contributions
from unitail.relational.large.moments import LabelledRows, Span
from unitail.relational.model import Relational

EXPLAINED, MAX_EXPLAINED = 32, 2**24
"""Smallest number of queries explained at once, and largest number of queries times rows."""


@dataclass(frozen=True, eq=False)
class LargeHypothesis:
    """f_S of a support that is too large to be read in pairs of rows."""

    model: Relational
    reading: LargeReading
    committee: Committee | None
    convert: InputConversion
    limit: Tensor | None
    """Limit at which coordinates saturate, if there is one: (1, 1, 1)."""
    span: Span
    order: Tensor
    """Order in which the rows were read, (n,)."""
    chunk_size: int | None = None
    """Number of queries to answer at once; None: `MAX_ROWS`."""

    @torch.no_grad()
    def __call__(self, query_features: Tensor) -> Tensor:
        """Return log-probabilities (1, m, K) of queries (1, m, d_T)."""
        chunks = torch.split(query_features[0], self.chunk_size or MAX_ROWS)
        scores = [self._scores(self.convert(chunk[None], "query")) for chunk in chunks]
        return torch.cat(scores).log_softmax(dim=-1)[None]

    @torch.no_grad()
    def contributions(self, query_features: Tensor, classes: Tensor) -> Tensor:
        """Return each labelled row's contribution to the scores of classes (1, m): (1, m, n)."""
        values = torch.zeros(1, query_features.shape[1], len(self.order))
        size = max(EXPLAINED, MAX_EXPLAINED // len(self.order))
        for start in range(0, query_features.shape[1], size):
            chunk = slice(start, start + size)
            queries = self._in_span(self.convert(query_features[:, chunk], "query"))
            targets = classes[0, chunk].to(queries.device)
            parts = first_answer_contributions(self.reading, queries, targets)
            if self.committee is not None:
                first = self.reading.scores(queries)
                added = self.committee.contributions(queries, first, targets)
                parts[:, : added.shape[1]] += added
            values[0, chunk, self.order] = parts.to(values)
        return values

    def _in_span(self, queries: Tensor) -> Tensor:
        return self.span.see(limited(queries, self.limit)[0])

    def _scores(self, queries: Tensor) -> Tensor:
        coordinates = self._in_span(queries)
        first = self.reading.scores(coordinates)
        return first if self.committee is None else self.committee.correct(coordinates, first)


@torch.no_grad()
def read_large(
    model: Relational, support: Support, order: Tensor, chunk_size: int | None = None
) -> LargeHypothesis:
    """Read a support (1, n, d_T) of any number of rows, in a random order (n,).

    Where only some rows can be used, the first ones are, so the order must not depend on the
    user's (`randomness.content_order`).
    """
    features = support.features[0]
    convert = InputConversion.of(model, torch.split(support.features, MAX_ROWS, dim=1))
    converted = torch.empty(features.shape, dtype=convert.dtype, device=convert.device)
    for start in range(0, len(features), MAX_ROWS):
        chunk = slice(start, start + MAX_ROWS)
        converted[chunk] = convert(features[None, order[chunk]], "support")[0]
    pieces = torch.split(converted[None], MAX_ROWS, dim=1)
    limit = coordinate_limit(pieces, model.config.coordinate_limit)
    for piece in pieces:
        piece.copy_(limited(piece, limit))
    span = Span.of(converted)
    converted = span.see(converted)
    rows = LabelledRows(converted, support.class_indices[0][order].to(convert.device), support.ways)
    reading = LargeReading.of(rows, model.weighing, origin=model.config.angles_from_origin)
    committee = Committee.of(model, reading, reading.weights.strength)
    return LargeHypothesis(model, reading, committee, convert, limit, span, order, chunk_size)
