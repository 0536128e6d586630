r"""Supports of any number of rows: the first answer from all of them, without pairs of rows.

A cosine kernel is the product of two rows of length 1, so what `regressions.py`
solve among n rows can be solved among d_T coordinates. With U the rows and S = U'U,

    ridge regression       W = (S + lambda I)^-1 U'Y,   scores u W
    ... without row i      (u_i W - h_i y_i) / (1 - h_i),   h_i = u_i (S + lambda I)^-1 u_i'
    logistic regression    W <- W - (S / 2 + lambda I)^-1 (U'(softmax(U W) - Y) + lambda W)
    ... without row i      as in `regressions.py`, where N_ii = 1 / L_i - u_i B^-1 u_i' / L_i^2 with
                           B = I + U' L^-1 U and L = lambda / w,

which are the same numbers as there, step by step: a test says so. Gaussian kernels are asked in the
neighbourhood of a query (`neighbours.py`). Evidence is heard from `MAX_ASKED` rows, the first of a
random order. Blocks, whose correction fades with the number of rows of a class, have no say.

More than `MANY_WAYS` classes are read so, too, however few rows they have: the states of all rows
and classes would cost far more. One logistic regression of few steps then stands for all three,
and neighbourhoods are smaller: a shortlist of classes for Gaussian kernels.

So every row counts, class shares are those of the support, and memory grows with d_T^2 + d_T K.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unitail.relational.geometry import Centre
from unitail.relational.moments import LabelledRows, Moments
from unitail.relational.neighbours import GAUSSIANS, NEIGHBOURS, Neighbourhoods
from unitail.relational.regressions import (
    FURTHER,
    LOGISTIC_PENALTIES,
    LOGISTIC_STEPS,
    NUM_CANDIDATES,
    NUM_LOGISTIC,
    OPERATORS,
    CosineKernel,
    Weights,
    invert,
    own_penalties,
)
from unitail.relational.relations import MIN_UNIT, largest_score
from unitail.relational.weighing import Weighing, hear

MAX_ASKED, MIN_ASKED = 1000, 200
"""Labelled rows that evidence is heard from; fewer if classes are many, ..."""
MAX_ASKED_STATES = 2**21
"""... so that these times classes are no more than this."""
MAX_SOFTMAX = 2**27
"""Rows times classes up to which there are logistic regressions, which walk over them 20 times."""
MANY_WAYS = 500
"""Beyond so many classes rows are not related in pairs, whatever their number, ..."""
FEW_STEPS, FEW_NEIGHBOURS, FEW_ASKED = 8, 128, 300
"""... and regressions are cheaper."""
SHORTLIST = 64
"""Classes whose rows are in a neighbourhood, about."""
MIN_WEIGHT = 1e-4
"""Candidates that weigh less than this share are not asked."""
COSINES = tuple(
    (place, ridge.kernel.centre, ridge.penalty)
    for place, ridge in enumerate(OPERATORS + FURTHER)
    if isinstance(ridge.kernel, CosineKernel)
)
"""Place among ridge regressions, centre, penalty."""


@dataclass(frozen=True, eq=False)
class LargeReading:
    """A support after it was read; it answers queries by themselves."""

    moments: Moments
    ridges: Tensor
    """W of the ridge regressions on cosines, (them, d_T, K)."""
    regressions: Tensor
    """W of the logistic ones, (them, d_T, K)."""
    neighbourhoods: Neighbourhoods
    units: Tensor
    """(candidates, 1, 1)."""
    weights: Weights

    @classmethod
    @torch.no_grad()
    def of(cls, rows: LabelledRows, weighing: Weighing, *, origin: bool) -> "LargeReading":
        """Read all rows, some at a time; they come in random order, and the first are asked."""
        moments = Moments.of(rows, origin=origin)
        count = num_asked(len(rows.features), rows.ways)
        asked = torch.arange(count, device=rows.features.device)
        ridges, of_ridges = _ridge(rows, moments, asked)
        regressions, of_regressions = _regress(rows, moments, asked)
        unit = float(moments.scale.scale.double() ** 2 * moments.mean_distance.double())
        near = Neighbourhoods(rows, unit, num_neighbours(len(rows.features), rows.ways))
        left_out = torch.zeros(NUM_CANDIDATES, len(asked), rows.ways).to(rows.features)
        left_out[:NUM_LOGISTIC] = of_regressions
        left_out[[NUM_LOGISTIC + place for place, *_ in COSINES]] = of_ridges
        gaussians = [NUM_LOGISTIC + place for place, *_ in GAUSSIANS]
        left_out[gaussians] = near.votes(rows.features[asked], asked)
        units = left_out.pow(2).mean(dim=(1, 2), keepdim=True).sqrt()
        units = units.clamp_min(MIN_UNIT * (rows.ways - 1) ** 0.5 / rows.ways)
        evidence = hear(
            _ended(left_out / units)[None],
            rows.class_indices[asked][None],
            rows.shots.to(left_out)[None],
            moments.shapes.to(left_out),
            rows=len(rows.features),
        )
        weights = weighing(evidence, len(rows.features) / rows.ways, rows.ways)
        silent = (left_out == 0).all(dim=(1, 2)) | (
            weights.factors < MIN_WEIGHT * weights.factors.sum()
        )
        factors = torch.where(silent, 0, weights.factors)
        factors = factors * (weights.factors.sum() / factors.sum().clamp_min(1e-30))
        return cls(moments, ridges, regressions, near, units, replace(weights, factors=factors))

    @torch.no_grad()
    def scores(self, queries: Tensor) -> Tensor:
        """Score the classes for queries (m, d_T): (m, K)."""
        seen = self.moments.see(queries)
        total = torch.zeros(len(queries), self.ridges.shape[2]).to(queries)
        factors = self.weights.factors[0].tolist()
        for place, coefficients in enumerate(self.regressions):
            if factors[place]:
                total += self._part(place, seen[Centre.DIRECTION] @ coefficients)
        for (ridge, centre, _), coefficients in zip(COSINES, self.ridges, strict=True):
            if factors[NUM_LOGISTIC + ridge]:
                total += self._part(NUM_LOGISTIC + ridge, seen[centre] @ coefficients)
        places = [NUM_LOGISTIC + ridge for ridge, *_ in GAUSSIANS]
        if any(factors[place] for place in places):
            votes = self.neighbourhoods.votes(queries)
            for place, scores in zip(places, votes, strict=True):
                total += self._part(place, scores)
        return total

    def _part(self, place: int, scores: Tensor) -> Tensor:
        return self.weights.factors[0, place] * _ended(scores / self.units[place])


def _ended(scores: Tensor) -> Tensor:
    most = largest_score(scores.shape[-1])
    return scores.clamp(-most, most)


def num_asked(rows: int, ways: int) -> int:
    """Return how many rows evidence is heard from."""
    most = MAX_ASKED if ways <= MANY_WAYS else FEW_ASKED
    return min(rows, most, max(MIN_ASKED, MAX_ASKED_STATES // ways))


def num_neighbours(rows: int, ways: int) -> int:
    """Return how many rows are in a neighbourhood: of many classes, those of `SHORTLIST`."""
    if ways <= MANY_WAYS:
        return NEIGHBOURS
    return min(NEIGHBOURS, max(FEW_NEIGHBOURS, SHORTLIST * rows // ways))


def _ridge(rows: LabelledRows, moments: Moments, asked: Tensor) -> tuple[Tensor, Tensor]:
    """Return W of each ridge regression, and the scores of the asked rows without their labels."""
    features = rows.features[asked]
    seen = moments.see(features)
    labels = torch.nn.functional.one_hot(rows.class_indices[asked], rows.ways) - 1 / rows.ways
    coefficients, left_out = [], []
    for _, centre, penalty in COSINES:
        inverse = invert(_plus_diagonal(moments.products[centre], penalty))
        sums = moments.sums[centre]
        solution = inverse @ (sums - sums.sum(dim=0) / rows.ways).mT
        own = seen[centre].double()
        leverage = ((own @ inverse) * own).sum(dim=1, keepdim=True)
        left_out.append((own @ solution - leverage * labels) / (1 - leverage))
        coefficients.append(solution)
    kind = rows.features.dtype
    return torch.stack(coefficients).to(kind), torch.stack(left_out).to(kind)


def _regress(rows: LabelledRows, moments: Moments, asked: Tensor) -> tuple[Tensor, Tensor]:
    """Do the same for logistic regressions, in as many walks over all rows as they take steps.

    Of too many rows and classes there are none: their scores are 0, and evidence is against them.
    """
    if len(rows.features) * rows.ways > MAX_SOFTMAX:
        nothing = torch.zeros(NUM_LOGISTIC, 1, rows.ways).to(rows.features)
        w, left_out = (nothing.expand(-1, n, -1) for n in (rows.features.shape[1], len(asked)))
        return w, left_out
    kind, products = rows.features.dtype, moments.products[Centre.DIRECTION]
    few = rows.ways > MANY_WAYS
    chosen, steps = (
        (LOGISTIC_PENALTIES[-1:], FEW_STEPS) if few else (LOGISTIC_PENALTIES, LOGISTIC_STEPS)
    )
    penalties = torch.tensor(chosen).to(products).view(-1, 1, 1)
    inverses = torch.stack([invert(_plus_diagonal(products / 2, p)) for p in chosen])
    inverses = inverses.to(kind)
    penalties = penalties.to(kind)
    width = rows.features.shape[1]
    w = last = torch.zeros(len(chosen), width, rows.ways).to(rows.features)
    own = moments.see(rows.features[asked])[Centre.DIRECTION]
    labels = torch.nn.functional.one_hot(rows.class_indices[asked], rows.ways).to(kind)
    a = last_a = torch.zeros(len(chosen), *labels.shape).to(rows.features)
    units = _directions(rows, moments)
    for number in range(steps):
        ahead = number / (number + 3)
        start, start_a = torch.lerp(last, w, 1 + ahead), torch.lerp(last_a, a, 1 + ahead)
        slopes = _slopes(rows, units, start) - moments.sums[Centre.DIRECTION].mT.to(start)
        step = inverses @ (slopes + penalties * start)
        last, w = w, start - step
        # What a row's own coefficient does: lambda M slope = slope - U U' M slope / 2.
        slope = (own @ start).softmax(dim=-1) - labels + penalties * start_a
        last_a, a = a, start_a - (slope - own @ step / 2) / penalties
    bent = _bent_products(rows, units, w, penalties)
    scores = own @ w
    lengths = own_penalties(scores[None], penalties)[0].double()  # L, (regressions, asked)
    unit = torch.eye(width).to(bent)
    inside = ((own.double() @ invert(bent + unit)) * own).sum(dim=2)
    diagonal = 1 / lengths - inside / lengths**2
    gain = (lengths - 1 / diagonal).to(kind)
    left_out = scores + gain.unsqueeze(-1) * a
    return w.expand(NUM_LOGISTIC, -1, -1), left_out.expand(NUM_LOGISTIC, -1, -1)


def _directions(rows: LabelledRows, moments: Moments) -> Tensor:
    """Return U, which is walked over many times: (n, d_T)."""
    units = torch.empty_like(rows.features)
    for piece, (features, _) in zip(rows.split(units), rows.chunks(), strict=True):
        piece.copy_(moments.see(features)[Centre.DIRECTION])
    return units


def _slopes(rows: LabelledRows, units: Tensor, w: Tensor) -> Tensor:
    """Return U' softmax(U W): (regressions, d_T, K)."""
    total = torch.zeros_like(w)
    for seen in rows.split(units):
        total += seen.mT @ (seen @ w).softmax(dim=-1)
    return total


def _bent_products(rows: LabelledRows, units: Tensor, w: Tensor, penalties: Tensor) -> Tensor:
    """Return U' L^-1 U: (regressions, d_T, d_T)."""
    width = rows.features.shape[1]
    total = torch.zeros(len(w), width, width, dtype=torch.float64, device=w.device)
    for seen in rows.split(units):
        lengths = own_penalties((seen @ w)[None], penalties)[0]
        total += ((seen / lengths.unsqueeze(-1)).mT @ seen).double()
    return total


def _plus_diagonal(products: Tensor, penalty: float) -> Tensor:
    regular = products.clone()
    regular.diagonal().add_(penalty)
    return regular
