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

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unitail.nn.transformer import initialise_linear
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


TEMPERATURES = tuple(0.25 * 2**doublings for doublings in range(6))
"""T, as a factor of scores of root mean square 1."""
LOG_TEMPERATURES = tuple(math.log(factor) for factor in TEMPERATURES)
MAX_ROWS = 2000
MAX_WAYS = 200
"""More than these are told as these."""
MIN_SQUARE = 1e-4
"""Of cosines, on average, as far as it is told."""
NUM_SIZES = 5
NUM_SHAPES = 14
MAX_SHOTS = 50
"""The most labelled rows of a class, on average, for which blocks may do what they like."""
MAX_PRIOR = 4.0
"""|beta| and |tau| are less than this."""
FIRST_FAVOURITE = 1
"""Before training the logistic regression of medium penalty leads, ..."""
FIRST_LEAD = 2.0
"""... by this much."""
FIRST_TRUST = 0.3
"""a, before training."""
STATISTICS_SCALE = 0.5
"""Statistics are of this order, so that the hidden layer starts neither silent nor saturated."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Of each candidate; where there is none, it is that of a guess."""

    count: Tensor
    """The labelled rows that say something, (B, 1)."""
    loss: Tensor
    """In units of log K, (B, candidates)."""
    log_temperature: Tensor
    """The best, as far as rows can tell, (B, candidates)."""
    accuracy: Tensor
    """(B, candidates)."""
    statistics: Tensor
    """All that, and how rows lie: (B, `num_statistics(candidates)`)."""


def num_statistics(candidates: int) -> int:
    """Count the statistics of a task."""
    return NUM_SIZES + NUM_SHAPES + 3 * candidates


@torch.no_grad()
def weigh_evidence(compared: Comparison, labels: Tensor, left_out: Tensor) -> Evidence:
    """Ask the labelled rows, which are the first of those compared with each other.

    `labels` (B, n, K) are one-hot; `left_out` (B, candidates, n, K) are the candidates' scores of
    each labelled row without its label.
    """
    shots = labels.sum(dim=1)
    unlabelled = compared.distances.shape[2] - labels.shape[1]
    shapes, rows = _lie(compared, labels), labels.shape[1]
    classes = labels.argmax(dim=2)
    return hear(left_out, classes, shots, shapes, rows=rows, unlabelled=unlabelled)


@torch.no_grad()
def hear(
    left_out: Tensor,
    classes: Tensor,
    shots: Tensor,
    shapes: Tensor,
    *,
    rows: int,
    unlabelled: int = 0,
) -> Evidence:
    """Ask labelled rows, all or some of them.

    `left_out` (B, candidates, n, K) are the candidates' scores of each without its label, which is
    in `classes` (B, n); `shots` (B, K) are all `rows` by class, `shapes` (B, NUM_SHAPES) says how
    they lie.
    """
    ways = shots.shape[1]
    together = (shots >= 2).to(left_out.dtype)
    asked = together.gather(1, classes)  # (B, n)
    count = (shots * together).sum(dim=1, keepdim=True)  # (B, 1)
    known = count.clamp_max(1)
    share = (asked / asked.sum(dim=1, keepdim=True).clamp_min(1)).unsqueeze(1)  # (B, 1, n)
    truth = classes[:, None, :, None].expand(-1, left_out.shape[1], -1, 1)
    own = left_out.gather(3, truth).squeeze(3)  # (B, candidates, n)
    best = left_out.amax(dim=3)
    below = own - best
    surprise = _log_sums(left_out - best.unsqueeze(3))  # (B, candidates, n, T)
    surprise = surprise - constants(TEMPERATURES, own) * below.unsqueeze(3)
    loss = (share.unsqueeze(3) * surprise).sum(dim=2)  # (B, candidates, T)
    weights = (-count.unsqueeze(2) * loss).softmax(dim=2)
    log_temperature = known * (weights * constants(LOG_TEMPERATURES, own)).sum(dim=2)
    relative = known * loss.amin(dim=2) / math.log(ways) + (1 - known)
    right = (below >= 0).to(own.dtype)
    accuracy = (share * right).sum(dim=2) + (1 - known) / ways
    statistics = [
        _sizes(rows, ways, unlabelled, left_out).expand(len(left_out), -1),
        count.log1p(),
        *(shapes, relative - 1, accuracy, log_temperature),
    ]
    return Evidence(count, relative, log_temperature, accuracy, torch.cat(statistics, dim=1))


def _log_sums(below: Tensor) -> Tensor:
    """Return log sum_k exp(T s_k) for each T, of scores (..., K) below the best: (..., T).

    Each T is twice the one before: powers are squared, and not taken again.
    """
    powers = (TEMPERATURES[0] * below).exp_()
    sums = [powers.sum(dim=-1)]
    for _ in TEMPERATURES[1:]:
        sums.append(powers.square_().sum(dim=-1))
    return torch.stack(sums, dim=-1).log()


def _sizes(n: int, ways: int, unlabelled: int, like: Tensor) -> Tensor:
    """Count rows, classes, rows of a class, unlabelled rows, as logarithms: (1, 4)."""
    rows = min(n, MAX_ROWS)
    numbers = (rows, min(ways, MAX_WAYS), rows / ways, 1 + min(unlabelled, MAX_ROWS))
    return constants([math.log(number) for number in numbers], like).unsqueeze(0)


def _lie(compared: Comparison, labels: Tensor) -> Tensor:
    """Say how rows lie: cosines and their spread, lengths, dimensions, classes: (B, NUM_SHAPES)."""
    geometry, n = compared.seen, labels.shape[1]
    means, deviations = geometry.mean_cosine.flatten(1), geometry.cosine_deviation.flatten(1)
    lengths = geometry.origin_lengths
    tiny = torch.finfo(lengths.dtype).tiny
    spread = lengths.std(dim=1, correction=0) / lengths.mean(dim=1).clamp_min(tiny)
    squares = compared.cosines.pow(2).mean(dim=(2, 3))  # 1 / dimensions, (centres, B)
    seen_from = [squares[centre] for centre in (Centre.MEAN, Centre.ORIGIN, Centre.DIRECTION)]
    alike = labels @ labels.mT
    alike.diagonal(dim1=1, dim2=2).zero_()
    pairs = alike.sum(dim=(1, 2))
    angles = compared.cosines[Centre.DIRECTION, :, :n, :n]
    angles = angles - geometry.mean_cosine[Centre.DIRECTION]
    within = (alike * angles).sum(dim=(1, 2)) / pairs.clamp_min(1)
    shrinking = geometry.direction.norm(dim=-1).squeeze(1)
    dimensions = torch.stack(seen_from).clamp_min(MIN_SQUARE).log()
    return torch.stack([*means, *deviations, spread, shrinking, within, *dimensions], dim=1)


@dataclass(frozen=True, eq=False)
class Weights:
    """How the candidates of a task are weighed."""

    factors: Tensor
    """w t: (B, candidates)."""
    strength: Tensor
    """Of the correction, from 0 to 2, (B, 1, 1)."""

    def first_answer(self, candidates: Tensor) -> Tensor:
        """Add up scores (B, candidates, rows, K): (B, rows, K)."""
        answer = self.factors.unsqueeze(1) @ candidates.flatten(2).to(self.factors.dtype)
        return answer.view(len(candidates), *candidates.shape[2:])


class Weighing(nn.Module):
    """From the evidence of a task to the weights of candidates."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.first = nn.Linear(num_statistics(NUM_CANDIDATES), hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, 2 * NUM_CANDIDATES + 1)
        favour = torch.zeros(NUM_CANDIDATES)
        favour[FIRST_FAVOURITE] = FIRST_LEAD
        self.favour = nn.Parameter(favour)
        self.log_scale = nn.Parameter(torch.zeros(NUM_CANDIDATES))
        self.trust = nn.Parameter(torch.full((1,), math.log(math.expm1(FIRST_TRUST))))
        self.heed = nn.Parameter(torch.zeros(1))

    def initialise(self, generator: torch.Generator) -> None:
        """Start from what does not depend on the statistics."""
        initialise_linear(self.first, generator, gain=STATISTICS_SCALE)
        initialise_linear(self.second, generator)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, evidence: Evidence, shots: float, ways: int, *, missing: int = 0) -> Weights:
        """Weigh the candidates of tasks with `shots` labelled rows of a class, on average.

        Those that are `missing`, the first, are told as others are, and weigh nothing.
        """
        dtype = self.favour.dtype
        hidden = F.gelu(self.first(evidence.statistics.to(dtype)))
        hidden = F.gelu(self.second(hidden))
        said = MAX_PRIOR * torch.tanh(self.last(hidden) / MAX_PRIOR)
        prior, scale = said[:, :NUM_CANDIDATES], said[:, NUM_CANDIDATES:-1]
        strength = said[:, -1:]
        against = (math.log(ways) * evidence.count * evidence.loss).to(dtype)
        weighed = self.favour + prior - F.softplus(self.trust) * against
        if missing:
            weighed = F.pad(weighed[:, missing:], (missing, 0), value=-torch.inf)
        weights = weighed.softmax(dim=1)
        best = torch.sigmoid(self.heed) * evidence.log_temperature.to(dtype)
        factors = weights * (self.log_scale + scale + best).exp()
        fade = min(1.0, MAX_SHOTS / shots)
        return Weights(factors, 2 * fade * torch.sigmoid(strength).unsqueeze(2))
