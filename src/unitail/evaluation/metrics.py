"""Metrics of predicted probabilities; accuracy is in `framework.task`."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from unitail.framework.task import log_loss

BINS = 15
"""Number of equal-width confidence bins for calibration."""


def negative_log_likelihood(log_probabilities: Tensor, class_indices: Tensor) -> Tensor:
    """Mean of -log p(y) over the queries of each episode: (B, m, K), (B, m) -> (B,)."""
    return log_loss(log_probabilities, class_indices).mean(dim=-1)


def brier_score(log_probabilities: Tensor, class_indices: Tensor) -> Tensor:
    """Mean of sum_k (p_k - [y = k])² over the queries: (B, m, K), (B, m) -> (B,)."""
    truth = F.one_hot(class_indices, log_probabilities.shape[-1])
    return (log_probabilities.exp() - truth).square().sum(dim=-1).mean(dim=-1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """Predictions binned by confidence, the predicted class's probability; instances add up."""

    counts: NDArray[np.int64]
    """Number of predictions in each bin, (BINS,)."""
    confidence: NDArray[np.float64]
    """Sum of their confidences, (BINS,)."""
    correct: NDArray[np.int64]
    """Number of correct ones among them, (BINS,)."""

    @classmethod
    def empty(cls) -> Self:
        """Return the calibration of zero predictions."""
        return cls(
            counts=np.zeros(BINS, np.int64),
            confidence=np.zeros(BINS),
            correct=np.zeros(BINS, np.int64),
        )

    @classmethod
    def of(cls, log_probabilities: Tensor, class_indices: Tensor) -> Self:
        """Bin the predictions (..., K) for queries with true classes (...)."""
        highest, predicted = (each.flatten() for each in log_probabilities.double().max(dim=-1))
        confidence = highest.exp().numpy()
        is_correct = (predicted == class_indices.flatten()).numpy()
        places = np.clip((confidence * BINS).astype(np.int64), 0, BINS - 1)
        return cls(
            counts=np.bincount(places, minlength=BINS),
            confidence=np.bincount(places, confidence, minlength=BINS).astype(np.float64),
            correct=np.bincount(places[is_correct], minlength=BINS),
        )

    def __add__(self, other: Self) -> Self:
        return type(self)(
            counts=self.counts + other.counts,
            confidence=self.confidence + other.confidence,
            correct=self.correct + other.correct,
        )

    @property
    def error(self) -> float:
        """Expected calibration error: mean |accuracy - confidence| of the predictions' bins."""
        total = self.counts.sum()
        return float(np.abs(self.correct - self.confidence).sum() / total) if total else np.nan
