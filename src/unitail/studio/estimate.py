r"""The estimated accuracy of the open answers, and how it will grow with more labels.

Labels are not a random sample: users follow suggestions, which are harder than most items, and
confirm what the model is sure of. So their accuracy, each hidden in turn, is not that of the open
items. But choosing items by the model's probability p does not change how often answers with that p
are right. Hence the estimate is

    mean p of the open items + c · mean (right - p) of the labelled ones, each hidden in turn,

where c = t² / (t² + e²) weighs how far probabilities may be off, t = MISCALIBRATION / shots^(3/4),
against the standard error e of the second mean. bench/studio_estimate.py sets the truth beside it.

The curve over numbers of labels is that of `unitail evaluate`. Answers that were confirmed many at
once (`Origin`) are neither hidden nor examples there: they are what the model finds easy. Items
that the studio suggested serve as examples; accuracy is measured on the others if these suffice.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unitail.errors import InvalidInput
from unitail.estimator.as_learner import ClassifierLearner
from unitail.estimator.rows import Rows
from unitail.studio.state import Labelled
from unitail.studio.stored_rows import Origin
from unitail.studio.vectors import ItemVectors
from unitail.workflows.fit import ClassifierOptions
from unitail.workflows.learning_curve.curve import OwnCurve, own_curve
from unitail.workflows.learning_curve.interval import Estimate, forecast
from unitail.workflows.learning_curve.report import OURS, percent
from unitail.workflows.learning_curve.splits import thinned

SPLITS = 20
"""Random splits per number of labels: few, since an estimate should take seconds."""
MORE = 10
"""Additional labels for which the accuracy is forecast."""
MISCALIBRATION = 0.2
"""How far the mean probability may be off the accuracy, with one label per class."""
DEVIATIONS = 2.5
"""Half the interval, in standard deviations: they are estimated from few labels themselves."""
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
    """Of the open answers; of labelled items, each hidden in turn, while nothing is answered."""
    later: Estimate
    """Forecast with `MORE` additional labels."""
    curve: tuple[tuple[float, Estimate], ...]
    """Pairs of labels per class and accuracy on labelled items."""
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
    vectors: ItemVectors,
    named: Labelled,
    open_probabilities: NDArray[np.float64],
    *,
    device: str,
    is_over: Callable[[], bool],
) -> Estimated | None:
    """Estimate the accuracy of open answers with these probabilities; None with too few labels."""
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
    learner = ClassifierLearner.of(
        ClassifierOptions(device=device).classifier(vectors.chosen_encoder)
    )
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
    if len(open_probabilities):
        estimated = _for_open_items(estimated, curve, open_probabilities)
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


def _for_open_items(
    estimated: Estimated, curve: OwnCurve, probabilities: NDArray[np.float64]
) -> Estimated:
    """Replace the accuracy on labelled items by that of the open answers; see the module."""
    hidden = curve.levels[-1]
    of_labelled = hidden.probabilities[OURS]
    is_right = of_labelled.argmax(axis=1) == hidden.rows.class_indices[hidden.query_rows]
    excess = is_right - of_labelled.max(axis=1)
    error = float(excess.std(ddof=1)) / np.sqrt(len(excess))
    off = MISCALIBRATION / hidden.shots_on_average**0.75
    trust = off**2 / (off**2 + error**2)
    mean = float(np.clip(probabilities.mean() + trust * excess.mean(), 0, 1))
    chance = float((probabilities * (1 - probabilities)).sum()) / len(probabilities) ** 2
    reach = DEVIATIONS * np.sqrt(trust * error**2 + chance)
    now = Estimate(mean, max(0.0, mean - reach), min(1.0, mean + reach))
    # The same share of the mistakes as on labelled items goes with more labels.
    before, after = estimated.now.mean, estimated.later.mean
    left = (1 - after) / (1 - before) if before < 1 else 1.0
    later = 1 - (1 - mean) * left
    gain = later - mean
    return replace(
        estimated, now=now, later=Estimate(later, now.low, min(1.0, now.high + 2 * gain))
    )
