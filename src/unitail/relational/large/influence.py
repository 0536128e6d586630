r"""What each labelled row adds to an answer that was made without pairs of rows.

As in `relational/influence.py`, a candidate's score is a sum over rows, of what is carried from j
to x times what j has to say. In coordinates, with rows u of length 1,

    ridge regression      u_x (S + lambda I)^-1 u_j'    times its label, centred,
    logistic regression   u_x B^-1 u_j' / L_j     times S_j + L_j (y_j - p_j) / lambda, centred,

and Gaussian kernels say themselves what they carry. The second is exact where the regression has
come to rest, and near to it after the steps that it takes; what is left is nobody's. Blocks add
what the members of the committee do, by integrated gradients.
"""

from collections import defaultdict

import torch
from torch import Tensor

from unitail.relational.geometry import Centre
from unitail.relational.large.first_answer import COSINES, LargeReading, clipped
from unitail.relational.large.gaussians import GAUSSIANS
from unitail.relational.regressions import LOGISTIC_PENALTIES, NUM_LOGISTIC, row_penalties


@torch.no_grad()
def first_answer_parts(reading: LargeReading, queries: Tensor, classes: Tensor) -> Tensor:
    """Say what each row adds to the first scores of classes (m,): (m, n)."""
    rows, seen = reading.rows, reading.moments.see(queries)
    said = (rows.class_indices == classes.unsqueeze(1)).to(queries) - 1 / rows.ways  # (m, n)
    values = torch.zeros_like(said)
    for (place, *_), gaussian in zip(GAUSSIANS, reading.gaussians.ridges, strict=False):
        if reading.weights.factors[0, NUM_LOGISTIC + place]:
            share = _share(reading, NUM_LOGISTIC + place, gaussian.scores(queries), classes)
            values += share * gaussian.carried(queries)
    ridges, logistic = _ridges(reading, seen, classes), _regressions(reading, seen, classes)
    parts = zip(rows.chunks(), rows.split(values.mT), rows.split(said.mT), strict=True)
    for (features, known), piece, own in parts:
        directions = reading.moments.see(features)
        for centre, carried in ridges.items():
            piece.addmm_(directions[centre], carried.mT)
        piece.mul_(own)  # all of the above are carried labels
        for place, carried in logistic.items():
            units = directions[Centre.DIRECTION]
            says = _logistic(reading, place, units, known, classes)
            piece.addcmul_(says, units @ carried.mT)
    return values


def _ridges(reading: LargeReading, seen: Tensor, classes: Tensor) -> dict[Centre, Tensor]:
    """Return what is carried to queries, as seen (centres, m, d_T), by all that have a centre."""
    carried: dict[Centre, Tensor] = defaultdict(lambda: torch.zeros_like(seen[0]))
    solved = zip(COSINES, reading.ridges, reading.inverses, strict=True)
    for (place, centre, _), coefficients, inverse in solved:
        if reading.weights.factors[0, NUM_LOGISTIC + place]:
            own = seen[centre]
            share = _share(reading, NUM_LOGISTIC + place, own @ coefficients, classes)
            carried[centre] += share * (own @ inverse)
    return carried


def _regressions(reading: LargeReading, seen: Tensor, classes: Tensor) -> dict[int, Tensor]:
    """Return what each logistic regression carries to queries."""
    carried, own = {}, seen[Centre.DIRECTION]
    for place, coefficients in enumerate(reading.regressions):
        if reading.weights.factors[0, place]:
            share = _share(reading, place, own @ coefficients, classes)
            carried[place] = share * (own @ reading.curvature_inverses[place])
    return carried


def _share(reading: LargeReading, place: int, scores: Tensor, classes: Tensor) -> Tensor:
    """Return what a candidate's scores (m, K) count in the first answer, by a factor: (m, 1).

    A score that is ended counts less, and so does what each row adds to it.
    """
    raw = (scores / reading.units[place]).gather(1, classes.unsqueeze(1))
    used = clipped(scores / reading.units[place]).gather(1, classes.unsqueeze(1))
    counted = torch.where(raw == used, 1, used / raw)
    return counted * reading.weights.factors[0, place] / reading.units[place]


def _logistic(
    reading: LargeReading, place: int, units: Tensor, known: Tensor, classes: Tensor
) -> Tensor:
    """Return what rows with directions (r, d_T) and labels have to say of classes (m,): (r, m)."""
    penalties = torch.full((1, 1, 1), LOGISTIC_PENALTIES[place]).to(units)
    scores = units @ reading.regressions[place]
    lengths = row_penalties(scores[None, None], penalties)[0, 0].unsqueeze(1)  # L
    labels = torch.nn.functional.one_hot(known, scores.shape[1]).to(scores)
    targets = scores + lengths * (labels - scores.softmax(dim=1)) / penalties[0]
    return (targets - targets.mean(dim=1, keepdim=True))[:, classes] / lengths
