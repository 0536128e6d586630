r"""Vectors of several encoders side by side: each part answers by itself, and answers multiply.

With the P parts of a row x, and the classes' shares s in the support,

    log p(k | x) = log s_k + (1 / √P) Σ_p [log p_p(k | x) - log s_k] + constant

What stands in brackets is what a part adds to the shares. Parts that err independently of each
other given the class would have it summed up (Bayes' rule), parts that all say the same would have
it averaged, 1 / P; real ones are in between, and so is 1 / √P (results/mixed_parts.md). A part that
tells no class from another adds nothing, whatever it looks like; in one common distance between
rows it would blur what the others say.
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
    """f_S of each part, and what they say together."""

    each: tuple[InContextHypothesis, ...]
    widths: tuple[int, ...]
    log_shares: Tensor
    """Of the classes in the supports, (B, 1, K)."""

    @property
    def model(self) -> AnyModel:
        """The model, which all parts share."""
        return self.each[0].model

    def __call__(self, query_features: Tensor) -> Tensor:
        """Answer queries: (B, m, d_T) -> log (B, m, K)."""
        parts = _split(query_features, self.widths)
        said = [part(features) for part, features in zip(self.each, parts, strict=True)]
        return multiplied(said, self.log_shares.to(said[0]))

    def contributions(self, query_features: Tensor, classes: Tensor) -> Tensor:
        """Say what each labelled row adds to the scores of classes (B, m): (B, m, n)."""
        parts = _split(query_features, self.widths)
        each = zip(self.each, parts, strict=True)
        added = [part.contributions(features, classes) for part, features in each]
        return torch.stack(added).sum(dim=0) / math.sqrt(len(added))


@dataclass(frozen=True, eq=False)
class PartsLearner:
    """A learner that reads each part by itself."""

    learner: InContextLearner
    widths: tuple[int, ...]
    """The columns of each part, in their order."""

    @property
    def model(self) -> AnyModel:
        """The model, which all parts share."""
        return self.learner.model

    def fit(self, support: Support, pool: Tensor | None = None) -> PartsHypothesis:
        """Read the parts of the support, and of unlabelled rows."""
        check_widths(self.widths, support.feature_dim)
        columns = _split(support.features, self.widths)
        pools = [None] * len(columns) if pool is None else list(_split(pool, self.widths))
        each = tuple(
            self.learner.fit(replace(support, features=features), beside)
            for features, beside in zip(columns, pools, strict=True)
        )
        members = F.one_hot(support.class_indices, support.ways).double()
        return PartsHypothesis(each, self.widths, members.mean(dim=1, keepdim=True).log())

    def infer(self, support: Support, query_features: Tensor, pool: Tensor | None = None) -> Tensor:
        """Answer queries given the support, and a pool: log-probabilities (B, m, K)."""
        return self.fit(support, pool)(query_features)


def multiplied(said: Sequence[Tensor], log_shares: Tensor) -> Tensor:
    """Join the log-probabilities (B, m, K) of P parts, given the shares (B, 1, K) of classes."""
    added = torch.stack([each - log_shares for each in said]).sum(dim=0)
    return (log_shares + added / math.sqrt(len(said))).log_softmax(dim=-1)


def split_columns(rows: NDArray[Any], widths: tuple[int, ...]) -> list[NDArray[Any]]:
    """Return the columns of each part, of rows (m, d_T)."""
    return np.split(rows, np.cumsum(widths)[:-1], axis=1)


def check_widths(widths: tuple[int, ...], width: int) -> None:
    """Refuse parts that are not as wide as the vectors."""
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
    """Read the widths of parts as users give them."""
    widths = np.asarray(parts)
    require(
        widths.ndim == 1 and len(widths) > 1 and widths.dtype.kind in "iu" and widths.min() > 0,
        "parts",
        got=repr(parts),
        allowed="None, or the columns of two parts or more, such as [1280, 384]",
    )
    return tuple(map(int, widths))
