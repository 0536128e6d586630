r"""Vectors of several encoders side by side: parts are classified separately, and multiplied.

With the P parts of a row x, and the class shares s in the support,

    log p(k | x) = log s_k + (1 / √P) Σ_p [log p_p(k | x) - log s_k] + constant

The term in brackets is the evidence of a part beyond the shares. For parts that are independent
given the class, evidence should be summed (Bayes' rule); for parts that are copies of each other,
it should be averaged, with 1 / P. Real parts are in between, and so is 1 / √P
(results/mixed_parts.md). A part that cannot separate the classes adds nothing, whatever its values;
in a common distance between rows it would add noise to the other parts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from unitail.errors import WrongWidth, require
from unitail.framework.episode import Support
from unitail.learners.in_context import InContextHypothesis, InContextLearner
from unitail.nn.episode_model import AnyModel


@dataclass(frozen=True, eq=False)
class PartsHypothesis:
    """f_S of each part, combined."""

    each: tuple[InContextHypothesis, ...]
    widths: tuple[int, ...]
    log_shares: Tensor
    """Log shares of the classes in the supports, (B, 1, K)."""

    @property
    def model(self) -> AnyModel:
        """The model, which all parts share."""
        return self.each[0].model

    def __call__(self, query_features: Tensor) -> Tensor:
        """Return log-probabilities (B, m, K) of queries (B, m, d_T)."""
        parts = _split(query_features, self.widths)
        answers = [part(features) for part, features in zip(self.each, parts, strict=True)]
        return multiplied(answers, self.log_shares.to(answers[0]))

    def contributions(self, query_features: Tensor, classes: Tensor) -> Tensor:
        """Return each labelled row's contribution to the scores of classes (B, m): (B, m, n)."""
        parts = _split(query_features, self.widths)
        pairs = zip(self.each, parts, strict=True)
        values = [part.contributions(features, classes) for part, features in pairs]
        return torch.stack(values).sum(dim=0) / math.sqrt(len(values))


@dataclass(frozen=True, eq=False)
class PartsLearner:
    """A learner that reads each part separately."""

    learner: InContextLearner
    widths: tuple[int, ...]
    """Number of columns of each part, in order."""

    @property
    def model(self) -> AnyModel:
        """The model, which all parts share."""
        return self.learner.model

    def fit(self, support: Support, pool: Tensor | None = None) -> PartsHypothesis:
        """Read the parts of the support, and of the pool of unlabelled rows."""
        check_widths(self.widths, support.feature_dim)
        parts = _split(support.features, self.widths)
        pools = [None] * len(parts) if pool is None else list(_split(pool, self.widths))
        each = tuple(
            self.learner.fit(replace(support, features=features), unlabelled)
            for features, unlabelled in zip(parts, pools, strict=True)
        )
        members = F.one_hot(support.class_indices, support.ways).double()
        return PartsHypothesis(each, self.widths, members.mean(dim=1, keepdim=True).log())

    def infer(self, support: Support, query_features: Tensor, pool: Tensor | None = None) -> Tensor:
        """Return log-probabilities (B, m, K) of queries, given a support and optionally a pool."""
        return self.fit(support, pool)(query_features)


def multiplied(answers: Sequence[Tensor], log_shares: Tensor) -> Tensor:
    """Combine the log-probabilities (B, m, K) of P parts, given log class shares (B, 1, K)."""
    evidence = torch.stack([answer - log_shares for answer in answers]).sum(dim=0)
    return (log_shares + evidence / math.sqrt(len(answers))).log_softmax(dim=-1)


def split_columns(rows: NDArray[Any], widths: tuple[int, ...]) -> list[NDArray[Any]]:
    """Split rows (m, d_T) into the columns of each part."""
    return np.split(rows, np.cumsum(widths)[:-1], axis=1)


def check_widths(widths: tuple[int, ...], width: int) -> None:
    """Refuse parts whose widths do not sum to the width of the vectors."""
    if sum(widths) != width:
        raise WrongWidth(
            "the parts are not as wide as the vectors",
            got=f"parts of {', '.join(map(str, widths))} columns, vectors of {width}",
            allowed="parts that add up to the vectors",
            remedy="Give the columns of each part, in their order.",
        )


def _split(features: Tensor, widths: tuple[int, ...]) -> tuple[Tensor, ...]:
    return torch.split(features, list(widths), dim=-1)


AnyLearner: TypeAlias = InContextLearner | PartsLearner
AnyHypothesis: TypeAlias = InContextHypothesis | PartsHypothesis


def checked_parts(parts: object) -> tuple[int, ...]:
    """Validate the user's `parts`, and return them as a tuple."""
    widths = np.asarray(parts)
    require(
        widths.ndim == 1 and len(widths) > 1 and widths.dtype.kind in "iu" and widths.min() > 0,
        "parts",
        got=repr(parts),
        allowed="None, or the columns of two parts or more, such as [1280, 384]",
    )
    return tuple(map(int, widths))
