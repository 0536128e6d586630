"""ProtoHead: prototypes on frozen features.

Snell, Swersky and Zemel, *Prototypical Networks for Few-shot Learning*, 2017, without its trained
encoder.
"""

from dataclasses import dataclass
from enum import StrEnum

import torch
import torch.nn.functional as F
from torch import Tensor

from unitail.errors import choice
from unitail.framework.episode import Support, check_finite, check_query_fits
from unitail.framework.learner import Paradigm


class PrototypeVariant(StrEnum):
    """How features are compared with class means."""

    PAPER = "paper"
    """Raw features, squared Euclidean distance."""
    CENTRED = "centred"
    """Features centred by the support mean and of unit length, cosine."""


@dataclass(frozen=True, eq=False)
class Prototypes:
    """log p(k | x) = log softmax_k of the similarity of x to the mean of class k."""

    support: Support
    variant: PrototypeVariant
    sharpness: float

    def __call__(self, query_features: Tensor) -> Tensor:
        """Compare queries (B, m, d_T) with the prototypes: log-probabilities (B, m, K)."""
        check_query_fits(self.support, query_features)
        check_finite(query_features, "query")
        query = self._prepare(query_features)
        means = class_means(self._prepare(self.support.features), self.support)  # (B, K, d_T)
        if self.variant is PrototypeVariant.PAPER:
            # The faster form, by products, suffers from cancellation where features have an offset.
            distance = torch.cdist(query, means, compute_mode="donot_use_mm_for_euclid_dist")
            similarity = -distance.pow(2)
        else:
            similarity = self.sharpness * query @ F.normalize(means, dim=-1).mT
        return similarity.log_softmax(dim=-1)

    def _prepare(self, features: Tensor) -> Tensor:
        # Centring changes no distance, and reduces rounding.
        wide = torch.promote_types(features.dtype, torch.float32)
        centred = features.to(wide) - self.support.features.to(wide).mean(dim=1, keepdim=True)
        return centred if self.variant is PrototypeVariant.PAPER else F.normalize(centred, dim=-1)


class ProtoHead:
    """The nearest class mean, batched over episodes."""

    paradigm = Paradigm.EXPLICIT

    def __init__(
        self, variant: PrototypeVariant = PrototypeVariant.PAPER, *, sharpness: float = 10.0
    ) -> None:
        self.variant = choice(PrototypeVariant, variant, "variant")
        self.sharpness = sharpness
        """Factor on cosines before the softmax; it changes probabilities, but no decision."""

    def fit(self, support: Support) -> Prototypes:
        """Store the support; class means are cheap enough to compute for each query batch."""
        support.check_values()
        return Prototypes(support, self.variant, self.sharpness)

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        """Answer queries given the support: log-probabilities (B, m, K)."""
        return self.fit(support)(query_features)


def class_means(features: Tensor, support: Support) -> Tensor:
    """Return the mean of the rows (B, n, d) of each class: (B, K, d)."""
    member = F.one_hot(support.class_indices, support.ways).to(features.dtype)  # (B, n, K)
    return member.mT @ features / member.sum(dim=1).unsqueeze(-1)
