"""A support that is ready to answer: the rows, how they are read, and what was read."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from unitail.configuration import require
from unitail.errors import UserError
from unitail.estimator.choices import Precision, prepared
from unitail.estimator.reduction import Rows, reduced, support_limit
from unitail.framework.episode import Support
from unitail.learners.in_context import InContextHypothesis, InContextLearner
from unitail.learners.known_shares import impose_shares
from unitail.nn.episode_model import AnyModel
from unitail.nn.normalisation import FeatureScale, Normalisation
from unitail.nn.visibility import Visibility

PAIRS_AT_ONCE = 2**21
"""Query and support rows that are related at once: some hundred MB with the shipped model."""
STATES_AT_ONCE = 2**17
"""Queries times classes that are worked on at once."""
MOST_AT_ONCE = 4096
BALANCED = "balanced"
"""The class shares of rows of which equally many are of each class."""
ROUNDING = 1e-6
FARTHEST_ORIGIN = 1e3
"""From so many times the spread of features, all of them lie in one direction."""


def queries_at_once(num_support: int, ways: int) -> int:
    """Return how many isolated queries are answered together in bounded memory."""
    return max(1, min(MOST_AT_ONCE, PAIRS_AT_ONCE // num_support, STATES_AT_ONCE // ways))


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """How a support is read: everything but its rows."""

    model: AnyModel | None
    """None is the shipped model."""
    device: torch.device
    precision: Precision
    visibility: Visibility
    class_shares: str | ArrayLike | None
    """How often classes occur among rows that are answered together, if that is known."""
    num_draws: int
    seed: int
    chunk_size: int | None
    max_support: int | None


@dataclass(frozen=True, eq=False)
class FittedSupport:
    """The rows that were given, and the hypothesis that the model makes of them.

    What can be computed again is not pickled, but made anew when first needed.
    """

    rows: Rows
    reading: Reading

    def __getstate__(self) -> dict[str, Any]:
        return {"rows": self.rows, "reading": self.reading}

    @cached_property
    def kept(self) -> Rows:
        """The rows that the model reads."""
        limit = support_limit(self.reading.max_support, self.rows.ways)
        return reduced(self.rows, limit, self.reading.seed)

    @cached_property
    def dtype(self) -> torch.dtype:
        """The number type of the computation."""
        return self.reading.precision.dtype(len(self.kept.class_indices), self.reading.device)

    @cached_property
    def learner(self) -> InContextLearner:
        """The learning algorithm."""
        reading = self.reading
        return InContextLearner(
            prepared(reading.model, reading.device, self.dtype),
            num_draws=reading.num_draws,
            seed=reading.seed,
            chunk_size=reading.chunk_size,
            visibility=reading.visibility,
        )

    @cached_property
    def hypothesis(self) -> InContextHypothesis:
        """What the model made of the support."""
        kept = self.kept
        return self.learner.fit(self.support(self.features(kept.features), kept.class_indices))

    @cached_property
    def isolated(self) -> "FittedSupport":
        """The same support, asked one query at a time."""
        if self.reading.visibility.isolates_queries:
            return self
        return self.on(self.rows, visibility=Visibility.ISOLATED, class_shares=None)

    def on(self, rows: Rows, **changes: Any) -> "FittedSupport":  # noqa: ANN401 - any field
        """Read other rows in the same way, but for the changes."""
        return FittedSupport(rows, replace(self.reading, **changes))

    def support(self, features: Tensor, class_indices: NDArray[np.int64]) -> Support:
        """Build a support of one or more episodes from rows of this one."""
        indices = torch.from_numpy(class_indices).to(features.device)
        return Support(
            features=features.view(-1, *features.shape[-2:]),
            class_indices=indices.view(-1, features.shape[-2]),
            ways=self.rows.ways,
        )

    def features(self, array: NDArray[Any]) -> Tensor:
        """Bring rows to the model's device and number type.

        In single precision an offset would hide the features, and large ones would overflow: both
        are taken out before, as far as the model does not see it.
        """
        rows = torch.from_numpy(array)
        if self._scale is not None and rows.dtype == torch.float64:
            rows = self._scale(rows.unsqueeze(0)).squeeze(0)
        return rows.to(self.reading.device, self.dtype)

    @cached_property
    def _scale(self) -> FeatureScale | None:
        config = self.learner.model.config
        given = getattr(config, "normalisation", Normalisation.SUPPORT)
        if self.dtype == torch.float64 or given is not Normalisation.SUPPORT:
            return None
        kept = torch.from_numpy(self.kept.features).double().unsqueeze(0)
        scale = FeatureScale.of(kept, Normalisation.SUPPORT)
        return _with_origin(scale) if getattr(config, "angles_from_origin", False) else scale

    def log_probabilities(self, queries: NDArray[Any]) -> NDArray[np.float64]:
        """Answer queries (m, d_T): (m, K)."""
        answers = [
            self.hypothesis(self.features(part).unsqueeze(0)) for part in self._parts(queries)
        ]
        # In double precision, so that probabilities add up to one as callers expect.
        whole = torch.cat(answers, dim=1).double().log_softmax(dim=-1)
        if self.class_shares is not None:
            whole = impose_shares(whole, self.class_shares.to(whole.device))
        found: NDArray[np.float64] = whole[0].cpu().numpy()
        return found

    @cached_property
    def class_shares(self) -> Tensor | None:
        """How often each class occurs among rows that are answered together, (K,), if known."""
        return known_shares(self.reading.class_shares, self.rows.ways)

    def _parts(self, queries: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Give the queries that are answered together."""
        reading = self.reading
        if reading.visibility.isolates_queries:
            size = reading.chunk_size or queries_at_once(
                len(self.kept.class_indices), self.kept.ways
            )
        else:
            size = check_joint_call(len(queries), reading.max_support)
        for start in range(0, len(queries), size):
            yield queries[start : start + size]


def known_shares(given: str | ArrayLike | None, ways: int) -> Tensor | None:
    """Read the shares of K classes as users give them."""
    if given is None:
        return None
    if isinstance(given, str) and given == BALANCED:
        return torch.full((ways,), 1 / ways, dtype=torch.float64)
    try:
        shares = torch.as_tensor(np.asarray(given, dtype=np.float64))
    except (TypeError, ValueError):
        shares = torch.empty(0, dtype=torch.float64)
    fine = shares.shape == (ways,) and bool((shares > 0).all()) and bool(shares.isfinite().all())
    require(
        fine and abs(float(shares.sum()) - 1) < ROUNDING,
        "class_shares",
        got=given,
        allowed=f"None, '{BALANCED}', or {ways} numbers above 0 that add up to 1",
    )
    return shares


def _with_origin(scale: FeatureScale) -> FeatureScale:
    """Scale only, for models that see the origin; but let it be no farther than it is worth."""
    if not scale.scale.isfinite().all():  # all rows are equal
        return scale
    offset = scale.centre / scale.scale  # (1, 1, d_T)
    size = offset.pow(2).mean().sqrt()
    near = offset * (FARTHEST_ORIGIN / size).clamp_max(1)
    return replace(scale, centre=scale.centre - near * scale.scale)


def check_joint_call(num_queries: int, most: int | None) -> int:
    """Refuse more queries than can see each other in bounded memory."""
    if most is not None and num_queries > most:
        raise UserError(
            "so many rows that see each other do not fit into bounded memory",
            got=f"{num_queries} rows in one call",
            allowed=f"at most {most} (max_support), or any number with visibility='isolated'",
            remedy="Ask for fewer rows in a call, or raise max_support.",
        )
    return num_queries
