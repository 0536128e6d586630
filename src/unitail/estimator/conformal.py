r"""Prediction sets with a promised coverage, from answers about the support's own rows.

Every row that can be left out of the support is asked as a query of the rest. Its score is
1 - p(true class). With the n scores, the set of a query is {k : 1 - p_k <= q}, where q is the
ceil((n + 1) coverage)-th smallest score; where there are not so many, q is infinite and the set
holds all classes. A row alone in its class cannot be left out: without it the class is unknown.

One row of every class is left out at a time. Leaving out single rows would take K times as many
readings, and put each row at a disadvantage: its class alone would be short of an example.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.configuration import require
from unitail.estimator.fitted import FittedSupport
from unitail.estimator.reduction import Rows
from unitail.learners.budget import episodes_at_once

MOST_PARTS = 20
"""The parts that a support is left out in; classes of more rows leave several out at a time."""


@dataclass(frozen=True, eq=False)
class Conformal:
    """The prediction sets of a fitted support; scores are computed when first needed."""

    fitted: FittedSupport

    def __getstate__(self) -> dict[str, FittedSupport]:
        return {"fitted": self.fitted}

    def __call__(
        self, log_probabilities: NDArray[np.float64], coverage: float
    ) -> NDArray[np.bool_]:
        """Choose the classes of each query: (m, K)."""
        require(0 < coverage < 1, "coverage", got=coverage, allowed="a number between 0 and 1")
        return prediction_sets(np.exp(log_probabilities), self.scores, coverage)

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """1 - p(true class) of the rows that can be left out."""
        return held_out_scores(self.fitted)


def held_out_scores(fitted: FittedSupport) -> NDArray[np.float64]:
    """Return 1 - p(true class) of the rows that can be left out; none if no class has two."""
    fitted = fitted.isolated
    parts = left_out_parts(fitted.rows)
    if fitted.kept is not fitted.rows:  # each part costs a reduction: one is enough
        parts = parts[:1]
        scores = [_scores_alone(fitted, part) for part in parts]
    else:
        scores = [_scores_together(fitted, group) for group in _groups(fitted, parts)]
    return np.concatenate([np.empty(0), *scores])


def left_out_parts(rows: Rows) -> list[NDArray[np.int64]]:
    """Deal the rows of classes with two or more into parts that each leave every class a row."""
    count = min(int(rows.shots.max()), MOST_PARTS)
    order = np.argsort(rows.class_indices, kind="stable")
    ranks = np.concatenate([np.arange(shots) for shots in rows.shots])  # within the class
    several = rows.shots[rows.class_indices[order]] > 1
    parts = (order[several & (ranks % count == place)] for place in range(count))
    return [part for part in parts if len(part)]


def threshold(scores: NDArray[np.float64], coverage: float) -> float:
    """Return the largest score that a class in the set may have."""
    rank = math.ceil((len(scores) + 1) * coverage)
    return float(np.sort(scores)[rank - 1]) if rank <= len(scores) else math.inf


def prediction_sets(
    probabilities: NDArray[np.float64], scores: NDArray[np.float64], coverage: float
) -> NDArray[np.bool_]:
    """Choose the classes of each query: (m, K), (n,) -> (m, K).

    Without scores it is the most probable classes until their probabilities reach the coverage. The
    most probable class is always in.
    """
    if len(scores):
        member = 1 - probabilities <= threshold(scores, coverage)
    else:
        order = np.argsort(-probabilities, axis=1, kind="stable")
        ranked = np.take_along_axis(probabilities, order, axis=1)
        before = np.cumsum(ranked, axis=1) - ranked
        member = np.empty(probabilities.shape, dtype=bool)
        np.put_along_axis(member, order, before < coverage, axis=1)
    member[np.arange(len(member)), probabilities.argmax(axis=1)] = True
    return member


def _groups(fitted: FittedSupport, parts: list[NDArray[np.int64]]) -> Iterator[NDArray[np.int64]]:
    """Put parts of the same size together, as many as fit into bounded memory: (B, size)."""
    rows = fitted.rows
    most = episodes_at_once(fitted.learner.model, len(rows.class_indices), 0, rows.ways)
    for size in sorted({len(part) for part in parts}):
        same = np.stack([part for part in parts if len(part) == size])
        yield from np.split(same, range(most, len(same), most))


def _scores_together(fitted: FittedSupport, group: NDArray[np.int64]) -> NDArray[np.float64]:
    """Leave out parts (B, size), each in an episode of its own."""
    everyone = np.arange(len(fitted.rows.class_indices))
    rest = np.stack([np.delete(everyone, part) for part in group])  # (B, n - size)
    features = fitted.rows.features
    support = fitted.support(features[rest], fitted.rows.class_indices[rest])
    asked = torch.from_numpy(features[group])
    answers = fitted.learner.infer(support, asked).double().log_softmax(dim=-1)
    truth = torch.from_numpy(fitted.rows.class_indices[group]).to(answers.device)
    right = answers.exp().gather(2, truth.unsqueeze(-1)).flatten()
    scores: NDArray[np.float64] = (1 - right).cpu().numpy()
    return scores


def _scores_alone(fitted: FittedSupport, part: NDArray[np.int64]) -> NDArray[np.float64]:
    """Leave out one part of a support that is reduced before it is read."""
    rest = np.ones(len(fitted.rows.class_indices), dtype=bool)
    rest[part] = False
    left_out = fitted.rows.take(part)
    answers = fitted.on(fitted.rows.take(rest)).log_probabilities(left_out.features)
    scores: NDArray[np.float64] = 1 - np.exp(answers[np.arange(len(part)), left_out.class_indices])
    return scores
