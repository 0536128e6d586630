r"""What each labelled row adds to an answer that was made without pairs of rows.

As in `relational/influence.py`, a candidate's score is a sum over rows, of what is carried from j
to x times what j has to say. In coordinates, with rows u of length 1,

    ridge regression      u_x (S + lambda I)^-1 u_j'    times its label, centred,
    logistic regression   u_x B^-1 u_j' / L_j     times S_j + L_j (y_j - p_j) / lambda, centred,

and Gaussian kernels say themselves what they carry. The second is exact where the regression has
come to rest, and near to it after the steps that it takes; what is left is nobody's. Blocks add
what the members of the committee do, by integrated gradients.
"""

import torch
from torch import Tensor

from unitail.relational.geometry import Centre
from unitail.relational.large.first_answer import (
    COSINES,
    LargeReading,
    all_directions,
    bent_products,
    ended,
    is_sparse,
    plus_diagonal,
)
from unitail.relational.large.gaussians import GAUSSIANS
from unitail.relational.regressions import (
    LOGISTIC_PENALTIES,
    NUM_LOGISTIC,
    invert,
    own_penalties,
)


@torch.no_grad()
def first_answer_parts(reading: LargeReading, queries: Tensor, classes: Tensor) -> Tensor:
    """Say what each row adds to the first scores of classes (m,): (m, n)."""
    rows = reading.rows
    said = (rows.class_indices == classes.unsqueeze(1)).to(queries) - 1 / rows.ways  # (m, n)
    values = torch.zeros_like(said)
    seen, factors = reading.moments.see(queries), reading.weights.factors[0].tolist()
    for place, coefficients in enumerate(reading.regressions):
        if factors[place]:
            own = seen[Centre.DIRECTION]
            share = _share(reading, place, own @ coefficients, classes)
            values += share * _logistic(reading, place, own, classes)
    for (place, centre, penalty), coefficients in zip(COSINES, reading.ridges, strict=True):
        if factors[NUM_LOGISTIC + place]:
            own = seen[centre]
            share = _share(reading, NUM_LOGISTIC + place, own @ coefficients, classes)
            inverse = invert(plus_diagonal(reading.moments.products[centre], penalty))
            carried = own @ inverse.to(own) @ all_directions(rows, reading.moments, centre).mT
            values += share * carried * said
    for (place, *_), gaussian in zip(GAUSSIANS, reading.gaussians.ridges, strict=True):
        if factors[NUM_LOGISTIC + place]:
            share = _share(reading, NUM_LOGISTIC + place, gaussian.scores(queries), classes)
            values += share * gaussian.carried(queries) * said
    return values


def _share(reading: LargeReading, place: int, scores: Tensor, classes: Tensor) -> Tensor:
    """Return what a candidate's scores (m, K) count in the first answer, by a factor: (m, 1).

    A score that is ended counts less, and so does what each row adds to it.
    """
    raw = (scores / reading.units[place]).gather(1, classes.unsqueeze(1))
    used = ended(scores / reading.units[place]).gather(1, classes.unsqueeze(1))
    counted = torch.where(raw == used, 1, used / raw)
    return counted * reading.weights.factors[0, place] / reading.units[place]


def _logistic(reading: LargeReading, place: int, own: Tensor, classes: Tensor) -> Tensor:
    """Return what rows add to a logistic regression's scores of classes (m,): (m, n)."""
    rows, w = reading.rows, reading.regressions[place]
    penalty = LOGISTIC_PENALTIES[-1 if is_sparse(rows) else place]
    units = all_directions(rows, reading.moments, Centre.DIRECTION)
    penalties = torch.full((1, 1, 1), penalty).to(w)
    bent = bent_products(rows, units, w[None], penalties)[0]
    carried = own @ invert(plus_diagonal(bent, 1.0)).to(own)
    values = torch.empty(len(own), len(units)).to(own)
    pieces = (rows.split(units), rows.split(rows.class_indices), rows.split(values.mT))
    for seen, known, piece in zip(*pieces, strict=True):
        scores = seen @ w
        lengths = own_penalties(scores[None, None], penalties)[0, 0].unsqueeze(1)  # L
        labels = torch.nn.functional.one_hot(known, rows.ways).to(scores)
        targets = scores + lengths * (labels - scores.softmax(dim=1)) / penalty
        targets = targets - targets.mean(dim=1, keepdim=True)
        piece.copy_(seen @ carried.mT / lengths * targets[:, classes])
    return values
