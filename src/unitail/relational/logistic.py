r"""Logistic regressions on one Gram matrix, for a batch of episodes and several penalties at once.

With kernel G among the n labelled vectors, scores S = G A of K classes minimise

    sum_i -log softmax(S_i)[y_i] + lambda / 2 tr(A' G A).

No second derivative of the loss exceeds 1/2 (Boehning, *Multinomial logistic regression algorithm*,
1992), so with the one inverse M = (G / 2 + lambda I)^-1 and R = softmax(S) - Y every step

    A  <-  A - D,   D = M (R + lambda A),

descends. Since G M = 2 (I - lambda M), S follows without another product: G D = 2 (R + lambda A -
lambda D). Steps start from where the last two point to, as Nesterov's do.

At the end each row is left out by one Newton step. Where the loss of row j bends by about
w_j = (1 - sum_k p_jk^2) / (K - 1), the mean over directions, A solves the ridge regression
(G + lambda / w) A = S + lambda A / w. What that predicts for row i without it is, with
N = (G + lambda / w)^-1,

    S_i + A_i (lambda / w_i - 1 / N_ii).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from unitail.relational.kernel_ridge import constants, invert

PENALTIES = (0.001, 0.01, 0.1)
"""lambda of each regression: 1 / C of scikit-learn."""
NUM_REGRESSIONS = len(PENALTIES)
STEPS = 20
"""Short of the minimum where classes are many: what is missing is regularisation, too."""
MIN_BEND = 1e-3
"""The loss of a row of which the regression is sure bends by this at least."""


@dataclass(frozen=True, eq=False)
class Regressions:
    """Logistic regressions of some episodes."""

    coefficients: Tensor
    """A: (B, regressions, n, K)."""
    left_out: Tensor
    """Scores of each labelled vector without its label: (B, regressions, n, K)."""

    def scores(self, kernel: Tensor) -> Tensor:
        """Score vectors by their kernel with the labelled ones, (B, rows, n)."""
        return kernel.unsqueeze(1) @ self.coefficients


@torch.no_grad()
def regress(gram: Tensor, labels: Tensor) -> Regressions:
    """Fit a regression for each penalty to labels (B, n, K), one-hot, on a Gram matrix (B, n, n).

    The inverse is made in double precision: scores are the difference of large numbers.
    """
    labels = labels.to(gram.dtype).unsqueeze(1)
    penalties = constants(PENALTIES, gram).view(-1, 1, 1)
    regular = (gram.double() / 2).unsqueeze(1).repeat(1, NUM_REGRESSIONS, 1, 1)
    regular.diagonal(dim1=2, dim2=3).add_(penalties.squeeze(-1).double())
    inverse = invert(regular).to(gram.dtype)
    coefficients = torch.zeros_like(labels).repeat(1, NUM_REGRESSIONS, 1, 1)
    scores = last_coefficients = last_scores = torch.zeros_like(coefficients)
    for number in range(STEPS):
        ahead = number / (number + 3)
        a = torch.lerp(last_coefficients, coefficients, 1 + ahead)
        s = torch.lerp(last_scores, scores, 1 + ahead)
        slope = (s.softmax(dim=-1) - labels).addcmul_(penalties, a)
        step = inverse @ slope
        last_coefficients, last_scores = coefficients, scores
        coefficients = a.sub_(step)
        scores = s.sub_(slope.addcmul_(penalties, step, value=-1), alpha=2)
    return Regressions(coefficients, _leave_out(gram, coefficients, scores, penalties))


def _leave_out(gram: Tensor, coefficients: Tensor, scores: Tensor, penalties: Tensor) -> Tensor:
    """Score each row without its label, nearly: (B, regressions, n, K)."""
    own = own_penalties(scores, penalties).double()
    regular = gram.double().unsqueeze(1) + torch.diag_embed(own)
    gain = own - 1 / invert(regular).diagonal(dim1=2, dim2=3)
    return scores + gain.to(scores.dtype).unsqueeze(-1) * coefficients


def own_penalties(scores: Tensor, penalties: Tensor) -> Tensor:
    """Return lambda / w of each row, by scores of all rows: (B, regressions, n)."""
    bend = (1 - scores.softmax(dim=-1).pow(2).sum(dim=-1)) / (scores.shape[3] - 1)
    return penalties.squeeze(-1) / bend.clamp_min(MIN_BEND)
