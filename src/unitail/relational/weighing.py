r"""The first answer: what regressions say, weighed by the task's own evidence.

Candidate c has scores s_c of all rows. With its leave-one-out loss l_c over e labelled rows and a
small network of the task's statistics that gives beta_c and tau_c,

    w_c = softmax_c(b_c + beta_c - a e l_c log K)      the more rows, the more evidence decides
    t_c = exp(m_c + tau_c + r log T_c)                 T_c explains the labelled rows best
    first answer = sum_c w_c t_c s_c.

beta is bounded, so with many labelled rows the best candidate wins, whatever the network thinks.
The network also says how far blocks may correct this answer. They were trained with few rows of a
class: beyond MAX_SHOTS of them the correction fades, and what is left is regression.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unitail.nn.transformer import initialise_linear
from unitail.relational.evidence import Evidence, num_statistics
from unitail.relational.relations import NUM_CANDIDATES

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
class Weights:
    """How the candidates of a task are weighed."""

    factors: Tensor
    """w t: (B, candidates)."""
    strength: Tensor
    """Of the correction, from 0 to 2, (B, 1, 1)."""

    def first_answer(self, candidates: Tensor) -> Tensor:
        """Add up scores (B, candidates, rows, K): (B, rows, K)."""
        return (self.factors[:, :, None, None] * candidates).sum(dim=1)


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

    def forward(self, evidence: Evidence, shots: float, ways: int) -> Weights:
        """Weigh the candidates of tasks with so many labelled rows of a class, on average."""
        dtype = self.favour.dtype
        hidden = F.gelu(self.first(evidence.statistics.to(dtype)))
        hidden = F.gelu(self.second(hidden))
        said = MAX_PRIOR * torch.tanh(self.last(hidden) / MAX_PRIOR)
        prior, scale = said[:, :NUM_CANDIDATES], said[:, NUM_CANDIDATES:-1]
        strength = said[:, -1:]
        against = (math.log(ways) * evidence.count * evidence.loss).to(dtype)
        weights = (self.favour + prior - F.softplus(self.trust) * against).softmax(dim=1)
        best = torch.sigmoid(self.heed) * evidence.log_temperature.to(dtype)
        factors = weights * (self.log_scale + scale + best).exp()
        fade = min(1.0, MAX_SHOTS / shots)
        return Weights(factors, 2 * fade * torch.sigmoid(strength).unsqueeze(2))
