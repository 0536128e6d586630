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
"""Number of rows in memory at once when a whole table is read or written."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureTable:
    """The encoded rows of a data set with their classes, or a subset of them.

    A subset shares the features of the whole table, without a copy; rows outside it have no class.
    """

    name: str
    """Name of the data set."""
    encoder: str
    """Name of the encoder that made the features."""
    features: NDArray[Any]
    """Encoded inputs, (rows, d_T), float16 or float32, possibly memory-mapped."""
    class_indices: NDArray[np.int64]
    """Class of each row, 0..C-1, (rows,); -1 if the row does not belong to the table."""
    class_names: tuple[str, ...]
    """Name of each class."""

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
        """Name ENCODER/DATASET."""
        return f"{self.encoder}/{self.name}"

    @property
    def feature_dim(self) -> int:
        """Width of the features, d_T."""
        return int(self.features.shape[1])

    @cached_property
    def class_sizes(self) -> NDArray[np.int64]:
        """Number of rows of each class, (C,)."""
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
        """Return the subset of these classes, renumbered in this order."""
        places = {name: index for index, name in enumerate(self.class_names)}
        unknown = [name for name in names if name not in places]
        if unknown or len(set(names)) < len(names) or not names:
            raise UserError(
                f"classes cannot be selected from {self.full_name}",
                got=f"unknown {some(unknown)}" if unknown else f"{len(names)} names: {some(names)}",
                allowed=f"distinct names of its classes, such as {some(self.class_names)}",
            )
        renumbered = np.full(len(places) + 1, -1)  # the last entry is for index -1
        renumbered[[places[name] for name in names]] = np.arange(len(names))
        return self.subset(renumbered[self.class_indices], tuple(names))
