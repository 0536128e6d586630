"""The estimated accuracy with the labels so far, and with some more.

The code is that of `unitail evaluate`: labels are hidden and predicted. Which labels may be used
for that depends on how they came about (`Origin`). Answers that were confirmed many at once are the
easy ones, so they are left out altogether. Items that the studio suggested are harder than most:
they serve as examples, but accuracy is measured on the others.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unitail.errors import InvalidInput
from unitail.estimator.fitted import ClassifierLearner
from unitail.estimator.rows import Rows
from unitail.studio.changes import Origin
from unitail.studio.latest import Labelled
from unitail.studio.vectors import Vectors
from unitail.workflows.learning_curve.curve import OwnCurve, own_curve
from unitail.workflows.learning_curve.interval import Estimate, forecast
from unitail.workflows.learning_curve.report import OURS, percent
from unitail.workflows.learning_curve.splits import thinned
from unitail.workflows.predict import make_classifier

SPLITS = 20
"""Random splits per number of labels: few, since an estimate should take seconds."""
MORE = 10
"""Additional labels for which the accuracy is forecast."""
MIN_COUNTED = 10
"""If the user picked fewer items than this, accuracy is measured on suggested ones as well."""


class Superseded(Exception):
    """Labels have changed, so this estimate is out of date."""


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """The accuracy with the labels so far."""

    labels: int
    """Number of labels, except those confirmed many at once."""
    confirmed: int
    """Number of labels confirmed many at once, which are not used."""
    now: Estimate
    later: Estimate
    """Forecast with `MORE` additional labels."""
    curve: tuple[tuple[float, Estimate], ...]
    """Pairs of labels per class and accuracy."""
    suspicious: tuple[tuple[int, int, float], ...]
    """Labels that look wrong: place, likely class, and its probability."""

    @property
    def sentence(self) -> str:
        """The estimate in one sentence."""
        without = f" (without the {self.confirmed} confirmed at once)" if self.confirmed else ""
        return (
            f"About {percent(self.now)} right with {self.labels} labels{without};"
            f" {MORE} more: about {100 * self.later.mean:.0f} %"
        )


def estimate(
    vectors: Vectors, named: Labelled, *, device: str, is_over: Callable[[], bool]
) -> Estimated | None:
    """Estimate the accuracy; None if there are too few labels."""
    encoded = set(vectors.encoded_places().tolist())
    labels = [
        (place, class_id, origin)
        for place, class_id, origin in zip(*named.support, named.origins, strict=True)
        if place in encoded
    ]
    used = [label for label in labels if label[2] != Origin.CONFIRMED]
    classes, indices = np.unique([class_id for _, class_id, _ in used], return_inverse=True)
    if len(classes) < 2:
        return None
    places = np.array([place for place, _, _ in used])
    rows = Rows(vectors.at(places), indices.astype(np.int64), len(classes))
    is_chosen = np.array([origin != Origin.SUGGESTED for _, _, origin in used])
    checked = {place for place, _, origin in used if origin == Origin.CHECKED}

    def check(_done: int, _total: int) -> None:
        if is_over():
            raise Superseded

    kept = thinned(rows, seed=0)
    learner = ClassifierLearner.of(make_classifier(encoder=vectors.chosen_encoder, device=device))
    try:
        curve = own_curve(
            rows.take(kept),
            {OURS: learner},
            splits=SPLITS,
            counted=_counted(rows.take(kept), is_chosen[kept]),
            on_progress=check,
        )
    except InvalidInput:
        return None
    confirmed = len(labels) - len(used)
    estimated = _estimated(curve, places[kept], classes.tolist(), len(used), confirmed)
    unchecked = tuple(each for each in estimated.suspicious if each[0] not in checked)
    return replace(estimated, suspicious=unchecked)


def _counted(rows: Rows, is_chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the mask of rows to measure accuracy on: those the user picked, if they suffice."""
    can_be_hidden = rows.shots[rows.class_indices] > 1
    are_enough = int((is_chosen & can_be_hidden).sum()) >= MIN_COUNTED
    return is_chosen if are_enough else np.ones(len(rows), dtype=bool)


def _estimated(
    curve: OwnCurve, places: NDArray[np.int64], classes: list[int], labels: int, confirmed: int
) -> Estimated:
    measured = curve.accuracy(OURS)
    accuracies = list(measured.values())
    shots = [curve.levels[place].shots_on_average for place in measured]
    return Estimated(
        labels=labels,
        confirmed=confirmed,
        now=accuracies[-1],
        later=forecast(shots, accuracies, shots[-1] * (labels + MORE) / labels),
        curve=tuple(zip(shots, accuracies, strict=True)),
        suspicious=tuple(
            (int(places[each.place]), int(each.likely), each.likely_probability)
            for each in curve.suspicious(OURS, [str(each) for each in classes])
        ),
    )
