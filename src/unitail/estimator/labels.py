"""Labels of any type, and the class indices that learners see."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from unitail.errors import InvalidEpisode

KINDS = {"b": "truth values", "U": "strings", "O": "strings"}
"""What arrays hold, by numpy's letter; all other letters are numbers."""


@dataclass(frozen=True, eq=False)
class Labels:
    """The labels of some rows."""

    classes: NDArray[Any]
    """Sorted, (K,)."""
    indices: NDArray[np.int64]
    """The place of each row's label among them, (n,)."""


def encode(labels: NDArray[Any]) -> Labels:
    """Sort the labels (n,) and number them."""
    with warnings.catch_warnings():
        # Few examples for each class are no sign of a regression here.
        warnings.filterwarnings("ignore", message="The number of unique classes is greater")
        check_classification_targets(labels)
    classes, indices = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise InvalidEpisode(
            "a classifier needs at least two classes",
            got=f"1 class ({classes.tolist()[0]!r})",
            allowed="2 or more",
            remedy="Add labelled examples of another class.",
        )
    return Labels(classes, indices.astype(np.int64))


def check_same_kind(known: NDArray[Any], new: NDArray[Any]) -> None:
    """Refuse labels that numpy would silently turn into something else beside the known ones."""
    old_kind, new_kind = (KINDS.get(labels.dtype.kind, "numbers") for labels in (known, new))
    if old_kind != new_kind:
        raise InvalidEpisode(
            "the new labels are of another kind than the known ones",
            got=new_kind,
            allowed=f"{old_kind}, as in `fit`",
            remedy="Convert the labels.",
        )
