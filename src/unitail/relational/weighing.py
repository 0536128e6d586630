r"""The first answer: a combination of regressions, weighted by the task's own evidence.

Each candidate c is a regression with scores s_c. From its leave-one-out loss l_c over e labelled
rows, and from beta_c and tau_c, the outputs of a small network on statistics of the task,

    w_c = softmax_c(b_c + beta_c - a e l_c log K)      with more rows the evidence decides
    t_c = exp(m_c + tau_c + r log T_c)                 T_c fits the labelled rows best
    first answer = sum_c w_c t_c s_c.

The parameters b, m, a and r are `favour`, `log_scale`, `trust` and `heed`. beta is bounded, so with
many labelled rows the best candidate wins, whatever the network prefers. The network also sets the
strength of the correction that blocks add. They were trained with few rows per class: beyond
MAX_SHOTS of them the correction fades, and the answer becomes that of the regressions.

Evidence is how well a candidate answers for the labelled rows, each left out. A row that is the
only one of its class does not count: without it the class has no example. Scores become
probabilities by a temperature, the one that fits the labels best,

    loss_c = min_T mean_i -log softmax(T s_ci)[y_i],

in units of log K, the loss of a guess. All of this is invariant to the names of classes and to the
order of rows.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unitail.nn.transformer import initialise_linear
from unitail.relational.geometry import Centre, Comparison
from unitail.relational.regressions import NUM_CANDIDATES, CandidateWeights, constants

TEMPERATURES = tuple(0.25 * 2**doublings for doublings in range(6))
"""T, a factor on scores of root mean square 1. Each is twice the one before (`_log_sums`)."""
LOG_TEMPERATURES = tuple(math.log(factor) for factor in TEMPERATURES)
MAX_ROWS = 2000
MAX_WAYS = 200
"""Largest numbers of rows and classes in the statistics; larger ones are clamped."""
MIN_SQUARE = 1e-4
"""Smallest mean squared cosine in the statistics; smaller ones are clamped."""
NUM_SIZES = 5
NUM_SHAPES = 14
MAX_SHOTS = 50
"""Largest mean number of labelled rows per class with the full correction; beyond it fades."""
MAX_PRIOR = 4.0
"""Bound of |beta| and |tau|."""
FIRST_FAVOURITE = 1
"""Candidate with the largest b before training: the logistic regression of medium penalty."""
FIRST_LEAD = 2.0
"""b of the first favourite, before training; all others are 0."""
FIRST_TRUST = 0.3
"""a, before training."""
STATISTICS_SCALE = 0.5
"""Gain of the first layer, so that its units start neither dead nor saturated."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """The evidence for each candidate; that of a guess where no row counts."""

    count: Tensor
    """Number of labelled rows that count, (B, 1)."""
    loss: Tensor
    """Leave-one-out loss in units of log K, (B, candidates)."""
    log_temperature: Tensor
    """Logarithm of T_c, averaged over T by how well each fits, (B, candidates)."""
    accuracy: Tensor
    """Leave-one-out accuracy, (B, candidates)."""
    statistics: Tensor
    """All of these, and statistics of sizes and shapes: (B, `num_statistics(candidates)`)."""


def num_statistics(candidates: int) -> int:
    """Return the number of statistics of a task."""
    return NUM_SIZES + NUM_SHAPES + 3 * candidates


@torch.no_grad()
def gather_evidence(compared: Comparison, labels: Tensor, left_out: Tensor) -> Evidence:
    """Return the evidence of the labelled rows, the first of those compared with each other.

    `labels` (B, n, K) are one-hot; `left_out` (B, candidates, n, K) are the candidates' scores for
    each labelled row without its label.
    """
    shots = labels.sum(dim=1)
    unlabelled = compared.distances.shape[2] - labels.shape[1]
    shapes, rows = _shape_statistics(compared, labels), labels.shape[1]
    classes = labels.argmax(dim=2)
    return evidence_from_scores(left_out, classes, shots, shapes, rows=rows, unlabelled=unlabelled)


@torch.no_grad()
def evidence_from_scores(
    left_out: Tensor,
    classes: Tensor,
    shots: Tensor,
    shapes: Tensor,
    *,
    rows: int,
    unlabelled: int = 0,
) -> Evidence:
    """Return the evidence of some or all labelled rows.

    `left_out` (B, candidates, n, K) are the candidates' scores for each of them without its label,
    `classes` (B, n) the labels. `shots` (B, K) counts all `rows` labelled rows by class, and
    `shapes` (B, NUM_SHAPES) are their `_shape_statistics`.
    """
    ways = shots.shape[1]
    has_others = (shots >= 2).to(left_out.dtype)  # (B, K): classes with a row left
    counts = has_others.gather(1, classes)  # (B, n)
    count = (shots * has_others).sum(dim=1, keepdim=True)  # (B, 1)
    any_counts = count.clamp_max(1)
    share = (counts / counts.sum(dim=1, keepdim=True).clamp_min(1)).unsqueeze(1)  # (B, 1, n)
    index = classes[:, None, :, None].expand(-1, left_out.shape[1], -1, 1)
    true_scores = left_out.gather(3, index).squeeze(3)  # (B, candidates, n)
    best = left_out.amax(dim=3)
    margin = true_scores - best
    losses = _log_sums(left_out - best.unsqueeze(3))  # (B, candidates, n, T)
    losses = losses - constants(TEMPERATURES, true_scores) * margin.unsqueeze(3)
    loss = (share.unsqueeze(3) * losses).sum(dim=2)  # (B, candidates, T)
    weights = (-count.unsqueeze(2) * loss).softmax(dim=2)
    log_temperature = any_counts * (weights * constants(LOG_TEMPERATURES, true_scores)).sum(dim=2)
    relative = any_counts * loss.amin(dim=2) / math.log(ways) + (1 - any_counts)
    correct = (margin >= 0).to(true_scores.dtype)
    accuracy = (share * correct).sum(dim=2) + (1 - any_counts) / ways
    statistics = [
        _size_statistics(rows, ways, unlabelled, left_out).expand(len(left_out), -1),
        count.log1p(),
        *(shapes, relative - 1, accuracy, log_temperature),
    ]
    return Evidence(count, relative, log_temperature, accuracy, torch.cat(statistics, dim=1))


def _log_sums(below: Tensor) -> Tensor:
    """Return log sum_k exp(T s_k) for each T, for scores (..., K) relative to the best: (..., T).

    Each T is twice the one before, so the exponentials are squared in place, which is faster than
    another `exp`.
    """
    powers = (TEMPERATURES[0] * below).exp_()
    sums = [powers.sum(dim=-1)]
    for _ in TEMPERATURES[1:]:
        sums.append(powers.square_().sum(dim=-1))
    return torch.stack(sums, dim=-1).log()


def _size_statistics(n: int, ways: int, unlabelled: int, like: Tensor) -> Tensor:
    """Return logarithms of rows, classes, rows per class and unlabelled rows: (1, 4)."""
    rows = min(n, MAX_ROWS)
    numbers = (rows, min(ways, MAX_WAYS), rows / ways, 1 + min(unlabelled, MAX_ROWS))
    return constants([math.log(number) for number in numbers], like).unsqueeze(0)


def _shape_statistics(compared: Comparison, labels: Tensor) -> Tensor:
    """Return statistics of cosines, lengths, dimensions and classes: (B, NUM_SHAPES)."""
    geometry, n = compared.seen, labels.shape[1]
    means, deviations = geometry.mean_cosine.flatten(1), geometry.cosine_deviation.flatten(1)
    lengths = geometry.origin_lengths
    tiny = torch.finfo(lengths.dtype).tiny
    spread = lengths.std(dim=1, correction=0) / lengths.mean(dim=1).clamp_min(tiny)
    squares = compared.cosines.pow(2).mean(dim=(2, 3))  # 1 / dimensions, (centres, B)
    seen_from = [squares[centre] for centre in (Centre.MEAN, Centre.ORIGIN, Centre.DIRECTION)]
    same_class = labels @ labels.mT
    same_class.diagonal(dim1=1, dim2=2).zero_()
    pairs = same_class.sum(dim=(1, 2))
    angles = compared.cosines[Centre.DIRECTION, :, :n, :n]
    angles = angles - geometry.mean_cosine[Centre.DIRECTION]
    within = (same_class * angles).sum(dim=(1, 2)) / pairs.clamp_min(1)
    shrinking = geometry.direction.norm(dim=-1).squeeze(1)
    dimensions = torch.stack(seen_from).clamp_min(MIN_SQUARE).log()
    return torch.stack([*means, *deviations, spread, shrinking, within, *dimensions], dim=1)


class Weighing(nn.Module):
    """Network from the evidence of a task to the weights of its candidates."""

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
        """Draw the hidden layers; the last one is zero, so statistics have no effect at first."""
        initialise_linear(self.first, generator, gain=STATISTICS_SCALE)
        initialise_linear(self.second, generator)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(
        self, evidence: Evidence, shots: float, ways: int, *, missing: int = 0
    ) -> CandidateWeights:
        """Weigh the candidates of tasks with `shots` labelled rows per class on average.

        The first `missing` candidates get weight 0; their evidence is a copy of another's.
        """
        dtype = self.favour.dtype
        hidden = F.gelu(self.first(evidence.statistics.to(dtype)))
        hidden = F.gelu(self.second(hidden))
        outputs = MAX_PRIOR * torch.tanh(self.last(hidden) / MAX_PRIOR)
        beta, tau = outputs[:, :NUM_CANDIDATES], outputs[:, NUM_CANDIDATES:-1]
        strength = outputs[:, -1:]
        total_loss = (math.log(ways) * evidence.count * evidence.loss).to(dtype)  # e l log K
        logits = self.favour + beta - F.softplus(self.trust) * total_loss
        if missing:
            logits = F.pad(logits[:, missing:], (missing, 0), value=-torch.inf)
        w = logits.softmax(dim=1)
        fitted = torch.sigmoid(self.heed) * evidence.log_temperature.to(dtype)  # r log T
        factors = w * (self.log_scale + tau + fitted).exp()
        fade = min(1.0, MAX_SHOTS / shots)
        return CandidateWeights(factors, 2 * fade * torch.sigmoid(strength).unsqueeze(2))
