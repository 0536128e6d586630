r"""Regressions on labelled vectors: ridge regressions with several kernels, and logistic ones.

Their own answers are the candidates of the first answer, a sum with weights from `weighing.py`.

Ridge. Kernel ridge regressions, as operators that map values of the labelled vectors to others.

With the Gram matrix G of a kernel among the labelled vectors, P = (G + lambda I)^-1 and g_x the
kernel between x and them,

    x receives g_x P times the values;
    labelled vector i receives its leave-one-out version, row i of I - diag(1 / P_ii) P.

That row i of I - diag(1 / P_ii) P predicts for i what ridge regression without vector i does is the
well-known shortcut for leave-one-out residuals, r_i = (P y)_i / P_ii.

Logistic. Regressions on one Gram matrix, for a batch of episodes and several penalties at once.

With kernel G among the n labelled vectors, scores S = G A of K classes minimise

    sum_i -log softmax(S_i)[y_i] + lambda / 2 tr(A' G A).

No second derivative of the loss exceeds 1/2 (Boehning, *Multinomial logistic regression algorithm*,
1992), so with the one inverse M = (G / 2 + lambda I)^-1 and R = softmax(S) - Y every step

    A  <-  A - D,   D = M (R + lambda A),

descends. Since G M = 2 (I - lambda M), S follows without another product: G D = 2 (R + lambda A -
lambda D). So with B = lambda A and T = S + 2 B a step is only

    B  <-  B - lambda M (R + B),   T  <-  T - 2 (R + B),   S = T - 2 B.

Steps are accelerated by Nesterov's extrapolation from the last two iterates.

At the end each row is left out by one Newton step. With the curvature of the loss of row j taken as
w_j = (1 - sum_k p_jk^2) / (K - 1), its mean over directions, A solves the ridge regression
(G + lambda / w) A = S + lambda A / w. Its prediction for row i without row i is, with
N = (G + lambda / w)^-1,

    S_i + A_i (lambda / w_i - 1 / N_ii).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unitail.relational.geometry import Centre, Comparison

Kernel = Callable[[Comparison], Tensor]
"""Maps a comparison with labelled vectors to (B, rows, n)."""


@dataclass(frozen=True)
class Operator:
    """One ridge regression."""

    kernel: Kernel
    penalty: float
    """lambda."""


@dataclass(frozen=True)
class CosineKernel:
    """The cosine of the angle at a centre."""

    centre: Centre

    def __call__(self, compared: Comparison) -> Tensor:
        """Return the kernel."""
        return compared.cosines[self.centre]


@dataclass(frozen=True)
class GaussianKernel:
    """exp(-sharpness squared distance / mean squared distance)."""

    sharpness: float

    def __call__(self, compared: Comparison) -> Tensor:
        """Return the kernel."""
        return torch.exp(-self.sharpness * compared.distances)


OPERATORS = (
    Operator(CosineKernel(Centre.SHRUNK), penalty=0.02),
    Operator(CosineKernel(Centre.SHRUNK), penalty=0.3),
    Operator(CosineKernel(Centre.MEAN), penalty=0.1),
    Operator(CosineKernel(Centre.MEAN), penalty=2.0),
    Operator(GaussianKernel(1.0), penalty=0.02),
)
"""The ridge regressions that blocks use, in the order of their weights."""
NUM_OPERATORS = len(OPERATORS)
FURTHER = (
    Operator(CosineKernel(Centre.DIRECTION), penalty=0.03),
    Operator(CosineKernel(Centre.DIRECTION), penalty=0.3),
    Operator(GaussianKernel(5.0), penalty=0.2),
    Operator(GaussianKernel(25.0), penalty=0.5),
)
"""Ridge regressions that are candidates only. Sharp kernels are for tables whose classes are not
linearly separable."""
NUM_RIDGES = NUM_OPERATORS + len(FURTHER)
ANGLES = [ridge.kernel for ridge in OPERATORS + FURTHER].index(CosineKernel(Centre.DIRECTION))
"""Index of the kernel that logistic regressions share."""
MAX_REPAIRS = 4
"""Attempts to repair a matrix that rounding made indefinite; each adds ten times as much to its
diagonal."""
LOGISTIC_PENALTIES = (0.001, 0.01, 0.1)
"""lambda of each logistic regression: 1 / C of scikit-learn."""
NUM_LOGISTIC = len(LOGISTIC_PENALTIES)
LOGISTIC_STEPS = 20
"""Number of steps. With many classes they stop short of the minimum, which regularises as well."""
MIN_BEND = 1e-3
"""Smallest curvature of the loss of a row, reached where the regression is certain."""
MANY_WAYS, MANY_STATES, MIN_MANY_SHOTS = 64, 2**14, 2
"""Beyond this many classes, and this many labelled rows times classes, less is computed per class,
if classes have this many labelled rows on average (`are_many`): with one there is no evidence."""
NUM_CANDIDATES = NUM_LOGISTIC + NUM_RIDGES
"""Logistic regressions first, then ridge regressions."""


def stack_kernels(compared: Comparison, num_labelled: int) -> Tensor:
    """Return the kernel of each ridge regression with the labelled: (B, ridges, rows, n)."""
    labelled = compared.first(num_labelled)
    return torch.stack([ridge.kernel(labelled) for ridge in OPERATORS + FURTHER], dim=1)


def solve(gram: Tensor) -> Tensor:
    """Return P for each regression from its G: (B, ridges, n, n)."""
    return invert(regularised(gram))


def regularised(gram: Tensor) -> Tensor:
    """Return G + lambda I for each regression."""
    regular = gram.clone()
    penalties = constants([ridge.penalty for ridge in OPERATORS + FURTHER], gram)
    regular.diagonal(dim1=2, dim2=3).add_(penalties.unsqueeze(-1))
    return regular


def constants(numbers: Sequence[float], like: Tensor) -> Tensor:
    """Make a tensor of numbers without a copy from host to GPU, which would wait for the GPU."""
    if like.device.type == "cpu":
        return torch.tensor(numbers, dtype=like.dtype)
    return torch.cat([like.new_full((1,), number) for number in numbers])


def invert(matrices: Tensor) -> Tensor:
    """Invert positive definite matrices (..., n, n).

    Not with `torch.linalg.inv`: on a CPU with several threads it returns wrong results for batches
    of matrices with more than about 150 rows (pytorch issues 141358 and 142815). And on a GPU not
    with `cholesky_inverse`, which inverts one matrix after the other.
    """
    if not matrices.is_cuda:
        return torch.cholesky_inverse(factorise(matrices))
    factors = torch.linalg.cholesky_ex(matrices).L  # unlike `cholesky`, no wait for the GPU
    unit = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
    inverse: Tensor = torch.linalg.solve_triangular(factors, unit.expand_as(factors), upper=False)
    return inverse.mT @ inverse


def factorise(matrices: Tensor) -> Tensor:
    """Return the Cholesky factor of each matrix.

    Rounding in sums over many rows may make a nearly singular matrix slightly indefinite. Such a
    matrix, and no other of the batch, gets about the rounding error added to its diagonal.
    """
    factors: Tensor
    try:
        factors = torch.linalg.cholesky(matrices)  # works on the meta device and can be exported
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        factors = _repaired_factors(matrices)
    return factors


def _repaired_factors(matrices: Tensor) -> Tensor:
    factors: Tensor
    factors, failed = torch.linalg.cholesky_ex(matrices)
    share = 4 * torch.finfo(torch.float32).eps
    for _ in range(MAX_REPAIRS):
        traces = matrices.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        added = torch.where(failed > 0, share * traces, 0).unsqueeze(-1)
        matrices = matrices + torch.diag_embed(added.expand(matrices.shape[:-1]))
        factors, failed = torch.linalg.cholesky_ex(matrices)
        if not failed.any():
            return factors
        share *= 10
    factors = torch.linalg.cholesky(matrices)  # raises the usual error
    return factors


def leave_one_out(solutions: Tensor) -> Tensor:
    """Return I - diag(1 / P_ii) P, whose diagonal is zero: (B, operators, n, n)."""
    rows = solutions / -solutions.diagonal(dim1=2, dim2=3).unsqueeze(-1)
    rows.diagonal(dim1=2, dim2=3).zero_()
    return rows


@dataclass(frozen=True, eq=False)
class LogisticRegressions:
    """Logistic regressions fitted to a batch of episodes."""

    coefficients: Tensor
    """A: (B, regressions, n, K). Where classes are many, only the largest penalty is fitted."""
    left_out: Tensor
    """Scores of each labelled vector without its label: (B, regressions, n, K)."""

    @property
    def penalties(self) -> tuple[float, ...]:
        """Return the lambdas that were fitted."""
        return LOGISTIC_PENALTIES[-self.coefficients.shape[1] :]

    @property
    def missing(self) -> int:
        """Return the number of penalties that were not fitted."""
        return NUM_LOGISTIC - len(self.penalties)

    def scores(self, kernel: Tensor) -> Tensor:
        """Return scores (B, regressions, rows, K) from kernels (B, rows, n)."""
        return kernel.unsqueeze(1) @ self.coefficients


def are_many(rows: int, ways: int) -> bool:
    """Return whether classes, and rows times classes, are so many that less is computed."""
    enough_shots = rows >= MIN_MANY_SHOTS * ways
    return ways > MANY_WAYS and rows * ways > MANY_STATES and enough_shots


def fitted_penalties(rows: int, ways: int) -> tuple[float, ...]:
    """Return the lambdas of the logistic regressions to fit.

    Where classes are many, evidence would choose the largest one, if any of them.
    """
    return LOGISTIC_PENALTIES[-1:] if are_many(rows, ways) else LOGISTIC_PENALTIES


def expand_to_all_penalties(values: Tensor) -> Tensor:
    """Repeat a single regression for the penalties that were not fitted: (B, NUM_LOGISTIC, ...)."""
    return values.expand(-1, NUM_LOGISTIC, *[-1] * (values.dim() - 2))


@torch.no_grad()
def logistic_steps(gram: Tensor, fitted: Sequence[float]) -> Tensor:
    """Return lambda M of each penalty for a Gram matrix (B, n, n): (B, regressions, n, n).

    The inverse is taken in double precision, as scores are differences of large numbers.
    """
    penalties = constants(fitted, gram).view(-1, 1, 1).double()
    regular = (gram.double() / 2).unsqueeze(1).repeat(1, len(fitted), 1, 1)
    regular.diagonal(dim1=2, dim2=3).add_(penalties.squeeze(-1))
    return invert(regular).mul_(penalties).to(gram.dtype)


@torch.no_grad()
def fit_logistic(gram: Tensor, labels: Tensor, steps: Tensor | None = None) -> LogisticRegressions:
    """Fit a regression for each penalty to labels (B, n, K), one-hot, on a Gram matrix (B, n, n).

    `steps` is the result of `logistic_steps`, which depends on no label, if it is already known.
    Leaving rows out needs no higher precision than that of `gram`.
    """
    fitted = fitted_penalties(*labels.shape[1:])
    penalties = constants(fitted, gram).view(-1, 1, 1)
    lambda_m = (logistic_steps(gram, fitted) if steps is None else steps).flatten(0, 1)
    labels = labels.to(gram.dtype).repeat_interleave(len(fitted), dim=0)
    zero = torch.zeros_like(labels).repeat(2, 1, 1, 1)
    # For speed two buffers swap roles, so that no step allocates them. Each stacks B and T, which
    # lets one `lerp` extrapolate both; the views of B and T are made once.
    last, now = ((each, *each.unbind()) for each in (zero.clone(), zero))
    for number in range(LOGISTIC_STEPS):
        torch.lerp(last[0], now[0], 1 + number / (number + 3), out=last[0])
        last, now = now, last
        _, b, t = now
        slope = torch.sub(t, b, alpha=2).softmax(dim=-1).sub_(labels).add_(b)  # R + B
        b.baddbmm_(lambda_m, slope, alpha=-1)
        t.sub_(slope, alpha=2)
    b, t = now[0].view(2, -1, len(fitted), *labels.shape[1:])
    coefficients, scores = b / penalties, torch.sub(t, b, alpha=2)
    left_out = _leave_one_out_scores(gram, coefficients, scores, penalties)
    return LogisticRegressions(coefficients, left_out)


def _leave_one_out_scores(
    gram: Tensor, coefficients: Tensor, scores: Tensor, penalties: Tensor
) -> Tensor:
    """Return the approximate scores of each row without its label: (B, regressions, n, K)."""
    diagonal = row_penalties(scores, penalties)
    regular = gram.unsqueeze(1).repeat(1, len(penalties), 1, 1)
    regular.diagonal(dim1=2, dim2=3).add_(diagonal)
    gain = diagonal - 1 / invert(regular).diagonal(dim1=2, dim2=3)
    left_out = scores + gain.unsqueeze(-1) * coefficients
    # The scores of a row at the centre are zero but for rounding, which must not count as evidence.
    off_centre = gram.diagonal(dim1=1, dim2=2) > 0
    return left_out * off_centre[:, None, :, None]


def row_penalties(scores: Tensor, penalties: Tensor) -> Tensor:
    """Return lambda / w of each row from its scores (B, regressions, n, K): (B, regressions, n)."""
    w = (1 - scores.softmax(dim=-1).pow(2).sum(dim=-1)) / (scores.shape[3] - 1)
    return penalties.squeeze(-1) / w.clamp_min(MIN_BEND)


@dataclass(frozen=True, eq=False)
class CandidateWeights:
    """Weights of a task's candidates, and the strength of the correction."""

    factors: Tensor
    """w t: (B, candidates)."""
    strength: Tensor
    """Factor on the correction, from 0 to 2, (B, 1, 1)."""

    def first_answer(self, candidates: Tensor) -> Tensor:
        """Return the weighted sum of scores (B, candidates, rows, K): (B, rows, K)."""
        answer = self.factors.unsqueeze(1) @ candidates.flatten(2).to(self.factors.dtype)
        return answer.view(len(candidates), *candidates.shape[2:])
