"""Multinomial logistic regression for a batch of data sets at once, without a line search.

scikit-learn's has the same minimum, as tests check, but fits one data set at a time in one process
on a CPU. A benchmark has thousands of small data sets. In batches, on the device of the features,
they take a fraction of the time.

The directions are those of L-BFGS (Liu and Nocedal, *On the limited memory BFGS method for large
scale optimization*, 1989); the step comes from the curvature of softmax, as in Bach,
*Self-concordant analysis for logistic regression*, 2010.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from unitail.errors import CannotSolve

MAX_STEPS = 50_000
"""Largest number of steps. Dozens are usual; with a large C and overlapping classes, thousands."""
MEMORY = 10
"""Number of past steps in the L-BFGS direction."""
ROUNDING = 32
"""A gradient below this many times the rounding of its terms counts as zero."""


def logistic_regression(features: Tensor, targets: Tensor, strength: float) -> Tensor:
    """Minimise C sum_i -log softmax_(y_i)(x_i W + b) + ||W||^2 / 2, as scikit-learn does.

    `features` (B, n, d) are x, of unit length or shorter; `targets` (B, n, K) are y as one-hot
    rows; `strength` is C. Returns W with b as its last row: (B, d + 1, K).

    With two classes scikit-learn fits the single vector w = W_1 - W_0 with penalty ||w||^2 / 2. The
    smallest ||W||^2 for this difference is ||w||^2 / 2, at W = (-w/2, w/2), so half of C gives the
    same w.
    """
    rows, ways = targets.shape[1:]
    if ways == 2:
        strength /= 2
    # W is zero outside the span of the rows, where it would cost a penalty and change no answer.
    basis, coordinates = torch.linalg.qr(features.mT)  # (B, d, r), (B, r, n)
    # With this constant the curvature for b is that of the penalty for W at the start, p = 1/K.
    constant = (1 + ways / (strength * rows)) ** 0.5
    minimum = _minimise(Objective(with_constant(coordinates.mT, constant), targets, strength))
    return torch.cat([basis @ minimum[:, :-1], constant * minimum[:, -1:]], dim=1)


def with_constant(features: Tensor, constant: float = 1.0) -> Tensor:
    """Append a constant feature, whose weight is the intercept."""
    return F.pad(features, (0, 1), value=constant)


@dataclass(frozen=True, eq=False)
class Objective:
    """The objective, as a function of weights (B, r + 1, K) whose last row is the intercept."""

    rows: Tensor
    """The features, the last of them constant: (B, n, r + 1)."""
    targets: Tensor
    """The classes as one-hot rows, (B, n, K)."""
    strength: float
    """C, for softmax."""

    def errors(self, probabilities: Tensor) -> Tensor:
        """Return C (p - y), (B, n, K), with 1 - p of the true class summed from the others."""
        others = probabilities * (1 - self.targets)  # a sum, as 1 - p would cancel
        return self.strength * (others - self.targets * others.sum(dim=-1, keepdim=True))

    def gradient(self, weights: Tensor, errors: Tensor) -> Tensor:
        """Return C x^T (p - y) + W, and for b the same without a penalty: (B, r + 1, K)."""
        return self.rows.mT @ errors + _penalised(weights)

    def tolerance(self, errors: Tensor) -> Tensor:
        """Return the largest norm of a gradient that counts as zero: (B, 1, 1).

        The rounding errors of n terms add up to their root sum of squares, or to sqrt(n) times that
        if rows are equal. The distance of W from the minimum is at most the norm of the gradient,
        as the penalty alone gives the objective a curvature of 1.
        """
        longest: Tensor = self.rows[:, :1, -1:] * _norm(errors)
        rounding = ROUNDING * torch.finfo(errors.dtype).eps * (1 + self.rows.shape[1] ** 0.5)
        return longest * float(rounding)

    def safe_step(
        self, probabilities: Tensor, slope: Tensor, direction: Tensor, change: Tensor
    ) -> Tensor:
        """Return a step along a direction D over which the objective certainly falls: (B, 1, 1).

        Let f(t) be the objective at W + t D; `slope` is f'(0) and `change` is u = x D. Then f'' is
        D's penalty plus C times the sum of the variances of u_i under p_i, and f''' is C times the
        sum of the third central moments. Each of these is at most the range of u_i times the
        variance, so f''' <= M f'' with M the largest range. Hence f''(t) <= f''(0) e^(M t), and

            f'(t) <= f'(0) + f''(0) (e^(M t) - 1) / M,

        which is below zero up to t = log(1 - M f'(0) / f''(0)) / M. Near the minimum M goes to zero
        and t to Newton's -f'(0) / f''(0).
        """
        span = (change.amax(dim=-1) - change.amin(dim=-1)).amax(dim=-1)[:, None, None]
        span = span.clamp(min=torch.finfo(span.dtype).eps)  # a larger M is valid too
        spread = change - (probabilities * change).sum(dim=-1, keepdim=True)
        curvature = self.strength * _inner(probabilities, spread**2)
        curvature = curvature + _inner(_penalised(direction), direction)
        return torch.log1p(-span * slope / curvature) / span


def _minimise(objective: Objective) -> Tensor:
    """Minimise from zero until every episode's gradient counts as zero.

    Each step lowers the objective of its episode. Episodes that have converged do not change.
    """
    rows, targets = objective.rows, objective.targets
    weights = rows.new_zeros(rows.shape[0], rows.shape[2], targets.shape[2])
    logits = torch.zeros_like(targets)
    moved = previous = weights
    pairs: deque[_Pair] = deque(maxlen=MEMORY)
    for _ in range(MAX_STEPS):
        probabilities = logits.softmax(dim=-1)
        errors = objective.errors(probabilities)
        gradient = objective.gradient(weights, errors)
        active = _norm(gradient) > objective.tolerance(errors)  # (B, 1, 1)
        if not active.any():
            return weights
        pairs.append(_Pair.of(moved, gradient - previous))
        direction = _direction(gradient, pairs)
        change, slope = rows @ direction, _inner(gradient, direction)
        step = objective.safe_step(probabilities, slope, direction, change)
        step = torch.where(active, step, 0)
        moved, previous = step * direction, gradient
        weights, logits = weights + moved, logits + step * change
    raise CannotSolve(
        "logistic regression did not converge",
        got=f"gradients up to {float(_norm(gradient).max()):.1e} after {MAX_STEPS} steps",
        allowed=f"{float(objective.tolerance(errors).max()):.1e}",
        remedy="Choose a smaller strength.",
    )


@dataclass(frozen=True, eq=False)
class _Pair:
    """A past step: weights changed by s, and so the gradient by y, which shows the curvature."""

    moved: Tensor
    """s, (B, r + 1, K)."""
    change: Tensor
    """y, (B, r + 1, K)."""
    weight: Tensor
    """1 / <s, y>, and 0 where there was no step: (B, 1, 1)."""
    scale: Tensor
    """<s, y> / <y, y>, the inverse curvature along y: (B, 1, 1)."""

    @classmethod
    def of(cls, moved: Tensor, change: Tensor) -> Self:
        """Make the pair of a step. As the objective is convex, <s, y> > 0 except for rounding."""
        along = _inner(moved, change)
        weight = torch.where(along > 0, 1 / along, 0)
        return cls(moved, change, weight, along / _inner(change, change))


def _direction(gradient: Tensor, pairs: Sequence[_Pair]) -> Tensor:
    """Return -H g, with H the inverse curvature from the pairs, latest last: (B, r + 1, K)."""
    uphill, shares = gradient, []
    for pair in reversed(pairs):
        share = pair.weight * _inner(pair.moved, uphill)
        uphill = torch.addcmul(uphill, share, pair.change, value=-1)
        shares.append(share)
    uphill = pairs[-1].scale * uphill
    for pair, share in zip(pairs, reversed(shares), strict=True):
        correction = share - pair.weight * _inner(pair.change, uphill)
        uphill = torch.addcmul(uphill, correction, pair.moved)
    # By rounding it may point downhill, and before the first step it is NaN.
    return -torch.where(_inner(uphill, gradient) > 0, uphill, gradient)


def _penalised(weights: Tensor) -> Tensor:
    """Return the weights with the intercept set to zero."""
    return F.pad(weights[:, :-1], (0, 0, 0, 1))


def _inner(left: Tensor, right: Tensor) -> Tensor:
    """Return the inner product in each episode, (B, 1, 1)."""
    return (left * right).sum(dim=(1, 2), keepdim=True)


def _norm(values: Tensor) -> Tensor:
    """Return the norm in each episode, (B, 1, 1)."""
    lengths: Tensor = torch.linalg.vector_norm(values, dim=(1, 2), keepdim=True)
    return lengths
