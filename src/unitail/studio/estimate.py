"""How right the answers are by the labels so far, and what some more would bring.

The code is that of `unitail evaluate`. Items that were chosen since they are doubtful are harder
than the rest, so that the estimate is rather too low where suggestions were followed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unitail.errors import InvalidInput
from unitail.estimator.fitted import ClassifierLearner
from unitail.estimator.rows import Rows
from unitail.studio.latest import Labelled
from unitail.studio.vectors import Vectors
from unitail.workflows.learning_curve.curve import OwnCurve, own_curve
from unitail.workflows.learning_curve.interval import Estimate, forecast
from unitail.workflows.learning_curve.report import OURS, percent
from unitail.workflows.learning_curve.splits import thinned
from unitail.workflows.predict import make_classifier

SPLITS = 20
"""Of each size: it should take seconds."""
MORE = 10
"""Labels whose gain is told."""


class Superseded(Exception):
    """Labels have changed since: nobody waits for this estimate."""


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """The accuracy with the labels so far."""

    labels: int
    now: Estimate
    later: Estimate
    """With `MORE` labels."""
    curve: tuple[tuple[float, Estimate], ...]
    """By labels of a class."""
    suspicious: tuple[tuple[int, int, float], ...]
    """Labels that look wrong: place, the likely class, and how probable that is."""

    @property
    def sentence(self) -> str:
        """Say it."""
        return (
            f"About {percent(self.now)} right with {self.labels} labels;"
            f" {MORE} more: about {100 * self.later.mean:.0f} %"
        )


def estimate(
    vectors: Vectors, named: Labelled, *, device: str, is_over: Callable[[], bool]
) -> Estimated | None:
    """Estimate the accuracy; None if there are too few labels for it."""
    known = set(vectors.known().tolist())
    pairs = [pair for pair in zip(*named.support, strict=True) if pair[0] in known]
    classes, indices = np.unique([each for _, each in pairs], return_inverse=True)
    if len(classes) < 2:
        return None
    places = np.array([place for place, _ in pairs])
    rows = Rows(vectors.at(places), indices.astype(np.int64), len(classes))

    def check(_done: int, _total: int) -> None:
        if is_over():
            raise Superseded

    kept = thinned(rows, seed=0)
    learner = ClassifierLearner.of(make_classifier(encoder=vectors.chosen, device=device))
    try:
        curve = own_curve(rows.take(kept), {OURS: learner}, splits=SPLITS, on_progress=check)
    except InvalidInput:
        return None
    return _told(curve, places[kept], classes.tolist(), len(pairs))


def _told(curve: OwnCurve, places: NDArray[np.int64], classes: list[int], labels: int) -> Estimated:
    accuracies = list(curve.accuracy(OURS).values())
    shots = [level.shots_on_average for level in curve.levels]
    return Estimated(
        labels=labels,
        now=accuracies[-1],
        later=forecast(shots, accuracies, shots[-1] * (labels + MORE) / labels),
        curve=tuple(zip(shots, accuracies, strict=True)),
        suspicious=tuple(
            (int(places[each.place]), int(each.likely), each.likely_probability)
            for each in curve.suspicious(OURS, [str(each) for each in classes])
        ),
    )
