r"""Supports of any number of rows: the first answer from all of them, without pairs of rows.

A cosine kernel is the product of two rows of length 1, so what `regressions.py`
solve among n rows can be solved among d_T coordinates. With U the rows and S = U'U,

    ridge regression       W = (S + lambda I)^-1 U'Y,   scores u W
    ... without row i      (u_i W - h_i y_i) / (1 - h_i),   h_i = u_i (S + lambda I)^-1 u_i'
    logistic regression    W <- W - (S / 2 + lambda I)^-1 (U'(softmax(U W) - Y) + lambda W)
    ... without row i      as in `regressions.py`, where N_ii = 1 / L_i - u_i B^-1 u_i' / L_i^2 with
                           B = I + U' L^-1 U and L = lambda / w,

which are the same numbers as there, step by step: a test says so. Gaussian kernels have a module of
their own (`gaussians.py`). Evidence is heard from some rows, the first of a random order. What
blocks make of it is in `committee.py`.

Of more than `FEW_WAYS` classes with few labels there are no logistic regressions, and one Gaussian
kernel, but where columns are few; nor are there logistic ones of more rows and classes than can be
walked over 20 times. Where the weighing asks for their evidence, that of the ridge regression on
the same cosines stands for it, and that of the one kernel; they have no say.

So every row counts, class shares are those of the support, and memory grows with d_T^2 + d_T K.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from torch import Tensor

from unitail.relational.geometry import Centre
from unitail.relational.large.gaussians import GAUSSIANS, Gaussians
from unitail.relational.large.moments import LabelledRows, Moments
from unitail.relational.regressions import (
    FURTHER,
    LOGISTIC_PENALTIES,
    LOGISTIC_STEPS,
    NUM_CANDIDATES,
    NUM_LOGISTIC,
    NUM_OPERATORS,
    OPERATORS,
    CosineKernel,
    invert,
    row_penalties,
)
from unitail.relational.relations import MIN_UNIT, largest_score
from unitail.relational.weighing import Weighing, Weights, evidence_from_scores

MAX_ASKED, SOME_ASKED, MIN_ASKED = 4000, 1000, 200
"""Labelled rows that evidence is heard from: the first of few rows, the second of many, the third
of many classes, ..."""
MAX_ASKED_PAIRS, MAX_ASKED_STATES = 2**24, 2**19
"""... so that they, times rows or classes, are about this, or less."""
MAX_SOFTMAX = 2**27
"""Rows times classes up to which there are logistic regressions, which walk over them 20 times."""
FEW_WAYS, FEW_SHOTS = 100, 8
"""Of more classes than the first with fewer labels than the second regressions are fewer, ..."""
FEW_ROWS, MAX_PRODUCTS = 6, 2**29
"""... if rows are at most the first times as many as columns, or all three multiplied are more."""
MIN_WEIGHT = 1e-4
"""Candidates that weigh less than this share are not asked."""
COSINES = tuple(
    (place, ridge.kernel.centre, ridge.penalty)
    for place, ridge in enumerate(OPERATORS + FURTHER)
    if isinstance(ridge.kernel, CosineKernel)
)
"""Place among ridge regressions, centre, penalty."""
STAND_IN_PLACE = NUM_OPERATORS + 1
STAND_IN = COSINES.index((STAND_IN_PLACE, Centre.DIRECTION, 0.3))
"""The one of them whose evidence stands for that of logistic regressions, if there are none."""


@dataclass(frozen=True, eq=False)
class LargeReading:
    """A support after it was read; it answers queries by themselves."""

    rows: LabelledRows
    moments: Moments
    ridges: Tensor
    """W of the ridge regressions on cosines, (them, d_T, K)."""
    inverses: Tensor
    """(S + lambda I)^-1 of each of them, (them, d_T, d_T)."""
    regressions: Tensor
    """W of the logistic ones, (them, d_T, K), or (0, d_T, K)."""
    gaussians: Gaussians
    units: Tensor
    """(candidates, 1, 1)."""
    weights: Weights

    @classmethod
    @torch.no_grad()
    def of(cls, rows: LabelledRows, weighing: Weighing, *, origin: bool) -> "LargeReading":
        """Read all rows, some at a time; they come in random order, and the first are asked."""
        moments = Moments.of(rows, origin=origin)
        size = len(rows.features), rows.ways, rows.features.shape[1]
        count = num_evidence_rows(*size[:2])
        ridges, inverses, of_ridges = _ridge(rows, moments, count)
        regressions, of_regressions = ridges[:0], of_ridges[STAND_IN]
        if has_logistic(*size):
            regressions, of_regressions = _regress(rows, moments, count)
        unit = float(moments.scale.scale.double() ** 2 * moments.mean_distance.double())
        gaussians = Gaussians.of(rows, unit, count, 1 if is_sparse(*size) else len(GAUSSIANS))
        left_out = torch.empty(NUM_CANDIDATES, count, rows.ways).to(rows.features)
        left_out[:NUM_LOGISTIC] = of_regressions
        left_out[[NUM_LOGISTIC + place for place, *_ in COSINES]] = of_ridges
        left_out[[NUM_LOGISTIC + place for place, *_ in GAUSSIANS]] = gaussians.left_out
        units = left_out.pow(2).mean(dim=(1, 2), keepdim=True).sqrt()
        units = units.clamp_min(MIN_UNIT * (rows.ways - 1) ** 0.5 / rows.ways)
        evidence = evidence_from_scores(
            clipped(left_out / units)[None],
            rows.class_indices[None, :count],
            rows.shots.to(left_out)[None],
            moments.shapes.to(left_out),
            rows=len(rows.features),
        )
        weights = weighing(evidence, len(rows.features) / rows.ways, rows.ways)
        missing = [*range(len(regressions), NUM_LOGISTIC)]
        missing += [NUM_LOGISTIC + place for place, *_ in GAUSSIANS[len(gaussians.ridges) :]]
        weights = replace(weights, factors=_without_light(weights.factors, missing))
        return cls(rows, moments, ridges, inverses, regressions, gaussians, units, weights)

    @torch.no_grad()
    def scores(self, queries: Tensor, *, roughly: bool = False) -> Tensor:
        """Score the classes for queries (m, d_T): (m, K).

        Roughly, by one candidate: that of most weight on cosines, which are faster, or a usual one.
        """
        total = torch.zeros(len(queries), self.ridges.shape[2]).to(queries)
        factors = self.weights.factors[0].tolist()
        asked = {place for place, factor in enumerate(factors) if factor}
        if roughly:
            fast = asked - {NUM_LOGISTIC + place for place, *_ in GAUSSIANS}
            asked = {max(fast, key=factors.__getitem__, default=NUM_LOGISTIC + STAND_IN_PLACE)}
        for place, ask in self._candidates(queries):
            if place in asked:
                total += (factors[place] or 1) * clipped(ask() / self.units[place])
        return total

    def _candidates(self, queries: Tensor) -> Iterator[tuple[int, Callable[[], Tensor]]]:
        """Give the place of each candidate, and how it is asked."""
        seen = self.moments.see(queries)
        for place, w in enumerate(self.regressions):
            yield place, partial(torch.matmul, seen[Centre.DIRECTION], w)
        for (place, centre, _), w in zip(COSINES, self.ridges, strict=True):
            yield NUM_LOGISTIC + place, partial(torch.matmul, seen[centre], w)
        for (place, *_), gaussian in zip(GAUSSIANS, self.gaussians.ridges, strict=False):
            yield NUM_LOGISTIC + place, partial(gaussian.scores, queries)

    @cached_property
    def curvature_inverses(self) -> Tensor:
        """B^-1 of each logistic regression, for `influence.py`: (them, d_T, d_T)."""
        rows, w = self.rows, self.regressions
        penalties = torch.tensor(LOGISTIC_PENALTIES).to(w).view(-1, 1, 1)
        units = all_directions(rows, self.moments, Centre.DIRECTION)
        bent = curvature_products(rows, units, w, penalties)
        return invert(bent + torch.eye(bent.shape[1]).to(bent)).to(w)


def _without_light(factors: Tensor, missing: list[int]) -> Tensor:
    """Give what is missing, and what hardly weighs, no weight, and theirs to the others."""
    silent = factors < MIN_WEIGHT * factors.sum()
    silent[:, missing] = True
    kept = torch.where(silent, 0, factors)
    if not kept.any():  # all that are there hardly weigh
        kept = factors.clone()
        kept[:, missing] = 0
    return kept * (factors.sum() / kept.sum())


def clipped(scores: Tensor) -> Tensor:
    """End scores (..., K) where they count no more."""
    most = largest_score(scores.shape[-1])
    return scores.clamp(-most, most)


def is_sparse(rows: int, ways: int, width: int) -> bool:
    """Tell whether there are many classes and few labels of each: regressions are fewer then.

    Of many rows in few columns logistic regressions say most, and cost little.
    """
    few = ways > FEW_WAYS and rows < FEW_SHOTS * ways
    return few and (rows <= FEW_ROWS * width or rows * ways * width > MAX_PRODUCTS)


def has_logistic(rows: int, ways: int, width: int) -> bool:
    """Tell whether there are logistic regressions."""
    return not is_sparse(rows, ways, width) and rows * ways <= MAX_SOFTMAX


def num_evidence_rows(rows: int, ways: int) -> int:
    """Return how many rows evidence is heard from."""
    by_rows = min(MAX_ASKED, max(SOME_ASKED, MAX_ASKED_PAIRS // rows))
    return min(rows, by_rows, max(MIN_ASKED, MAX_ASKED_STATES // ways))


def _ridge(rows: LabelledRows, moments: Moments, asked: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return W of each ridge regression, the inverse that it is solved by, ...

    ... and the scores of the asked rows without their labels.
    """
    kind = rows.features.dtype
    seen, labels = moments.see(rows.features[:asked]), rows.centred_labels(asked)
    coefficients, inverses, left_out = [], [], []
    for _, centre, penalty in COSINES:
        inverse = invert(plus_diagonal(moments.products[centre], penalty))
        sums = moments.sums[centre]
        solution = (inverse @ (sums - sums.sum(dim=0) / rows.ways).mT).to(kind)
        own = seen[centre].double()
        leverage = ((own @ inverse) * own).sum(dim=1, keepdim=True)
        scores = seen[centre] @ solution
        left_out.append((scores - leverage.to(kind) * labels) / (1 - leverage).to(kind))
        coefficients.append(solution)
        inverses.append(inverse.to(kind))
    return torch.stack(coefficients), torch.stack(inverses), torch.stack(left_out)


def _regress(rows: LabelledRows, moments: Moments, asked: int) -> tuple[Tensor, Tensor]:
    """Do the same for logistic regressions, in as many walks over all rows as they take steps."""
    kind, products = rows.features.dtype, moments.products[Centre.DIRECTION]
    penalties = torch.tensor(LOGISTIC_PENALTIES).to(rows.features).view(-1, 1, 1)
    inverses = torch.stack([invert(plus_diagonal(products / 2, p)) for p in LOGISTIC_PENALTIES])
    inverses = inverses.to(kind)
    width = rows.features.shape[1]
    w = last = torch.zeros(NUM_LOGISTIC, width, rows.ways).to(rows.features)
    own = moments.see(rows.features[:asked])[Centre.DIRECTION]
    labels = torch.nn.functional.one_hot(rows.class_indices[:asked], rows.ways).to(kind)
    a = last_a = torch.zeros(NUM_LOGISTIC, *labels.shape).to(rows.features)
    units = all_directions(rows, moments, Centre.DIRECTION)
    for number in range(LOGISTIC_STEPS):
        ahead = number / (number + 3)
        start, start_a = torch.lerp(last, w, 1 + ahead), torch.lerp(last_a, a, 1 + ahead)
        slopes = _slopes(rows, units, start) - moments.sums[Centre.DIRECTION].mT.to(start)
        step = inverses @ (slopes + penalties * start)
        last, w = w, start - step
        # What a row's own coefficient does: lambda M slope = slope - U U' M slope / 2.
        slope = (own @ start).softmax(dim=-1) - labels + penalties * start_a
        last_a, a = a, start_a - (slope - own @ step / 2) / penalties
    bent = curvature_products(rows, units, w, penalties)
    scores = own @ w
    lengths = row_penalties(scores[None], penalties)[0].double()  # L, (regressions, asked)
    unit = torch.eye(width).to(bent)
    inside = ((own.double() @ invert(bent + unit)) * own).sum(dim=2)
    diagonal = 1 / lengths - inside / lengths**2
    gain = (lengths - 1 / diagonal).to(kind)
    left_out = scores + gain.unsqueeze(-1) * a
    return w, left_out * (own.norm(dim=-1, keepdim=True) > 0)  # of rows at the centre: exactly 0


def all_directions(rows: LabelledRows, moments: Moments, centre: Centre) -> Tensor:
    """Return U, as seen from a centre, for several walks over it: (n, d_T)."""
    units = torch.empty_like(rows.features)
    for piece, (features, _) in zip(rows.split(units), rows.chunks(), strict=True):
        piece.copy_(moments.see(features)[centre])
    return units


def _slopes(rows: LabelledRows, units: Tensor, w: Tensor) -> Tensor:
    """Return U' softmax(U W): (regressions, d_T, K)."""
    total = torch.zeros_like(w)
    for seen in rows.split(units):
        total += seen.mT @ (seen @ w).softmax(dim=-1)
    return total


def curvature_products(rows: LabelledRows, units: Tensor, w: Tensor, penalties: Tensor) -> Tensor:
    """Return U' L^-1 U: (regressions, d_T, d_T)."""
    width = rows.features.shape[1]
    total = torch.zeros(len(w), width, width, dtype=torch.float64, device=w.device)
    for seen in rows.split(units):
        lengths = row_penalties((seen @ w)[None], penalties)[0]
        total += ((seen / lengths.unsqueeze(-1)).mT @ seen).double()
    return total


def plus_diagonal(products: Tensor, penalty: float) -> Tensor:
    """Add a penalty to the diagonal of products (d_T, d_T)."""
    regular = products.clone()
    regular.diagonal().add_(penalty)
    return regular
