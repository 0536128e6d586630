"""The rows of all tables of one encoder, numbered so that episodes can be drawn as numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unitail.banks.table import FeatureTable
from unitail.errors import UserError
from unitail.framework.checks import check_finite

ROWS_AT_ONCE = 2**14
"""The rows that pass through the host's memory at once on their way to a device."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Catalogue:
    """Rows numbered data set by data set and class by class: those of a class are neighbours.

    So a row is the start of its class plus a place. The classes of a data set are in order of size,
    largest first, so those with enough rows for an episode come before all others.
    """

    encoder: str
    """The encoder of all tables."""
    tables: tuple[FeatureTable, ...]
    """The data sets, D of them."""
    weights: NDArray[np.float64]
    """P(data set) up to a factor, (D,)."""
    origins: tuple[NDArray[np.int64], ...]
    """For each table its own row numbers in the order of the catalogue."""
    sizes: NDArray[np.int64]
    """The rows of each class of each data set, padded with zeros, (D, C)."""

    @classmethod
    def of(cls, tables: Sequence[FeatureTable], weights: Mapping[str, float]) -> Self:
        """List the rows of tables of one encoder.

        The weight of a data set that is not named is its number of classes.
        """
        _check_alike(tables)
        listed = [_list_rows(table) for table in tables]
        sizes = np.zeros((len(tables), max(len(own) for _, own in listed)), dtype=np.int64)
        for number, (_, own) in enumerate(listed):
            sizes[number, : len(own)] = own
        return cls(
            encoder=tables[0].encoder,
            tables=tuple(tables),
            weights=np.array(
                [weights.get(table.name, len(table.class_names)) for table in tables], dtype=float
            ),
            origins=tuple(origin for origin, _ in listed),
            sizes=sizes,
        )

    @property
    def feature_dim(self) -> int:
        """d_T."""
        return self.tables[0].feature_dim

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first row of each class, (D, C)."""
        ends: NDArray[np.int64] = self.sizes.cumsum().reshape(self.sizes.shape)
        return ends - self.sizes

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return int(self.sizes.sum())

    @property
    def dtype(self) -> torch.dtype:
        """The dtype in which features are kept: float16 where that loses nothing."""
        exact = all(table.features.dtype == np.float16 for table in self.tables)
        return torch.float16 if exact else torch.float32

    @property
    def num_bytes(self) -> int:
        """The room that the features take."""
        return self.num_rows * self.feature_dim * self.dtype.itemsize

    def classes_with(self, rows: int) -> NDArray[np.int64]:
        """Count the classes of each data set that have at least so many rows, (D,)."""
        counts: NDArray[np.int64] = (self.sizes >= rows).sum(axis=1)
        return counts

    def weight_of(self, ways: int, rows: int) -> float:
        """Return the total weight of the data sets with so many classes of so many rows."""
        return float(self.weights[self.classes_with(rows) >= ways].sum())

    def read(self, rows: NDArray[np.int64]) -> Tensor:
        """Read the features of rows (N,), perhaps from files: (N, d_T), of this `dtype`."""
        features = torch.empty(len(rows), self.feature_dim, dtype=self.dtype)
        ends = np.cumsum([len(origin) for origin in self.origins])
        homes = np.searchsorted(ends, rows, side="right")
        for home in np.unique(homes):
            table, origin = self.tables[home], self.origins[home]
            wanted = np.flatnonzero(homes == home)
            own = origin[rows[wanted] - (ends[home] - len(origin))]
            features.numpy()[wanted] = table.features[own]
        check_finite(features, f"{self.encoder} bank")
        return features

    def read_all(self, device: torch.device) -> Tensor:
        """Bring the features of all rows to a device: (rows, d_T)."""
        features = torch.empty(self.num_rows, self.feature_dim, dtype=self.dtype, device=device)
        for start in range(0, self.num_rows, ROWS_AT_ONCE):
            rows = np.arange(start, min(start + ROWS_AT_ONCE, self.num_rows))
            features[start : start + ROWS_AT_ONCE] = self.read(rows)
        return features


def _list_rows(table: FeatureTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """List the rows of a table class by class, largest class first, and the sizes of its classes.

    Rows that do not belong to the table, of class -1, are left out.
    """
    members = np.flatnonzero(table.class_indices >= 0)
    by_size = np.argsort(-table.class_sizes, kind="stable")
    ranks = np.argsort(by_size)  # the inverse permutation: the place of each class
    order = np.argsort(ranks[table.class_indices[members]], kind="stable")
    return members[order], table.class_sizes[by_size]


def _check_alike(tables: Sequence[FeatureTable]) -> None:
    """Refuse tables of one encoder that differ in width, or that come twice."""
    first = tables[0]
    for number, table in enumerate(tables):
        if table.name in [other.name for other in tables[:number]]:
            raise UserError(
                "a data set comes twice", got=table.full_name, allowed="each table once"
            )
        if table.feature_dim != first.feature_dim:
            raise UserError(
                f"tables of the encoder {table.encoder!r} differ in shape",
                got=f"{table.features.shape} in {table.name}",
                allowed=f"the width of {first.name}, {first.features.shape}",
            )
