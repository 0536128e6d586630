r"""Regressions from labelled vectors: ridge regressions by several kernels, and logistic ones.

What they answer by themselves are the candidates of which `weighing.py` makes a first answer.

Ridge. Kernel ridge regressions that carry values from labelled vectors to all others.

With Gram matrix G of a kernel among the labelled vectors, P = (G + lambda I)^-1 and g_x the kernel
between x and them,

    x takes g_x P times the values;
    labelled vector i takes its leave-one-out version, row i of I - diag(1 / P_ii) P.

That a row of I - diag(1 / P_ii) P is what ridge regression without vector i predicts for i is the
well-known shortcut for leave-one-out residuals, r_i = (P y)_i / P_ii.

Logistic. Regressions on one Gram matrix, for a batch of episodes and several penalties at once.

With kernel G among the n labelled vectors, scores S = G A of K classes minimise

    sum_i -log softmax(S_i)[y_i] + lambda / 2 tr(A' G A).

No second derivative of the loss exceeds 1/2 (Boehning, *Multinomial logistic regression algorithm*,
1992), so with the one inverse M = (G / 2 + lambda I)^-1 and R = softmax(S) - Y every step

    A  <-  A - D,   D = M (R + lambda A),

descends. Since G M = 2 (I - lambda M), S follows without another product: G D = 2 (R + lambda A -
lambda D). So with B = lambda A and T = S + 2 B a step is no more than

    B  <-  B - lambda M (R + B),   T  <-  T - 2 (R + B),   S = T - 2 B.

Steps start from where the last two point to, as Nesterov's do.

At the end each row is left out by one Newton step. Where the loss of row j bends by about
w_j = (1 - sum_k p_jk^2) / (K - 1), the mean over directions, A solves the ridge regression
(G + lambda / w) A = S + lambda A / w. What that predicts for row i without it is, with
N = (G + lambda / w)^-1,

    S_i + A_i (lambda / w_i - 1 / N_ii).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unitail.relational.geometry import Centre, Comparison

Kernel = Callable[[Comparison], Tensor]
"""From a comparison with labelled vectors to (B, rows, n)."""


@dataclass(frozen=True)
class Operator:
    """One ridge regression."""

    kernel: Kernel
    penalty: float
    """lambda: from hardly to heavily smoothed."""


@dataclass(frozen=True)
class CosineKernel:
    """The cosine of angles seen from a centre."""

    centre: Centre

    def __call__(self, compared: Comparison) -> Tensor:
        """Compare."""
        return compared.cosines[self.centre]


@dataclass(frozen=True)
class GaussianKernel:
    """exp(-sharpness squared distance / mean squared distance)."""

    sharpness: float

    def __call__(self, compared: Comparison) -> Tensor:
        """Compare."""
        return torch.exp(-self.sharpness * compared.distances)


OPERATORS = (
    Operator(CosineKernel(Centre.SHRUNK), penalty=0.02),
    Operator(CosineKernel(Centre.SHRUNK), penalty=0.3),
    Operator(CosineKernel(Centre.MEAN), penalty=0.1),
    Operator(CosineKernel(Centre.MEAN), penalty=2.0),
    Operator(GaussianKernel(1.0), penalty=0.02),
)
"""Those that blocks use, in the order of their weights."""
NUM_OPERATORS = len(OPERATORS)
FURTHER = (
    Operator(CosineKernel(Centre.DIRECTION), penalty=0.03),
    Operator(CosineKernel(Centre.DIRECTION), penalty=0.3),
    Operator(GaussianKernel(5.0), penalty=0.2),
    Operator(GaussianKernel(25.0), penalty=0.5),
)
"""Those that only answer. Sharp kernels are for tables whose classes no line divides."""
NUM_RIDGES = NUM_OPERATORS + len(FURTHER)
ANGLES = [ridge.kernel for ridge in OPERATORS + FURTHER].index(CosineKernel(Centre.DIRECTION))
"""The kernel that logistic regressions have too."""
MAX_REPAIRS = 4
"""How often a matrix is tried that rounding made indefinite, with ten times as much each time."""
LOGISTIC_PENALTIES = (0.001, 0.01, 0.1)
"""lambda of each logistic regression: 1 / C of scikit-learn."""
NUM_LOGISTIC = len(LOGISTIC_PENALTIES)
LOGISTIC_STEPS = 20
"""Short of the minimum where classes are many: what is missing is regularisation, too."""
MIN_BEND = 1e-3
"""The loss of a row of which the regression is sure bends by this at least."""
MANY_WAYS, MANY_STATES, MIN_MANY_SHOTS = 64, 2**14, 2
"""Beyond this many classes, and times labelled rows, less is made of each class (`are_many`), if
they have this many labelled rows, on average: with one, no evidence speaks."""
NUM_CANDIDATES = NUM_LOGISTIC + NUM_RIDGES
"""Answers of logistic regressions, then those of ridge regressions."""


def stack_kernels(compared: Comparison, num_labelled: int) -> Tensor:
    """Return the kernel of each regression with the labelled vectors: (B, ridges, rows, n)."""
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
    """Make a tensor of numbers where another lies; to copy them to a GPU would be to wait."""
    if like.device.type == "cpu":
        return torch.tensor(numbers, dtype=like.dtype)
    return torch.cat([like.new_full((1,), number) for number in numbers])


def invert(matrices: Tensor) -> Tensor:
    """Invert positive definite matrices (..., n, n).

    Not by `torch.linalg.inv`: on a CPU its batches of more than about 150 rows come out wrong with
    several threads (pytorch issues 141358 and 142815). And on a GPU not by `cholesky_inverse`,
    which takes one matrix after the other.
    """
    if not matrices.is_cuda:
        return torch.cholesky_inverse(factorise(matrices))
    factors = torch.linalg.cholesky_ex(matrices).L  # to check it would be to wait for the device
    unit = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
    inverse: Tensor = torch.linalg.solve_triangular(factors, unit.expand_as(factors), upper=False)
    return inverse.mT @ inverse


def factorise(matrices: Tensor) -> Tensor:
    """Return the Cholesky factor of each matrix.

    Sums over many rows in single precision may turn what is nearly singular slightly indefinite;
    such a matrix, and no other of the batch, gets on its diagonal what rounding may have taken.
    """
    factors: Tensor
    try:
        factors = torch.linalg.cholesky(matrices)  # this can be rehearsed, and exported
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
    factors = torch.linalg.cholesky(matrices)  # says what is wrong with them
    return factors


def leave_one_out(solutions: Tensor) -> Tensor:
    """Return I - diag(1 / P_ii) P, whose diagonal is zero: (B, operators, n, n)."""
    rows = solutions / -solutions.diagonal(dim1=2, dim2=3).unsqueeze(-1)
    rows.diagonal(dim1=2, dim2=3).zero_()
    return rows


@dataclass(frozen=True, eq=False)
class LogisticRegressions:
    """Logistic regressions of some episodes."""

    coefficients: Tensor
    """A: (B, regressions, n, K); all, or where classes are many that of the largest penalty."""
    left_out: Tensor
    """Scores of each labelled vector without its label: (B, regressions, n, K)."""

    @property
    def penalties(self) -> tuple[float, ...]:
        """Return lambda of each."""
        return LOGISTIC_PENALTIES[-self.coefficients.shape[1] :]

    @property
    def missing(self) -> int:
        """Count those that were not fitted."""
        return NUM_LOGISTIC - len(self.penalties)

    def scores(self, kernel: Tensor) -> Tensor:
        """Score vectors by their kernel with the labelled ones, (B, rows, n)."""
        return kernel.unsqueeze(1) @ self.coefficients


def are_many(rows: int, ways: int) -> bool:
    """Tell whether classes, and labelled rows times classes, are so many that less will do."""
    enough = rows >= MIN_MANY_SHOTS * ways
    return ways > MANY_WAYS and rows * ways > MANY_STATES and enough


def fitted_penalties(rows: int, ways: int) -> tuple[float, ...]:
    """Return lambda of each logistic regression that is fitted.

    Where classes are many, evidence chooses that of the largest, if any.
    """
    return LOGISTIC_PENALTIES[-1:] if are_many(rows, ways) else LOGISTIC_PENALTIES


def for_each_penalty(of_regressions: Tensor) -> Tensor:
    """Let regressions that were not fitted be told as the last: (B, NUM_LOGISTIC, ...)."""
    return of_regressions.expand(-1, NUM_LOGISTIC, *[-1] * (of_regressions.dim() - 2))


@torch.no_grad()
def logistic_steps(gram: Tensor, fitted: Sequence[float]) -> Tensor:
    """Return lambda M of penalties for a Gram matrix (B, n, n): (B, regressions, n, n).

    The inverse is made in double precision: scores are the difference of large numbers.
    """
    penalties = constants(fitted, gram).view(-1, 1, 1).double()
    regular = (gram.double() / 2).unsqueeze(1).repeat(1, len(fitted), 1, 1)
    regular.diagonal(dim1=2, dim2=3).add_(penalties.squeeze(-1))
    return invert(regular).mul_(penalties).to(gram.dtype)


@torch.no_grad()
def fit_logistic(gram: Tensor, labels: Tensor, steps: Tensor | None = None) -> LogisticRegressions:
    """Fit a regression for each penalty to labels (B, n, K), one-hot, on a Gram matrix (B, n, n).

    `steps` are those of `logistic_steps`, which no label decides, if they are known. What leaves a
    row out takes no more than its own precision.
    """
    fitted = fitted_penalties(*labels.shape[1:])
    penalties = constants(fitted, gram).view(-1, 1, 1)
    inverse = (logistic_steps(gram, fitted) if steps is None else steps).flatten(0, 1)
    labels = labels.to(gram.dtype).repeat_interleave(len(fitted), dim=0)
    zero = torch.zeros_like(labels).repeat(2, 1, 1, 1)
    last, now = ((each, *each.unbind()) for each in (zero.clone(), zero))  # both, then B and T
    for number in range(LOGISTIC_STEPS):
        torch.lerp(last[0], now[0], 1 + number / (number + 3), out=last[0])
        last, now = now, last
        _, b, t = now
        slope = torch.sub(t, b, alpha=2).softmax(dim=-1).sub_(labels).add_(b)
        b.baddbmm_(inverse, slope, alpha=-1)
        t.sub_(slope, alpha=2)
    b, t = now[0].view(2, -1, len(fitted), *labels.shape[1:])
    coefficients, scores = b / penalties, torch.sub(t, b, alpha=2)
    return LogisticRegressions(coefficients, _leave_out(gram, coefficients, scores, penalties))


def _leave_out(gram: Tensor, coefficients: Tensor, scores: Tensor, penalties: Tensor) -> Tensor:
    """Score each row without its label, nearly: (B, regressions, n, K)."""
    own = own_penalties(scores, penalties)
    regular = gram.unsqueeze(1).repeat(1, len(penalties), 1, 1)
    regular.diagonal(dim1=2, dim2=3).add_(own)
    gain = own - 1 / invert(regular).diagonal(dim1=2, dim2=3)
    left_out = scores + gain.unsqueeze(-1) * coefficients
    # Of a row at the centre nothing is known: what differs from zero is rounding, and no evidence.
    known = gram.diagonal(dim1=1, dim2=2) > 0
    return left_out * known[:, None, :, None]


def own_penalties(scores: Tensor, penalties: Tensor) -> Tensor:
    """Return lambda / w of each row, by scores of all rows: (B, regressions, n)."""
    bend = (1 - scores.softmax(dim=-1).pow(2).sum(dim=-1)) / (scores.shape[3] - 1)
    return penalties.squeeze(-1) / bend.clamp_min(MIN_BEND)
