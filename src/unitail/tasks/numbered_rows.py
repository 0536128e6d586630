"""Number the rows of all tables of one encoder, so that drawing an episode draws row numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unitail.banks.table import FeatureTable
from unitail.errors import UserError
from unitail.framework.episode import check_finite
from unitail.tasks.assemble import (
    class_major,
    distinct_places,
    draw_candidates,
    max_candidates,
    random_order,
)
from unitail.tasks.batches import BatchShape, QueryShares

CHUNK_ROWS = 2**14
"""Rows copied to a device at a time, which bounds the host memory in use."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NumberedRows:
    """Rows numbered by data set and then by class, so the rows of a class are consecutive.

    A row number is the start of its class plus a position. The classes of a data set are sorted by
    size, largest first, so classes with enough rows for an episode come before all others.
    """

    encoder: str
    """The encoder of all tables."""
    tables: tuple[FeatureTable, ...]
    """The D data sets."""
    origins: tuple[NDArray[np.int64], ...]
    """For each table, the table's own row indices in the order of this numbering."""
    weights: Tensor
    """Unnormalised P(data set), (D,)."""
    sizes: Tensor
    """Number of rows of each class of each data set, padded with zeros, (D, C)."""
    starts: Tensor
    """Number of the first row of each class, (D, C)."""
    largest: int
    """Size of the largest class, stored as an int so that nothing waits for the device."""
    features: Tensor | None = None
    """Features of all rows, (rows, d_T); None if they are read from files."""

    @classmethod
    def of(cls, tables: Sequence[FeatureTable], weights: Mapping[str, float]) -> Self:
        """Assign numbers to the rows of one encoder's tables, on the CPU and without features.

        A data set without an entry in `weights` is weighted by its number of classes.
        """
        _check_compatible(tables)
        listed = [_list_rows(table) for table in tables]
        sizes = torch.nn.utils.rnn.pad_sequence(
            [torch.from_numpy(class_sizes) for _, class_sizes in listed], batch_first=True
        )
        probabilities = [float(weights.get(t.name, len(t.class_names))) for t in tables]
        return cls(
            encoder=tables[0].encoder,
            tables=tuple(tables),
            origins=tuple(origin for origin, _ in listed),
            weights=torch.tensor(probabilities, dtype=torch.float64),
            sizes=sizes,
            starts=sizes.flatten().cumsum(0).view_as(sizes) - sizes,
            largest=int(sizes.max()),
        )

    def to(self, device: torch.device, *, resident: bool) -> Self:
        """Copy to a device, with all features if they are to stay there."""
        return replace(
            self,
            weights=self.weights.float().to(device),
            sizes=self.sizes.to(device),
            starts=self.starts.to(device),
            features=self._read_all(device) if resident else None,
        )

    @property
    def feature_dim(self) -> int:
        """d_T."""
        return self.tables[0].feature_dim

    @property
    def num_rows(self) -> int:
        """Total number of rows."""
        return sum(map(len, self.origins))

    @property
    def dtype(self) -> torch.dtype:
        """The dtype features are stored in: float16 if that loses nothing, else float32."""
        exact = all(table.features.dtype == np.float16 for table in self.tables)
        return torch.float16 if exact else torch.float32

    @property
    def num_bytes(self) -> int:
        """Size of the features in bytes."""
        return self.num_rows * self.feature_dim * self.dtype.itemsize

    def classes_with(self, rows: int) -> Tensor:
        """Count the classes of each data set that have at least this many rows, (D,)."""
        return (self.sizes >= rows).sum(dim=1)

    def weight_of(self, ways: int, rows: int) -> float:
        """Return the total weight of the data sets with `ways` classes of `rows` rows each."""
        return float(self.weights[self.classes_with(rows) >= ways].sum())

    def draw_rows(self, shape: BatchShape, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw the row numbers and classes 0..K-1 of all episodes, shuffled: (B, n + m) each."""
        sizes, starts = self._draw_classes(shape, generator)  # (B, K) each
        balanced = shape.query_shares is QueryShares.BALANCED
        extra = shape.queries if balanced else max_candidates(shape, self.largest)
        places = distinct_places(sizes, shape.shots + extra, self.largest, generator)
        rows = class_major(starts.unsqueeze(2) + places, shape.shots)  # (B, n + K * extra)
        classes = torch.arange(shape.ways, device=rows.device)[:, None].expand_as(places)
        classes = class_major(classes, shape.shots)
        if not balanced:
            chosen = draw_candidates(shape, sizes - shape.shots, extra, generator)  # (B, m)
            support = torch.arange(shape.num_support, device=rows.device)
            support = support.expand(shape.episodes, -1)
            kept = torch.cat([support, shape.num_support + chosen], dim=1)
            rows, classes = rows.gather(1, kept), classes.gather(1, kept)
        # Shuffle row numbers rather than features, which are many times as wide.
        order = random_order(shape.episodes, shape.num_support, shape.num_query, generator)
        return rows.gather(1, order), classes.gather(1, order)

    def _draw_classes(self, shape: BatchShape, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw a data set and K distinct classes per episode; return sizes and starts, (B, K)."""
        fitting = self.classes_with(shape.shots + shape.queries)  # (D,)
        # Of independent exponential waits, each is the shortest with probability ∝ its rate.
        waits = torch.empty(shape.episodes, len(self.weights), device=generator.device)
        waits = waits.exponential_(generator=generator) / self.weights
        sets = waits.masked_fill(fitting < shape.ways, torch.inf).argmin(dim=1)  # (B,)
        places = distinct_places(fitting[sets], shape.ways, self.sizes.shape[1], generator)
        return self.sizes[sets].gather(1, places), self.starts[sets].gather(1, places)

    def gather(self, rows: Tensor) -> Tensor:
        """Fetch the features of rows (B, n + m) as float32: (B, n + m, d_T)."""
        if self.features is None:
            features = self.read(rows.flatten().cpu().numpy()).to(rows.device)
        else:
            features = self.features.index_select(0, rows.flatten())
        return features.float().reshape(*rows.shape, -1)

    def read(self, rows: NDArray[np.int64]) -> Tensor:
        """Read the features of rows (N,) from the tables: (N, d_T), of dtype `self.dtype`."""
        features = torch.empty(len(rows), self.feature_dim, dtype=self.dtype)
        ends = np.cumsum([len(origin) for origin in self.origins])
        table_numbers = np.searchsorted(ends, rows, side="right")
        for number in np.unique(table_numbers):
            table, origin = self.tables[number], self.origins[number]
            places = np.flatnonzero(table_numbers == number)
            table_rows = origin[rows[places] - (ends[number] - len(origin))]
            features.numpy()[places] = table.features[table_rows]
        check_finite(features, f"{self.encoder} bank")
        return features

    def _read_all(self, device: torch.device) -> Tensor:
        """Copy the features of all rows to a device: (rows, d_T)."""
        features = torch.empty(self.num_rows, self.feature_dim, dtype=self.dtype, device=device)
        for start in range(0, self.num_rows, CHUNK_ROWS):
            rows = np.arange(start, min(start + CHUNK_ROWS, self.num_rows))
            features[start : start + CHUNK_ROWS] = self.read(rows)
        return features


def _list_rows(table: FeatureTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a table's rows by class, largest class first, and its class sizes in that order.

    Rows of class -1 do not belong to the table and are left out.
    """
    members = np.flatnonzero(table.class_indices >= 0)
    by_size = np.argsort(-table.class_sizes, kind="stable")
    ranks = np.argsort(by_size)  # the inverse permutation: the rank of each class
    order = np.argsort(ranks[table.class_indices[members]], kind="stable")
    return members[order], table.class_sizes[by_size]


def _check_compatible(tables: Sequence[FeatureTable]) -> None:
    """Raise if tables of one encoder differ in width, or if a data set appears twice."""
    first = tables[0]
    for number, table in enumerate(tables):
        if table.name in [other.name for other in tables[:number]]:
            raise UserError(
                "a data set is listed twice", got=table.full_name, allowed="each table once"
            )
        if table.feature_dim != first.feature_dim:
            raise UserError(
                f"tables of the encoder {table.encoder!r} differ in shape",
                got=f"{table.features.shape} in {table.name}",
                allowed=f"the width of {first.name}, {first.features.shape}",
            )
