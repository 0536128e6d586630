"""Labels that look wrong: what the other labelled rows say of each, when it is left out.

A label is suspicious if another class is more probable than it, and its own probability is below
`MAX_PROBABILITY`. That limit was chosen on clothing17, intel_scenes6, trashnet5, monkeys10 and
neu_steel, where limits on how probable the other class is found fewer of the wrong labels at the
same precision. How many of those that are named are wrong is measured by bench/label_noise.py, on
other data sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.errors import require
from unitail.estimator.prediction_sets import HeldOut

MAX_PROBABILITY = 0.05
"""Of a suspicious label, given all other examples."""


@dataclass(frozen=True, kw_only=True)
class SuspiciousLabel:
    """An example whose label the others contradict."""

    place: int
    """Its place among the examples, from 0."""
    label: Any
    """What it is called."""
    likely: Any
    """What it looks like."""
    label_probability: float
    likely_probability: float


def suspicious_labels(
    held_out: HeldOut,
    class_indices: NDArray[np.int64],
    classes: Sequence[Any] | NDArray[Any],
    max_probability: float = MAX_PROBABILITY,
) -> list[SuspiciousLabel]:
    """List the labels that look wrong, the least probable first."""
    require(
        0 < max_probability <= 1,
        "max_probability",
        got=max_probability,
        allowed="a number above 0, up to 1",
    )
    labels = class_indices[held_out.places]
    own = held_out.probabilities[np.arange(len(labels)), labels]
    likely = held_out.probabilities.argmax(axis=1)
    chosen = np.flatnonzero((own < max_probability) & (likely != labels))
    return [
        SuspiciousLabel(
            place=int(held_out.places[each]),
            label=classes[labels[each]],
            likely=classes[likely[each]],
            label_probability=float(own[each]),
            likely_probability=float(held_out.probabilities[each, likely[each]]),
        )
        for each in chosen[np.argsort(own[chosen], kind="stable")]
    ]
