"""A relational model on supports of any number of rows: read in a few walks, answered alone.

How it is done stands in `unitail.relational.large`. Rows enter as they do elsewhere, some at a
time, so that nothing beside the entered rows is as large as they are.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unitail.framework.episode import Support
from unitail.learners.in_context import MAX_ROWS, Entrance
from unitail.nn.episode_model import AnyModel
from unitail.relational.geometry import coordinate_limit, limited
from unitail.relational.large import LargeReading
from unitail.relational.model import MAX_ORIGIN_DISTANCE, Relational
from unitail.relational.moments import LabelledRows, measured_scale

MAX_WIDTH = 4096
"""The widest rows whose products are kept."""


@dataclass(frozen=True, eq=False)
class LargeHypothesis:
    """f_S of a support that is too large for pairs of rows."""

    model: Relational
    reading: LargeReading
    enter: Entrance
    limit: Tensor | None
    """How far a coordinate counts, if there is an end: (1, 1, 1)."""

    @torch.no_grad()
    def __call__(self, query_features: Tensor) -> Tensor:
        """Answer queries (1, m, d_T): log-probabilities (1, m, K)."""
        chunks = torch.split(query_features[0], MAX_ROWS)
        scores = [self._scores(self.enter(chunk[None], "query")) for chunk in chunks]
        return torch.cat(scores).log_softmax(dim=-1)[None]

    def _scores(self, queries: Tensor) -> Tensor:
        return self.reading.scores(limited(queries, self.limit)[0])


def can_read_many(model: AnyModel, width: int) -> bool:
    """Tell whether a model's supports may have any number of rows so wide."""
    return isinstance(model, Relational) and model.entry is None and width <= MAX_WIDTH


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
    rows = LabelledRows(entered, support.class_indices[0][order].to(weights.device), support.ways)
    reading = LargeReading.of(rows, model.weighing, origin=origin)
    return LargeHypothesis(model, reading, enter, limit)
