r"""The first answer: what regressions say, weighed by the task's own evidence.

Candidate c has scores s_c of all rows. With its leave-one-out loss l_c over e labelled rows and a
small network of the task's statistics that gives beta_c and tau_c,

    w_c = softmax_c(b_c + beta_c - a e l_c log K)      the more rows, the more evidence decides
    t_c = exp(m_c + tau_c + r log T_c)                 T_c explains the labelled rows best
    first answer = sum_c w_c t_c s_c.

beta is bounded, so with many labelled rows the best candidate wins, whatever the network thinks.
The network also says how far blocks may correct this answer. They were trained with few rows of a
class: beyond MAX_SHOTS of them the correction fades, and what is left is regression.

Evidence. What a candidate answers for the labelled rows, each left out, is its evidence. A row that
is the only one of its class says nothing there: without it, nobody knows the class. Scores need a
temperature before they are probabilities; it is the one that explains the labels best,

    loss_c = min_T mean_i -log softmax(T s_ci)[y_i],

in units of log K, the loss of a guess. All is the same whatever classes are called and however rows
are ordered.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unitail.nn.transformer import initialise_linear
from unitail.relational.geometry import Centre, Comparison
from unitail.relational.regressions import NUM_CANDIDATES, constants

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
