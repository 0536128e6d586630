r"""What each labelled row adds to an answer.

The first answer is a sum over labelled rows. In a ridge regression with P = (G + lambda I)^-1, row
j adds (g_x P)_j times its centred label. A logistic regression is, at its end, the ridge regression
of `relational/regressions.py` with N = (G + lambda / w)^-1 and targets Z = S + lambda A / w, so row
j adds (g_x N)_j Z_j. Both are exact.

The correction by the blocks is not a sum. Scale all that the query x receives from row j, through
heads and operators, by e_j, and let every e_j grow from 0 to 1. Then row j adds

    integral over e from 0 to 1 of  d correction / d e_j  at (e, ..., e),

and all rows together add the difference between e = 1 and e = 0 (Aumann-Shapley prices; *integrated
gradients* of Sundararajan, Taly and Yan, 2017). Three parts belong to no labelled row: the
correction at e = 0, the share of a pool, and the error of the quadrature with `NODES` nodes. Scores
are relative to the mean over classes, as a shift of all scores changes no answer.

The kernel representation, g_x(j) A_j, is a sum as well, but predicts less of what leaving j out
would change (docs/experiments.md).
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from unitail.relational.geometry import Centre
from unitail.relational.regressions import (
    NUM_RIDGES,
    CandidateWeights,
    constants,
    expand_to_all_penalties,
    regularised,
    row_penalties,
    stack_kernels,
)
from unitail.relational.relations import Frame, largest_score

NODES = 4
"""Number of nodes of the Gauss-Legendre quadrature."""

Correction = Callable[[Tensor], Tensor]
"""Maps the scale of each seen row for each query, (B, m, seen), to corrections (B, m, K)."""


def contributions(
    frame: Frame, weights: CandidateWeights, features: Tensor, classes: Tensor, correct: Correction
) -> Tensor:
    """Return what labelled rows add to the scores of classes (B, m) for queries (B, m, d_T)."""
    values = _first_answer(frame, weights, features, classes)
    ones = torch.ones(*classes.shape, frame.geometry.vectors.shape[1]).to(values)
    slopes = integrated_slopes(correct, ones, classes)
    return values + slopes[..., : values.shape[2]]


def integrated_slopes(correct: Correction, ones: Tensor, classes: Tensor) -> Tensor:
    """Return what each seen row adds to the correction of classes (B, m): (B, m, seen).

    `ones` (B, m, seen) are the full scales, the end of the integral.
    """
    slopes = torch.zeros_like(ones)
    for node, weight in zip(*_quadrature(), strict=True):
        slopes += weight * _slope(correct, node * ones, classes)
    return slopes


def _first_answer(
    frame: Frame, weights: CandidateWeights, features: Tensor, classes: Tensor
) -> Tensor:
    """Return what rows add to the first answer: (B, m, n)."""
    row_weights, targets = _weights_and_targets(frame, features)
    scores = row_weights @ targets / frame.units  # (B, candidates, m, K)
    limit = largest_score(scores.shape[3])
    clipped = scores.clamp(-limit, limit)
    # Where a score is clipped, the contributions of all rows shrink by the same factor.
    index = classes.unsqueeze(1).expand(-1, scores.shape[1], -1).unsqueeze(-1)
    raw, used = scores.gather(3, index), clipped.gather(3, index)
    factors = torch.where(raw == used, 1, used / raw) * weights.factors[:, :, None, None]
    index = classes.unsqueeze(1).expand(-1, targets.shape[2], -1)  # (B, n, m)
    values = torch.zeros_like(row_weights[:, 0])
    for number in range(scores.shape[1]):
        target = targets[:, number].gather(2, index).mT  # (B, m, n)
        values += factors[:, number] / frame.units[:, number] * row_weights[:, number] * target
    return values


def _weights_and_targets(frame: Frame, features: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weights of rows in each candidate's scores, and their targets.

    Weights are g_x P or g_x N, (B, candidates, m, n); targets are labels or Z, relative to the mean
    over classes, (B, candidates, n, K).
    """
    n, ways = frame.labels.shape[1:]
    among_seen, compared = frame.geometry.compare_seen(), frame.geometry.compare(features)
    gram = stack_kernels(among_seen, n)[:, :, :n]
    ridges = _solve(regularised(gram), stack_kernels(compared, n))
    labels = (frame.labels - 1 / ways).unsqueeze(1).expand(-1, NUM_RIDGES, -1, -1)

    gram = among_seen.cosines[Centre.DIRECTION][:, :n, :n]
    coefficients = frame.regressions.coefficients
    scores = frame.regressions.scores(gram)
    fitted = constants(frame.regressions.penalties, gram).view(-1, 1, 1)
    penalties = row_penalties(scores, fitted)
    regular = gram.unsqueeze(1) + torch.diag_embed(penalties)
    kernel = compared.cosines[Centre.DIRECTION][..., :n].unsqueeze(1)
    logistic = _solve(regular, kernel.expand(-1, len(fitted), -1, -1))
    targets = scores + penalties.unsqueeze(-1) * coefficients
    targets = targets - targets.mean(dim=3, keepdim=True)
    logistic, targets = expand_to_all_penalties(logistic), expand_to_all_penalties(targets)
    return torch.cat([logistic, ridges], dim=1), torch.cat([targets, labels], dim=1)


def _solve(regular: Tensor, kernels: Tensor) -> Tensor:
    """Return kernels (..., m, n) times the inverse of regular (..., n, n), in double precision."""
    factors = torch.linalg.cholesky(regular.double())
    return torch.cholesky_solve(kernels.mT.double(), factors).mT.to(kernels)


def _above_mean(scores: Tensor, classes: Tensor) -> Tensor:
    """Return the scores (B, m, K) of one class each, minus the mean over classes: (B, m)."""
    return scores.gather(2, classes.unsqueeze(2)).squeeze(2) - scores.mean(dim=2)


def _slope(correct: Correction, scale: Tensor, classes: Tensor) -> Tensor:
    """Return the derivative of the correction of a class by each scale: (B, m, seen).

    Queries do not see each other, so the gradient of one sum holds the derivatives of all of them.
    """
    with torch.enable_grad():
        scale = scale.detach().requires_grad_()
        total = _above_mean(correct(scale), classes).sum()
        (slopes,) = torch.autograd.grad(total, scale)
    return slopes


def _quadrature() -> tuple[list[float], list[float]]:
    """Return nodes and weights for the interval from 0 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return ((nodes + 1) / 2).tolist(), (weights / 2).tolist()
