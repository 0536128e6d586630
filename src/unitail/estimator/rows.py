"""Labelled rows as learners see them: vectors and class indices."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from unitail.errors import InvalidEpisode
from unitail.framework.episode import Support

KINDS = {"b": "booleans", "U": "strings", "O": "strings"}
"""What arrays hold, by numpy's character; all others hold numbers."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Labelled rows."""

    features: NDArray[Any]
    """(n, d_T)."""
    class_indices: NDArray[np.int64]
    """(n,), 0..K-1, each at least once."""
    ways: int
    """K."""

    def __len__(self) -> int:
        return len(self.class_indices)

    def take(self, places: NDArray[Any]) -> "Rows":
        """Keep some rows, by place or by mask."""
        return Rows(self.features[places], self.class_indices[places], self.ways)

    def with_features(self, features: NDArray[Any]) -> "Rows":
        """Put other vectors in place of these."""
        if features is self.features:
            return self
        return Rows(features, self.class_indices, self.ways)

    @property
    def shots(self) -> NDArray[np.int64]:
        """The number of rows of each class, (K,)."""
        return np.bincount(self.class_indices, minlength=self.ways)

    def members(self) -> list[NDArray[np.int64]]:
        """List the places of each class."""
        order = np.argsort(self.class_indices, kind="stable")
        return np.split(order, np.cumsum(self.shots)[:-1])

    def support(self, places: NDArray[np.int64] | None = None) -> Support:
        """Build a support of all rows, or a batch of supports from places (B, n)."""
        chosen = np.arange(len(self))[None] if places is None else places
        return Support(
            features=torch.from_numpy(self.features[chosen]),
            class_indices=torch.from_numpy(self.class_indices[chosen]),
            ways=self.ways,
        )


def encode_labels(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the different labels, sorted (K,), and the class index of each row (n,)."""
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
    return classes, indices.astype(np.int64)


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
