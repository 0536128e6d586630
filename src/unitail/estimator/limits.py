"""How many rows are read, and how: in pairs, or beyond a limit without."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.errors import UserError
from unitail.estimator.rows import Rows, as_support, support_limit
from unitail.estimator.settings import Settings
from unitail.learners.large_support import LargeHypothesis, can_read_many, read_many
from unitail.randomness import content_order
from unitail.relational import large
from unitail.relational.model import Relational

MAX_TOGETHER = 4000
"""Rows that may always be answered together."""
MAX_CALIBRATED = 2000
"""Rows of a large support that are left out and asked for prediction sets."""


def reads_many(settings: Settings, width: int, *, pooled: bool = False) -> bool:
    """Tell whether supports beyond the limit are read whole, without pairs of rows."""
    isolated = settings.visibility.isolates_queries
    if settings.max_support is None or settings.parts or pooled or not isolated:
        return False
    return settings.num_draws == 1 and can_read_many(settings.learner(0).model, width)


def pair_limit(settings: Settings, ways: int, width: int, *, pooled: bool = False) -> int | None:
    """Return the most rows that are read in pairs, or None where all are."""
    if ways > large.MANY_WAYS and reads_many(settings, width, pooled=pooled):
        return 0
    return support_limit(settings.max_support, ways)


def read_large(
    settings: Settings, rows: Rows, given: NDArray[Any], limit: int | None, *, pooled: bool
) -> LargeHypothesis | None:
    """Read a support beyond the limit; None if it is within, or must be reduced.

    `given` are the rows before they were scaled: what they are decides which of them are asked.
    """
    width = rows.features.shape[1]
    if limit is None or len(rows) <= limit:
        return None
    if not reads_many(settings, width, pooled=pooled):
        return None
    model = settings.learner(len(rows)).model
    assert isinstance(model, Relational)
    order = torch.from_numpy(content_order(given, rows.class_indices, settings.seed))
    return read_many(model, as_support(rows), order)


def some_of(fold: NDArray[np.int64]) -> NDArray[np.int64]:
    """Keep at most `MAX_CALIBRATED` of the rows that are left out, of every class its share."""
    return fold[:: -(-len(fold) // MAX_CALIBRATED)]


def check_joint_call(num_queries: int, limit: int | None) -> None:
    """Refuse more queries than can see each other in bounded memory.

    A smaller `max_support` is no reason to answer fewer rows: they need not the support's room.
    """
    limit = None if limit is None else max(limit, MAX_TOGETHER)
    if limit is not None and num_queries > limit:
        raise UserError(
            "the rows of one call, which see each other, do not fit into bounded memory",
            got=f"{num_queries} rows in one call",
            allowed=f"at most {limit} (max_support, or {MAX_TOGETHER} if that is less), or any"
            " number with visibility='isolated'",
            remedy="Ask for fewer rows in a call, or raise max_support.",
        )
