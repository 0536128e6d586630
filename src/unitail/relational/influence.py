r"""What each labelled row adds to an answer.

The first answer is a sum over labelled rows by itself. A ridge regression carries labels to x: with
P = (G + lambda I)^-1, row j adds (g_x P)_j times its label, centred. A logistic regression is,
where it ended, the ridge regression of `relational/regressions.py` with N = (G + lambda / w)^-1 and
targets Z = S + lambda A / w, so row j adds (g_x N)_j Z_j. Both are exact.

What blocks correct is no sum. Let the query x hear only a share e_j of all that row j says, through
heads and operators, and let every share grow from 0 to 1. Then row j adds

    integral over e from 0 to 1 of  d correction / d e_j  at (e, ..., e),

and all rows together add the difference between all heard and nothing heard (Aumann and Shapley's
prices; *integrated gradients* of Sundararajan, Taly and Yan, 2017). What is left is nobody's: what
blocks would correct without a word heard, a pool's share, and what the `NODES` of the integral
miss. Scores are those above the mean of all classes: a shift of all changes no answer.

That representation by kernels, g_x(j) A_j, is a sum as well, but says less of what leaving j out
would change (docs/experiments.md).
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from unitail.nn.episode_model import Contributions
from unitail.relational.geometry import Centre
from unitail.relational.regressions import (
    NUM_RIDGES,
    constants,
    expand_to_all_penalties,
    regularised,
    row_penalties,
    stack_kernels,
)
from unitail.relational.relations import Frame, largest_score
from unitail.relational.weighing import Weights

NODES = 4
"""Of Gauss and Legendre's rule."""

Correction = Callable[[Tensor], Tensor]
"""From the shares that queries hear of each seen row, (B, m, seen), to corrections (B, m, K)."""


def contributions(
    frame: Frame, weights: Weights, features: Tensor, classes: Tensor, correct: Correction
) -> Contributions:
    """Take the scores of classes (B, m) for queries (B, m, d_T) apart."""
    values, score = _first_answer(frame, weights, features, classes)
    heard = torch.ones(*classes.shape, frame.geometry.vectors.shape[1]).to(values)
    score = score + _above_mean(correct(heard), classes).to(score)
    slopes = integrated_slopes(correct, heard, classes)
    return Contributions(values + slopes[..., : values.shape[2]], score)


def integrated_slopes(correct: Correction, heard: Tensor, classes: Tensor) -> Tensor:
    """Return what each seen row adds to the correction of classes (B, m): (B, m, seen)."""
    slopes = torch.zeros_like(heard)
    for node, weight in zip(*_quadrature(), strict=True):
        slopes += weight * _slope(correct, node * heard, classes)
    return slopes


def _first_answer(
    frame: Frame, weights: Weights, features: Tensor, classes: Tensor
) -> tuple[Tensor, Tensor]:
    """Return what rows add to the first answer (B, m, n), and its scores (B, m)."""
    carried, targets = _weights_and_targets(frame, features)
    scores = carried @ targets / frame.units  # (B, candidates, m, K)
    most = largest_score(scores.shape[3])
    ended = scores.clamp(-most, most)
    answer = _above_mean(weights.first_answer(ended), classes)
    # A score that is ended counts less, and so does what each row adds to it.
    own = classes.unsqueeze(1).expand(-1, scores.shape[1], -1).unsqueeze(-1)
    raw, used = scores.gather(3, own), ended.gather(3, own)
    counted = torch.where(raw == used, 1, used / raw) * weights.factors[:, :, None, None]
    places = classes.unsqueeze(1).expand(-1, targets.shape[2], -1)  # (B, n, m)
    values = torch.zeros_like(carried[:, 0])
    for number in range(scores.shape[1]):
        of_class = targets[:, number].gather(2, places).mT  # (B, m, n)
        values += counted[:, number] / frame.units[:, number] * carried[:, number] * of_class
    return values, answer


def _weights_and_targets(frame: Frame, features: Tensor) -> tuple[Tensor, Tensor]:
    """Return what each candidate carries from rows to queries, and its targets.

    That is g_x P or g_x N, (B, candidates, m, n), and labels or Z above the mean of all classes,
    (B, candidates, n, K).
    """
    n, ways = frame.labels.shape[1:]
    own, asked = frame.geometry.compare_seen(), frame.geometry.compare(features)
    ridges = _solve(regularised(stack_kernels(own, n)[:, :, :n]), stack_kernels(asked, n))
    labels = (frame.labels - 1 / ways).unsqueeze(1).expand(-1, NUM_RIDGES, -1, -1)

    gram = own.cosines[Centre.DIRECTION][:, :n, :n]
    coefficients = frame.regressions.coefficients
    scores = frame.regressions.scores(gram)
    fitted = constants(frame.regressions.penalties, gram).view(-1, 1, 1)
    penalties = row_penalties(scores, fitted)
    regular = gram.unsqueeze(1) + torch.diag_embed(penalties)
    kernel = asked.cosines[Centre.DIRECTION][..., :n].unsqueeze(1)
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
    """Return scores (B, m, K) of one class each, above the mean of all: (B, m)."""
    return scores.gather(2, classes.unsqueeze(2)).squeeze(2) - scores.mean(dim=2)


def _slope(correct: Correction, shares: Tensor, classes: Tensor) -> Tensor:
    """Return how the correction of a class grows with each share: (B, m, seen).

    Queries do not hear each other, so the slopes of all of them come from one sum.
    """
    with torch.enable_grad():
        shares = shares.detach().requires_grad_()
        total = _above_mean(correct(shares), classes).sum()
        (slopes,) = torch.autograd.grad(total, shares)
    return slopes


def _quadrature() -> tuple[list[float], list[float]]:
    """Return nodes and weights between 0 and 1."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return ((nodes + 1) / 2).tolist(), (weights / 2).tolist()
