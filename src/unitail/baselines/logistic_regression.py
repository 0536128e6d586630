"""Multinomial logistic regression for a batch of data sets at once, without a line search.

The directions are those of Hager and Zhang, *A New Conjugate Gradient Method with Guaranteed
Descent and an Efficient Line Search*, 2005; the step comes from the curvature of softmax, as in
Bach, *Self-concordant analysis for logistic regression*, 2010.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unitail.errors import CannotSolve

MAX_STEPS = 10_000
"""The most steps. Dozens are usual, thousands are needed where C is large and classes overlap."""
ROUNDING = 32
"""How far above the rounding of its terms a gradient may be and yet count as zero."""


def logistic_regression(features: Tensor, targets: Tensor, strength: float) -> Tensor:
    """Minimise C sum_i -log softmax_(y_i)(x_i W + b) + ||W||^2 / 2, as scikit-learn does.

    `features` (B, n, d) are x, of unit length or shorter; `targets` (B, n, K) are y as one-hot
    rows; `strength` is C. Returns W with b as its last row: (B, d + 1, K).

    With two classes scikit-learn fits the one vector w = W_1 - W_0 under ||w||^2 / 2. The least
    ||W||^2 with this difference is ||w||^2 / 2, at W = (-w/2, w/2): half of C gives the same w.
    """
    rows, ways = targets.shape[1:]
    if ways == 2:
        strength /= 2
    # What W has outside the span of the rows changes no answer and costs penalty: it is zero.
    basis, coordinates = torch.linalg.qr(features.mT)  # (B, d, r), (B, r, n)
    # At the start p = 1/K: this constant bends the objective for b as the penalty does for W.
    constant = (1 + ways / (strength * rows)) ** 0.5
    found = _minimise(Objective(with_constant(coordinates.mT, constant), targets, strength))
    return torch.cat([basis @ found[:, :-1], constant * found[:, -1:]], dim=1)


def with_constant(features: Tensor, constant: float = 1.0) -> Tensor:
    """Append a constant feature, whose weight is the intercept."""
    return F.pad(features, (0, 1), value=constant)


@dataclass(frozen=True, eq=False)
class Objective:
    """What is minimised, as a function of weights (B, r + 1, K) whose last row is the intercept."""

    rows: Tensor
    """The features, the last of them constant: (B, n, r + 1)."""
    targets: Tensor
    """The classes as one-hot rows, (B, n, K)."""
    strength: float
    """C, for softmax."""

    def errors(self, probabilities: Tensor) -> Tensor:
        """C (p - y), (B, n, K); 1 - p of the true class is the sum of the others: none cancels."""
        others = probabilities * (1 - self.targets)
        return self.strength * (others - self.targets * others.sum(dim=-1, keepdim=True))

    def gradient(self, weights: Tensor, errors: Tensor) -> Tensor:
        """C x^T (p - y) + W, and for b the same without a penalty: (B, r + 1, K)."""
        return self.rows.mT @ errors + _penalised(weights)

    def tolerance(self, errors: Tensor) -> Tensor:
        """How long a gradient may be and yet count as zero: (B, 1, 1).

        Rounding of n terms adds up to their root sum of squares times 1, or sqrt(n) if rows are
        alike. W is no further from the minimum than the gradient is long, as the penalty alone
        bends the objective by 1.
        """
        longest = self.rows[:, :1, -1:] * _norm(errors)
        rounding = torch.finfo(errors.dtype).eps * (1 + self.rows.shape[1] ** 0.5)
        return ROUNDING * rounding * longest

    def safe_step(
        self, probabilities: Tensor, slope: Tensor, direction: Tensor, change: Tensor
    ) -> Tensor:
        """How far the objective surely falls along a direction D: (B, 1, 1).

        Let f(t) be the objective at W + t D; `slope` is f'(0) and `change` is u = x D. Then f'' is
        D's penalty plus C times the sum of the variances of u_i under p_i, and f''' is C times the
        sum of the third central moments. Each of these is at most the range of u_i times the
        variance, so f''' <= M f'' with M the largest range. Hence f''(t) <= f''(0) e^(M t), and

            f'(t) <= f'(0) + f''(0) (e^(M t) - 1) / M,

        which is below zero up to t = log(1 - M f'(0) / f''(0)) / M. Near the minimum M goes to zero
        and t to Newton's -f'(0) / f''(0).
        """
        span = (change.amax(dim=-1) - change.amin(dim=-1)).amax(dim=-1)[:, None, None]
        span = span.clamp(min=torch.finfo(span.dtype).eps)  # any larger M is as true
        spread = change - (probabilities * change).sum(dim=-1, keepdim=True)
        curvature = self.strength * _inner(probabilities, spread**2)
        curvature = curvature + _inner(_penalised(direction), direction)
        return torch.log1p(-span * slope / curvature) / span


def _minimise(objective: Objective) -> Tensor:
    """Go downhill from zero until every episode's gradient counts as zero.

    Each step lowers the objective of its episode; one that is done does not change any more.
    """
    rows, targets = objective.rows, objective.targets
    weights = rows.new_zeros(rows.shape[0], rows.shape[2], targets.shape[2])
    logits = torch.zeros_like(targets)
    direction = previous = torch.zeros_like(weights)
    for _ in range(MAX_STEPS):
        probabilities = logits.softmax(dim=-1)
        errors = objective.errors(probabilities)
        gradient = objective.gradient(weights, errors)
        active = _norm(gradient) > objective.tolerance(errors)  # (B, 1, 1)
        if not active.any():
            return weights
        direction = _conjugate(direction, gradient, previous)
        change, slope = rows @ direction, _inner(gradient, direction)
        step = objective.safe_step(probabilities, slope, direction, change)
        step = torch.where(active, step, 0)
        weights, logits = weights + step * direction, logits + step * change
        previous = gradient
    raise CannotSolve(
        "logistic regression did not come to its minimum",
        got=f"gradients up to {float(_norm(gradient).max()):.1e} after {MAX_STEPS} steps",
        allowed=f"{float(objective.tolerance(errors).max()):.1e}",
        remedy="Choose a smaller strength, or features in float64.",
    )


def _conjugate(direction: Tensor, gradient: Tensor, previous: Tensor) -> Tensor:
    """Return the next direction, downhill whatever the last step was: D' = -g + max(beta, 0) D.

    beta = <y - 2 D ||y||^2 / <D, y>, g> / <D, y>, with y the change of the gradient g.
    """
    change = gradient - previous
    along = _inner(direction, change)
    ahead = change - 2 * direction * _inner(change, change) / along
    beta = (_inner(ahead, gradient) / along).clamp(min=0)
    found = beta * direction - gradient
    # It falls by 7/8 ||g||^2 or more, but for rounding. NaN, as before the first step, is refused.
    falls = -_inner(found, gradient) > _inner(gradient, gradient) / 2
    return torch.where(falls, found, -gradient)


def _penalised(weights: Tensor) -> Tensor:
    """Return the weights without the intercept, whose place is zero."""
    return F.pad(weights[:, :-1], (0, 0, 0, 1))


def _inner(left: Tensor, right: Tensor) -> Tensor:
    """Return the inner product in each episode, (B, 1, 1)."""
    return (left * right).sum(dim=(1, 2), keepdim=True)


def _norm(values: Tensor) -> Tensor:
    """Return the length in each episode, (B, 1, 1)."""
    return torch.linalg.vector_norm(values, dim=(1, 2), keepdim=True)
