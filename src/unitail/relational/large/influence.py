r"""What each labelled row adds to an answer that was made without pairs of rows.

As in `relational/influence.py`, a candidate's score is a sum over rows j of weights times targets.
In coordinates, with rows u of length 1, these are

    ridge regression      u_x (S + lambda I)^-1 u_j'    times the centred label,
    logistic regression   u_x B^-1 u_j' / L_j     times S_j + L_j (y_j - p_j) / lambda, centred;

for Gaussian kernels see `row_weights` in `gaussians.py`. The second is exact at the minimum of the
regression, and close to it after the steps that are taken; the difference belongs to no row. To
this, blocks add the contributions of the committee's members, by integrated gradients.
"""

from collections import defaultdict

import torch
from torch import Tensor

from unitail.relational.geometry import Centre
from unitail.relational.large.first_answer import COSINES, LargeReading, clipped
from unitail.relational.large.gaussians import GAUSSIANS
from unitail.relational.regressions import LOGISTIC_PENALTIES, NUM_LOGISTIC, row_penalties


@torch.no_grad()
def first_answer_contributions(reading: LargeReading, queries: Tensor, classes: Tensor) -> Tensor:
    """Return what each row adds to the first answer for classes (m,): (m, n)."""
    rows, directions = reading.rows, reading.moments.directions(queries)
    labels = (rows.class_indices == classes.unsqueeze(1)).to(queries) - 1 / rows.ways  # (m, n)
    values = _gaussians(reading, queries, classes)
    ridges = _ridges(reading, directions, classes)
    logistic = _regressions(reading, directions, classes)
    parts = zip(rows.chunks(), rows.split(values.mT), rows.split(labels.mT), strict=True)
    for (features, class_indices), piece, piece_labels in parts:
        directions = reading.moments.directions(features)
        for centre, row_weights in ridges.items():
            piece.addmm_(directions[centre], row_weights.mT)
        piece.mul_(piece_labels)  # the target of all of the above
        for place, row_weights in logistic.items():
            units = directions[Centre.DIRECTION]
            targets = _logistic_targets(reading, place, units, class_indices, classes)
            piece.addcmul_(targets, units @ row_weights.mT)
    return values


def _gaussians(reading: LargeReading, queries: Tensor, classes: Tensor) -> Tensor:
    """Return the weights of rows' centred labels in all Gaussian ridge regressions: (m, n)."""
    gaussians = zip(GAUSSIANS, reading.gaussians.ridges, strict=False)
    used = [
        (NUM_LOGISTIC + place, gaussian)
        for (place, *_), gaussian in gaussians
        if reading.weights.factors[0, NUM_LOGISTIC + place]
    ]
    row_weights = torch.zeros(len(queries), len(reading.rows.features)).to(queries)
    if used:
        around = reading.gaussians.measure(queries)
        for place, gaussian in used:
            share = _share(reading, place, gaussian.scores(around), classes)
            row_weights += share * gaussian.row_weights(around)
    return row_weights


def _ridges(reading: LargeReading, directions: Tensor, classes: Tensor) -> dict[Centre, Tensor]:
    """Return u_x (S + lambda I)^-1, summed over the regressions at each centre: (m, d_T)."""
    row_weights: dict[Centre, Tensor] = defaultdict(lambda: torch.zeros_like(directions[0]))
    solved = zip(COSINES, reading.ridges, reading.inverses, strict=True)
    for (place, centre, _), coefficients, inverse in solved:
        if reading.weights.factors[0, NUM_LOGISTIC + place]:
            u = directions[centre]
            share = _share(reading, NUM_LOGISTIC + place, u @ coefficients, classes)
            row_weights[centre] += share * (u @ inverse)
    return row_weights


def _regressions(reading: LargeReading, directions: Tensor, classes: Tensor) -> dict[int, Tensor]:
    """Return u_x B^-1 of each logistic regression, by its index: (m, d_T)."""
    row_weights, u = {}, directions[Centre.DIRECTION]
    for place, coefficients in enumerate(reading.regressions):
        if reading.weights.factors[0, place]:
            share = _share(reading, place, u @ coefficients, classes)
            row_weights[place] = share * (u @ reading.curvature_inverses[place])
    return row_weights


def _share(reading: LargeReading, place: int, scores: Tensor, classes: Tensor) -> Tensor:
    """Return the factor of a candidate's scores (m, K) in the first answer: (m, 1).

    Where a score is clipped, the contributions of all rows shrink by the same factor.
    """
    raw = (scores / reading.units[place]).gather(1, classes.unsqueeze(1))
    used = clipped(scores / reading.units[place]).gather(1, classes.unsqueeze(1))
    shrinking = torch.where(raw == used, 1, used / raw)
    return shrinking * reading.weights.factors[0, place] / reading.units[place]


def _logistic_targets(
    reading: LargeReading, place: int, units: Tensor, class_indices: Tensor, classes: Tensor
) -> Tensor:
    """Return targets / L of rows with directions (r, d_T) and labels, for classes (m,): (r, m)."""
    penalties = torch.full((1, 1, 1), LOGISTIC_PENALTIES[place]).to(units)
    scores = units @ reading.regressions[place]
    lengths = row_penalties(scores[None, None], penalties)[0, 0].unsqueeze(1)  # L
    labels = torch.nn.functional.one_hot(class_indices, scores.shape[1]).to(scores)
    targets = scores + lengths * (labels - scores.softmax(dim=1)) / penalties[0]
    return (targets - targets.mean(dim=1, keepdim=True))[:, classes] / lengths
