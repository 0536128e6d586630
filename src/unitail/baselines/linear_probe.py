"""Linear probe: a linear classifier trained on the frozen features of each support set.

The baseline of the paper's section 6.1, after Woerner and Baumgartner, *Navigating Data Scarcity
using Foundation Models*, 2024. The paper states no settings. Variant `paper` uses the fixed ones of
its first author's public benchmark (github.com/StefanoWoerner/medimeta-fsl-benchmark,
deploy_all_ft_test_fixedparams.py): a head that starts at zero, and 150 steps of Adam at 1e-4.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

import torch
import torch.nn.functional as F
from torch import Tensor

from unitail.baselines.logistic_regression import logistic_regression, with_constant
from unitail.errors import choice, require
from unitail.framework.episode import Support, check_finite, check_query_fits
from unitail.framework.learner import Paradigm

STEPS, LEARNING_RATE, BETAS, EPSILON = 150, 1e-4, (0.9, 0.999), 1e-8
"""Training settings of variant `paper`."""


class ProbeVariant(StrEnum):
    """How the classifier is trained, and on what."""

    PAPER = "paper"
    """Raw features, 150 steps of Adam from zero on the mean cross-entropy."""
    TUNED = "tuned"
    """Features centred by the support mean and of unit length, logistic regression."""
    SHRUNK = "shrunk"
    """As `tuned`, but of unit length before too, and centred by the James-Stein mean."""


@dataclass(frozen=True, eq=False)
class LinearClassifier:
    """log p(k | x) = log softmax_k(x W + b)."""

    support: Support
    variant: ProbeVariant
    weights: Tensor
    """W, with b as its last row: (B, d_T + 1, K)."""

    def __call__(self, query_features: Tensor) -> Tensor:
        """Apply the classifier to queries (B, m, d_T): log-probabilities (B, m, K)."""
        check_query_fits(self.support, query_features)
        check_finite(query_features, "query")
        query = _prepare(query_features, self.support, self.variant)
        return (with_constant(query) @ self.weights).log_softmax(dim=-1)


class LinearProbe:
    """A linear classifier trained anew on each support, batched over episodes.

    `strength` is scikit-learn's C, the weight of the loss against the penalty ||W||^2 / 2; variant
    `paper` ignores it. Its default was chosen on training data (results/probe_strength.md).
    """

    paradigm = Paradigm.EXPLICIT

    def __init__(
        self, variant: ProbeVariant = ProbeVariant.PAPER, *, strength: float = 1e4
    ) -> None:
        require(0 < strength < math.inf, "strength", got=strength, allowed="above 0 and finite")
        self.variant = choice(ProbeVariant, variant, "variant")
        self.strength = strength

    @torch.no_grad()
    def fit(self, support: Support) -> LinearClassifier:
        """Train one classifier for each episode."""
        support.check_values()
        features = _prepare(support.features, support, self.variant)
        targets = F.one_hot(support.class_indices, support.ways).to(features.dtype)  # (B, n, K)
        if self.variant is ProbeVariant.PAPER:
            weights = descend_by_adam(with_constant(features), targets)
        else:
            weights = logistic_regression(features, targets, self.strength)
        return LinearClassifier(support, self.variant, weights)

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        """Answer queries given the support: log-probabilities (B, m, K)."""
        return self.fit(support)(query_features)


def descend_by_adam(rows: Tensor, targets: Tensor) -> Tensor:
    """Train weights (B, d, K) from zero on the mean cross-entropy of rows (B, n, d).

    Adam (Kingma and Ba, 2015) as in `torch.optim.Adam`, with the gradient x^T (p - y) / n.
    """
    weights = rows.new_zeros(rows.shape[0], rows.shape[2], targets.shape[2])
    mean, square = torch.zeros_like(weights), torch.zeros_like(weights)
    for step in range(1, STEPS + 1):
        errors = (rows @ weights).softmax(dim=-1) - targets  # (B, n, K)
        gradient = rows.mT @ errors / rows.shape[1]
        mean.lerp_(gradient, 1 - BETAS[0])
        square.lerp_(gradient**2, 1 - BETAS[1])
        unbiased = mean / (1 - BETAS[0] ** step)
        scale = (square / (1 - BETAS[1] ** step)).sqrt() + EPSILON
        weights.addcdiv_(unbiased, scale, value=-LEARNING_RATE)
    return weights


def _prepare(features: Tensor, support: Support, variant: ProbeVariant) -> Tensor:
    """Return features as the variant needs them, in float32 or wider."""
    wide = torch.promote_types(features.dtype, torch.float32)
    rows, support_rows = features.to(wide), support.features.to(wide)
    match variant:
        case ProbeVariant.PAPER:
            return rows
        case ProbeVariant.TUNED:
            centre = support_rows.mean(dim=1, keepdim=True)
        case ProbeVariant.SHRUNK:
            rows, support_rows = F.normalize(rows, dim=-1), F.normalize(support_rows, dim=-1)
            centre = shrunk_mean(support_rows)
    return F.normalize(rows - centre, dim=-1)


def shrunk_mean(rows: Tensor) -> Tensor:
    """Return the James-Stein estimate of the mean behind rows (B, n, d): (B, 1, d).

    The mean of a few rows is a poor estimate of the encoder's mean. The James-Stein estimate is
    max(0, 1 - v / |mean|^2) mean, with v = sum_i |row_i - mean|^2 / (n - 1) / n the variance of the
    mean: near the origin where the mean may be chance, near the mean where it is significant.
    """
    count = rows.shape[1]
    mean = rows.mean(dim=1, keepdim=True)
    variance = (rows - mean).square().sum(dim=(1, 2), keepdim=True) / max(1, count - 1) / count
    length = mean.square().sum(dim=2, keepdim=True)
    return mean * (1 - variance / length.clamp(min=torch.finfo(rows.dtype).tiny)).clamp(min=0)
