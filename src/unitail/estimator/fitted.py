"""A support that is ready to answer: the rows, how they are read, and what was read."""

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
from unitail.nn.visibility import Visibility

BALANCED = "balanced"
"""The class shares of rows of which equally many are of each class."""
ROUNDING = 1e-6


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
        return self.learner.fit(self.support(kept.features, kept.class_indices))

    @cached_property
    def isolated(self) -> "FittedSupport":
        """The same support, asked one query at a time."""
        if self.reading.visibility.isolates_queries:
            return self
        return self.on(self.rows, visibility=Visibility.ISOLATED, class_shares=None)

    def on(self, rows: Rows, **changes: Any) -> "FittedSupport":  # noqa: ANN401 - any field
        """Read other rows in the same way, but for the changes."""
        return FittedSupport(rows, replace(self.reading, **changes))

    def support(self, features: NDArray[Any], class_indices: NDArray[np.int64]) -> Support:
        """Build a support of one or more episodes from rows of this one."""
        rows = torch.from_numpy(features)
        return Support(
            features=rows.view(-1, *rows.shape[-2:]),
            class_indices=torch.from_numpy(class_indices).view(-1, rows.shape[-2]),
            ways=self.rows.ways,
        )

    def log_probabilities(self, queries: NDArray[Any]) -> NDArray[np.float64]:
        """Answer queries (m, d_T): (m, K)."""
        if not self.reading.visibility.isolates_queries:
            check_joint_call(len(queries), self.reading.max_support)
        # In double precision, so that probabilities add up to one as callers expect.
        answers = self.hypothesis(torch.from_numpy(queries).unsqueeze(0)).double()
        answers = answers.log_softmax(dim=-1)
        if self.class_shares is not None:
            answers = impose_shares(answers, self.class_shares.to(answers.device))
        result: NDArray[np.float64] = answers[0].cpu().numpy()
        return result

    @cached_property
    def class_shares(self) -> Tensor | None:
        """How often each class occurs among rows that are answered together, (K,), if known."""
        return known_shares(self.reading.class_shares, self.rows.ways)


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
