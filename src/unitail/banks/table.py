"""Tables of encoded rows: feature banks, and subsets of them by class."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.errors import UserError
from unitail.wording import some

CHUNK_ROWS = 4096
"""The rows that are in memory at once where a table is read or written as a whole."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureTable:
    """The encoded rows of a data set with their classes, or a subset of them.

    A subset has the features of the whole, which are never copied; other rows have no class.
    """

    name: str
    """The data set."""
    encoder: str
    """The encoder that made the features."""
    features: NDArray[Any]
    """Encoded inputs, (rows, d_T), float16 or float32, perhaps mapped from a file."""
    class_indices: NDArray[np.int64]
    """The class of each row, 0..C-1, (rows,); -1 where the row does not belong to the table."""
    class_names: tuple[str, ...]
    """The name of each class."""

    def __post_init__(self) -> None:
        features, indices, classes = self.features, self.class_indices, len(self.class_names)
        low, high = indices.min(initial=0), indices.max(initial=0)
        for valid, what, got, allowed in (
            (features.ndim == 2, "features", features.shape, "a shape (rows, width)"),
            (features.dtype.kind == "f", "features", features.dtype, "floating-point numbers"),
            (
                indices.shape == features.shape[:1],
                "class indices",
                indices.shape,
                "one for each row",
            ),
            (
                low >= -1 and high < classes,
                "class indices",
                f"{low} to {high}",
                f"0 to {classes - 1}, or -1 for rows left out",
            ),
        ):
            if not valid:
                message = f"the {what} of {self.full_name} are wrong"
                raise UserError(message, got=got, allowed=allowed)

    @property
    def full_name(self) -> str:
        """ENCODER/DATASET."""
        return f"{self.encoder}/{self.name}"

    @property
    def feature_dim(self) -> int:
        """d_T."""
        return int(self.features.shape[1])

    @cached_property
    def class_sizes(self) -> NDArray[np.int64]:
        """The rows of each class, (C,)."""
        members = self.class_indices[self.class_indices >= 0]
        return np.bincount(members, minlength=len(self.class_names))

    def subset(
        self, class_indices: NDArray[np.int64], class_names: tuple[str, ...]
    ) -> "FeatureTable":
        """Return the table with other classes; rows of class -1 are left out."""
        return FeatureTable(
            name=self.name,
            encoder=self.encoder,
            features=self.features,
            class_indices=class_indices,
            class_names=class_names,
        )

    def select_classes(self, names: Sequence[str]) -> "FeatureTable":
        """Return the rows of these classes, numbered in this order."""
        places = {name: index for index, name in enumerate(self.class_names)}
        unknown = [name for name in names if name not in places]
        if unknown or len(set(names)) < len(names) or not names:
            raise UserError(
                f"classes cannot be selected from {self.full_name}",
                got=f"unknown {some(unknown)}" if unknown else f"{len(names)} names: {some(names)}",
                allowed=f"different names of its classes, such as {some(self.class_names)}",
            )
        renumbered = np.full(len(places) + 1, -1)  # the last place is where -1 leads to
        renumbered[[places[name] for name in names]] = np.arange(len(names))
        return self.subset(renumbered[self.class_indices], tuple(names))
