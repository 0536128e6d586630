r"""The first answer from a support with any number of rows, without pairs of rows.

A cosine kernel is the product of two rows of length 1, so what `regressions.py` solves for n rows
can be solved for d_T coordinates. With U the rows and S = U'U,

    ridge regression       W = (S + lambda I)^-1 U'Y,   scores u W
    ... without row i      (u_i W - h_i y_i) / (1 - h_i),   h_i = u_i (S + lambda I)^-1 u_i'
    logistic regression    W <- W - (S / 2 + lambda I)^-1 (U'(softmax(U W) - Y) + lambda W)
    ... without row i      as in `regressions.py`, where N_ii = 1 / L_i - u_i B^-1 u_i' / L_i^2 with
                           B = I + U' L^-1 U and L = lambda / w,

the same numbers as there, step by step, as a test checks. Gaussian kernels have a module of their
own (`gaussians.py`). Evidence comes from some of the rows, the first of a random order. The
correction by the blocks is in `committee.py`.

With more than `SPARSE_WAYS` classes and few labels of each, there are no logistic regressions and
only one Gaussian kernel, unless columns are few. Beyond `MAX_SOFTMAX` rows times classes there are
no logistic regressions either. The network of `weighing.py` still needs their evidence as input: it
gets that of the ridge regression on the same cosines, and that of the one Gaussian kernel. The
missing candidates have weight 0.

So every row counts, class shares are those of the support, and memory grows with d_T^2 + d_T K.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

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
    CandidateWeights,
    CosineKernel,
    invert,
    row_penalties,
)
from unitail.relational.relations import MIN_UNIT, largest_score
from unitail.relational.weighing import Weighing, evidence_from_scores

MAX_EVIDENCE_ROWS, SOME_EVIDENCE_ROWS, MIN_EVIDENCE_ROWS = 4000, 1000, 200
"""Number of labelled rows for evidence: with few rows, with many rows, with many classes."""
MAX_EVIDENCE_PAIRS, MAX_EVIDENCE_STATES = 2**24, 2**19
"""What decides between these numbers: about the largest number of rows for evidence times all rows,
and times classes."""
MAX_SOFTMAX = 2**27
"""Largest number of rows times classes with logistic regressions, which take 20 passes."""
SPARSE_WAYS, SPARSE_SHOTS = 100, 8
"""With more classes than the first, and fewer labels per class than the second, there may be fewer
regressions (`is_sparse`)."""
SPARSE_ROWS, MAX_PRODUCTS = 6, 2**29
"""There are, if rows are at most the first times columns, or rows times columns times classes
exceed the second."""
MIN_WEIGHT = 1e-4
"""Candidates with a smaller share of the weight are dropped."""
COSINES = tuple(
    (place, ridge.kernel.centre, ridge.penalty)
    for place, ridge in enumerate(OPERATORS + FURTHER)
    if isinstance(ridge.kernel, CosineKernel)
)
"""Cosine kernels: index among the ridge regressions, centre, penalty."""
STAND_IN_PLACE = NUM_OPERATORS + 1
STAND_IN = COSINES.index((STAND_IN_PLACE, Centre.DIRECTION, 0.3))
"""Index of the ridge regression whose evidence replaces that of missing logistic regressions."""


@dataclass(frozen=True, eq=False)
class LargeReading:
    """A support after it was read: the first answer to isolated queries."""

    rows: LabelledRows
    moments: Moments
    ridges: Tensor
    """W of the ridge regressions on cosines, (ridges, d_T, K)."""
    inverses: Tensor
    """(S + lambda I)^-1 of each of them, (ridges, d_T, d_T)."""
    regressions: Tensor
    """W of the logistic regressions, (regressions, d_T, K), or (0, d_T, K)."""
    gaussians: Gaussians
    units: Tensor
    """Root mean squares of the candidates' scores, (candidates, 1, 1)."""
    weights: CandidateWeights

    @classmethod
    @torch.no_grad()
    def of(cls, rows: LabelledRows, weighing: Weighing, *, origin: bool) -> "LargeReading":
        """Read all rows in chunks; rows are in random order, and the first ones give evidence."""
        moments = Moments.of(rows, origin=origin)
        size = len(rows.features), rows.ways, rows.features.shape[1]
        count = num_evidence_rows(*size[:2])
        ridges, inverses, ridge_scores = _ridge(rows, moments, count)
        regressions, logistic_scores = ridges[:0], ridge_scores[STAND_IN]
        if has_logistic(*size):
            regressions, logistic_scores = _regress(rows, moments, count)
        unit = float(moments.scale.scale.double() ** 2 * moments.mean_distance.double())
        gaussians = Gaussians.of(rows, unit, count, 1 if is_sparse(*size) else len(GAUSSIANS))
        left_out = torch.empty(NUM_CANDIDATES, count, rows.ways).to(rows.features)
        left_out[:NUM_LOGISTIC] = logistic_scores
        left_out[[NUM_LOGISTIC + place for place, *_ in COSINES]] = ridge_scores
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

        With `roughly`, by a single candidate on cosines, which are faster: the one with the largest
        weight, or else a default one.
        """
        total = torch.zeros(len(queries), self.ridges.shape[2]).to(queries)
        factors = self.weights.factors[0].tolist()
        used = {place for place, factor in enumerate(factors) if factor}
        if roughly:
            fast = used - {NUM_LOGISTIC + place for place, *_ in GAUSSIANS}
            used = {max(fast, key=factors.__getitem__, default=NUM_LOGISTIC + STAND_IN_PLACE)}
        for place, score in self._candidates(queries, used):
            total += (factors[place] or 1) * clipped(score / self.units[place])
        return total

    def _candidates(self, queries: Tensor, used: set[int]) -> Iterator[tuple[int, Tensor]]:
        """Yield the index of each candidate that is used, and its scores."""
        directions = self.moments.directions(queries)
        for place, w in enumerate(self.regressions):
            if place in used:
                yield place, directions[Centre.DIRECTION] @ w
        for (place, centre, _), w in zip(COSINES, self.ridges, strict=True):
            if NUM_LOGISTIC + place in used:
                yield NUM_LOGISTIC + place, directions[centre] @ w
        places = [NUM_LOGISTIC + place for place, *_ in GAUSSIANS]
        numbers = [number for number, place in enumerate(places) if place in used]
        for number, score in self.gaussians.scores(queries, numbers):
            yield places[number], score

    @cached_property
    def curvature_inverses(self) -> Tensor:
        """B^-1 of each logistic regression, for `influence.py`: (regressions, d_T, d_T)."""
        rows, w = self.rows, self.regressions
        penalties = torch.tensor(LOGISTIC_PENALTIES).to(w).view(-1, 1, 1)
        units = all_directions(rows, self.moments, Centre.DIRECTION)
        products = curvature_products(rows, units, w, penalties)
        return invert(products + torch.eye(products.shape[1]).to(products)).to(w)


def _without_light(factors: Tensor, missing: list[int]) -> Tensor:
    """Drop missing and light candidates, and scale up the factors of the others."""
    dropped = factors < MIN_WEIGHT * factors.sum()
    dropped[:, missing] = True
    remaining = torch.where(dropped, 0, factors)
    if not remaining.any():  # all candidates but the missing ones are light
        remaining = factors.clone()
        remaining[:, missing] = 0
    return remaining * (factors.sum() / remaining.sum())


def clipped(scores: Tensor) -> Tensor:
    """Clip scores (..., K) at the largest score that counts."""
    limit = largest_score(scores.shape[-1])
    return scores.clamp(-limit, limit)


def is_sparse(rows: int, ways: int, width: int) -> bool:
    """Return whether there are many classes with few labels each, and so fewer regressions.

    With many rows in few columns, logistic regressions are the best candidates and cost little.
    """
    few_labels = ways > SPARSE_WAYS and rows < SPARSE_SHOTS * ways
    return few_labels and (rows <= SPARSE_ROWS * width or rows * ways * width > MAX_PRODUCTS)


def has_logistic(rows: int, ways: int, width: int) -> bool:
    """Return whether there are logistic regressions."""
    return not is_sparse(rows, ways, width) and rows * ways <= MAX_SOFTMAX


def num_evidence_rows(rows: int, ways: int) -> int:
    """Return the number of rows for evidence."""
    by_rows = min(MAX_EVIDENCE_ROWS, max(SOME_EVIDENCE_ROWS, MAX_EVIDENCE_PAIRS // rows))
    return min(rows, by_rows, max(MIN_EVIDENCE_ROWS, MAX_EVIDENCE_STATES // ways))


def _ridge(rows: LabelledRows, moments: Moments, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return W of each ridge regression, the inverse for it, and leave-one-out scores.

    The scores are those of the first `count` rows.
    """
    dtype = rows.features.dtype
    directions, labels = moments.directions(rows.features[:count]), rows.centred_labels(count)
    coefficients, inverses, left_out = [], [], []
    for _, centre, penalty in COSINES:
        inverse = invert(plus_diagonal(moments.products[centre], penalty))
        sums = moments.sums[centre]
        w = (inverse @ (sums - sums.sum(dim=0) / rows.ways).mT).to(dtype)
        u = directions[centre].double()
        leverage = ((u @ inverse) * u).sum(dim=1, keepdim=True)  # h
        scores = directions[centre] @ w
        left_out.append((scores - leverage.to(dtype) * labels) / (1 - leverage).to(dtype))
        coefficients.append(w)
        inverses.append(inverse.to(dtype))
    return torch.stack(coefficients), torch.stack(inverses), torch.stack(left_out)


def _regress(rows: LabelledRows, moments: Moments, count: int) -> tuple[Tensor, Tensor]:
    """Return W of each logistic regression, and leave-one-out scores of the first `count` rows.

    Each step is a pass over all rows.
    """
    dtype, products = rows.features.dtype, moments.products[Centre.DIRECTION]
    penalties = torch.tensor(LOGISTIC_PENALTIES).to(rows.features).view(-1, 1, 1)
    inverses = torch.stack([invert(plus_diagonal(products / 2, p)) for p in LOGISTIC_PENALTIES])
    inverses = inverses.to(dtype)
    width = rows.features.shape[1]
    w = last = torch.zeros(NUM_LOGISTIC, width, rows.ways).to(rows.features)
    (u,) = moments.directions(rows.features[:count], [Centre.DIRECTION])
    labels = torch.nn.functional.one_hot(rows.class_indices[:count], rows.ways).to(dtype)
    # A of the first rows alone: W needs no A, but leaving a row out does.
    a = last_a = torch.zeros(NUM_LOGISTIC, *labels.shape).to(rows.features)
    units = all_directions(rows, moments, Centre.DIRECTION)
    for number in range(LOGISTIC_STEPS):
        ahead = number / (number + 3)
        start, start_a = torch.lerp(last, w, 1 + ahead), torch.lerp(last_a, a, 1 + ahead)
        slopes = _slopes(rows, units, start) - moments.sums[Centre.DIRECTION].mT.to(start)
        step = inverses @ (slopes + penalties * start)
        last, w = w, start - step
        # The same step for a row's own coefficient: lambda M slope = slope - U U' M slope / 2.
        slope = (u @ start).softmax(dim=-1) - labels + penalties * start_a
        last_a, a = a, start_a - (slope - u @ step / 2) / penalties
    curvatures = curvature_products(rows, units, w, penalties)
    scores = u @ w
    lengths = row_penalties(scores[None], penalties)[0].double()  # L, (regressions, count)
    identity = torch.eye(width).to(curvatures)
    inside = ((u.double() @ invert(curvatures + identity)) * u).sum(dim=2)
    diagonal = 1 / lengths - inside / lengths**2  # N_ii
    gain = (lengths - 1 / diagonal).to(dtype)
    left_out = scores + gain.unsqueeze(-1) * a
    return w, left_out * (u.norm(dim=-1, keepdim=True) > 0)  # exactly 0 for rows at the centre


def all_directions(rows: LabelledRows, moments: Moments, centre: Centre) -> Tensor:
    """Return U from a centre, for several passes: (n, d_T)."""
    units = torch.empty_like(rows.features)
    for piece, (features, _) in zip(rows.split(units), rows.chunks(), strict=True):
        piece.copy_(moments.directions(features, [centre])[0])
    return units


def _slopes(rows: LabelledRows, units: Tensor, w: Tensor) -> Tensor:
    """Return U' softmax(U W): (regressions, d_T, K)."""
    total = torch.zeros_like(w)
    for u in rows.split(units):
        total += u.mT @ (u @ w).softmax(dim=-1)
    return total


def curvature_products(rows: LabelledRows, units: Tensor, w: Tensor, penalties: Tensor) -> Tensor:
    """Return U' L^-1 U: (regressions, d_T, d_T)."""
    width = rows.features.shape[1]
    total = torch.zeros(len(w), width, width, dtype=torch.float64, device=w.device)
    for u in rows.split(units):
        lengths = row_penalties((u @ w)[None], penalties)[0]
        total += ((u / lengths.unsqueeze(-1)).mT @ u).double()
    return total


def plus_diagonal(products: Tensor, penalty: float) -> Tensor:
    """Return products (d_T, d_T) with a penalty added to the diagonal."""
    regular = products.clone()
    regular.diagonal().add_(penalty)
    return regular
