"""Labels that look wrong, judged by the other labelled rows when each row is left out.

A label is suspicious if another class is more probable, and its own probability is below
`MAX_PROBABILITY`. That limit was chosen on clothing17, intel_scenes6, trashnet5, monkeys10 and
neu_steel, where limits on the probability of the other class found fewer of the wrong labels at the
same precision. bench/label_noise.py measures on other data sets how many suspicious labels are
wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.errors import require
from unitail.estimator.prediction_sets import HeldOut

MAX_PROBABILITY = 0.05
"""A label less probable than this, given all other examples, is suspicious."""


@dataclass(frozen=True, kw_only=True)
class SuspiciousLabel:
    """An example whose label the others contradict."""

    place: int
    """Index of the example, from 0."""
    label: Any
    """The label it has."""
    likely: Any
    """The most probable label."""
    label_probability: float
    likely_probability: float


def check_max_probability(given: object) -> None:
    """Refuse anything but a number above 0, up to 1."""
    require(
        isinstance(given, int | float | np.number) and 0 < float(given) <= 1,
        "max_probability",
        got=repr(given),
        allowed="a number above 0, up to 1",
    )


def suspicious_labels(
    held_out: HeldOut,
    class_indices: NDArray[np.int64],
    classes: Sequence[Any] | NDArray[Any],
    max_probability: float = MAX_PROBABILITY,
) -> list[SuspiciousLabel]:
    """Return the labels that look wrong, the least probable first."""
    labels = class_indices[held_out.places]
    label_probability = held_out.probabilities[np.arange(len(labels)), labels]
    likely = held_out.probabilities.argmax(axis=1)
    chosen = np.flatnonzero((label_probability < max_probability) & (likely != labels))
    return [
        SuspiciousLabel(
            place=int(held_out.places[each]),
            label=classes[labels[each]],
            likely=classes[likely[each]],
            label_probability=float(label_probability[each]),
            likely_probability=float(held_out.probabilities[each, likely[each]]),
        )
        for each in chosen[np.argsort(label_probability[chosen], kind="stable")]
    ]
