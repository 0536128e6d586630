"""Draw episodes from feature banks on the training device (paper, appendix D.1).

`CrossEpisodes` takes the support from one table and the queries from another.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unitail.banks.cross import CrossTable
from unitail.banks.npy_file import expect_random_reads
from unitail.banks.table import FeatureTable
from unitail.encoder_names import encoder_name
from unitail.errors import UserError
from unitail.framework.episode import Episode, check_finite
from unitail.randomness import choose
from unitail.tasks.assemble import assemble, distinct_places, random_order
from unitail.tasks.batches import Batch, EpisodeRanges
from unitail.tasks.numbered_rows import NumberedRows

RESIDENT_BYTES = 8 * 2**30
"""Default limit on the bytes of features kept on the device."""


class BankEpisodes:
    """An `EpisodeSource` over the tables of several encoders.

    All episodes of a batch use the same encoder. Each draws a data set, then K of its classes, then
    distinct rows of each class. A class is eligible if it has shots + queries rows, a data set if
    it has K such classes. P(data set) is proportional to its weight in `weights` or, if it is not
    listed there, to its number of classes.

    Features stay on the device, encoder by encoder, until `resident_bytes` are used up. Features of
    the remaining encoders are read from their files for each batch, which makes the device wait;
    the episodes are the same.
    """

    def __init__(
        self,
        tables: Sequence[FeatureTable],
        *,
        weights: Mapping[str, float] | None = None,
        resident_bytes: int = RESIDENT_BYTES,
    ) -> None:
        weights = dict(weights or {})
        _check_weights(tables, weights)
        drawn = [table for table in tables if weights.get(table.name, 1) > 0]
        self.numbered = tuple(
            NumberedRows.of([t for t in drawn if encoder_name(t.encoder) == encoder], weights)
            for encoder in dict.fromkeys(encoder_name(table.encoder) for table in drawn)
        )
        total_bytes = np.cumsum([numbered.num_bytes for numbered in self.numbered])
        self.resident = tuple(bool(total <= resident_bytes) for total in total_bytes)
        for numbered, resident in zip(self.numbered, self.resident, strict=True):
            for table in () if resident else numbered.tables:
                expect_random_reads(table.features)
        self._loaded: dict[tuple[int, torch.device], NumberedRows] = {}

    def choose_batch(self, ranges: EpisodeRanges, generator: torch.Generator) -> "BankBatch":
        """Draw the shots, an encoder in proportion to its data sets' weight, and feasible ways."""
        self._check_ranges(ranges)
        shots = ranges.draw_shots(generator)
        rows = shots + ranges.queries
        weights = [numbered.weight_of(ranges.ways[0], rows) for numbered in self.numbered]
        number = choose(weights, generator)
        numbered = self.numbered[number]
        shape = ranges.draw_shape(
            generator,
            shots=shots,
            source=numbered.encoder,
            feature_dim=numbered.feature_dim,
            max_ways=int(numbered.classes_with(rows).max()),
        )
        return BankBatch(shape, partial(self._load, number))

    def _load(self, number: int, device: torch.device) -> NumberedRows:
        """Return the rows on the device (cached), with their features if they are resident."""
        if (number, device) not in self._loaded:
            resident = self.resident[number]
            self._loaded[number, device] = self.numbered[number].to(device, resident=resident)
        return self._loaded[number, device]

    def _check_ranges(self, ranges: EpisodeRanges) -> None:
        """Raise if some shape in the ranges fits no data set, or some table fits no shape."""
        low, high = (shots + ranges.queries for shots in ranges.shots)
        ways = ranges.ways[0]
        if not any(numbered.weight_of(ways, high) for numbered in self.numbered):
            max_ways = max(int(each.classes_with(high).max()) for each in self.numbered)
            raise UserError(
                "no data set has enough classes with enough rows",
                got=f"{ways} ways of {high} rows for shots and queries",
                allowed=f"at most {max_ways} ways with that many rows",
                remedy="Ask for fewer ways, shots or queries, or add a data set.",
            )
        for numbered in self.numbered:
            for table, count in zip(
                numbered.tables, numbered.classes_with(low).tolist(), strict=True
            ):
                if count < 2:
                    raise UserError(
                        f"{table.full_name} has too few classes with enough rows",
                        got=f"{count} of {len(table.class_names)} classes",
                        allowed=f"2 or more classes of {low} or more rows",
                        remedy="Ask for fewer shots or queries, or leave the data set out.",
                    )


@dataclass(frozen=True, eq=False)
class BankBatch(Batch):
    """Episodes of the tables of one encoder."""

    load: Callable[[torch.device], NumberedRows]

    def sample(self, generator: torch.Generator, shard: slice | None = None) -> Episode:
        """Draw the rows of all episodes, and fetch the features of the shard; see `Batch`."""
        numbered, selected = self.load(generator.device), shard or slice(None)
        rows, classes = numbered.draw_rows(self.shape, generator)
        return assemble(
            numbered.gather(rows[selected]),
            classes[selected],
            ways=self.shape.ways,
            num_support=self.shape.num_support,
        )


def _check_weights(tables: Sequence[FeatureTable], weights: Mapping[str, float]) -> None:
    """Raise if there are no tables, or if a weight is negative or names an unknown data set."""
    if not tables:
        raise UserError("episodes need feature banks", got="none", allowed="one or more")
    names = dict.fromkeys(table.name for table in tables)
    for name, weight in weights.items():
        if name not in names or not 0 <= weight < float("inf"):
            raise UserError(
                "the weight of a data set is wrong",
                got=f"{name} = {weight}",
                allowed=f"0 or more, for one of {', '.join(names)}",
            )
    if not any(weights.get(name, 1) for name in names):
        raise UserError("all data sets have weight 0", got=weights, allowed="one above 0")


class CrossEpisodes:
    """Draws K classes shared by both tables; the support comes from one, queries from the other.

    Rows are read from the tables' files as they are drawn.
    """

    def __init__(self, table: CrossTable) -> None:
        self.table = table
        self._support, self._query = _Rows(table.support), _Rows(table.query)

    def sample(
        self, *, episodes: int, ways: int, shots: int, queries: int, generator: torch.Generator
    ) -> Episode:
        """Draw N-shot instances; a class takes part if both tables have enough rows of it."""
        support, query = self._support, self._query
        fits = (support.sizes >= shots) & (query.sizes >= queries)
        usable = torch.from_numpy(np.flatnonzero(fits))
        if len(usable) < ways:
            raise UserError(
                f"{self.table.full_name} has too few classes with enough rows",
                got=f"{len(usable)} classes of {shots} examples and {queries} queries",
                allowed=f"{ways} or more",
                remedy="Ask for fewer ways, shots or queries.",
            )
        counts = torch.full((episodes,), len(usable))
        classes = usable[distinct_places(counts, ways, len(usable), generator)]  # (B, K)
        rows = [
            each.draw(classes, n, generator) for each, n in ((support, shots), (query, queries))
        ]
        features = torch.cat([support.read(rows[0]), query.read(rows[1])], dim=1)
        labels = torch.arange(ways).repeat_interleave(shots)
        labels = torch.cat([labels, torch.arange(ways).repeat_interleave(queries)])
        order = random_order(episodes, ways * shots, ways * queries, generator)
        features = features.gather(1, order.unsqueeze(2).expand_as(features))
        return assemble(features, labels[order], ways=ways, num_support=ways * shots)


class _Rows:
    """The rows of a table, sorted by class."""

    def __init__(self, table: FeatureTable) -> None:
        members = np.flatnonzero(table.class_indices >= 0)
        order = np.argsort(table.class_indices[members], kind="stable")
        self.sizes: NDArray[np.int64] = table.class_sizes
        self._table = table
        expect_random_reads(table.features)
        self._rows = members[order]
        self._starts = torch.from_numpy(np.cumsum(self.sizes) - self.sizes)

    def draw(self, classes: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Draw distinct rows of each class (B, K), in class order: positions (B, K * count)."""
        sizes = torch.from_numpy(self.sizes)[classes]
        places = distinct_places(sizes, count, int(self.sizes.max()), generator)
        return (self._starts[classes].unsqueeze(2) + places).flatten(1)

    def read(self, places: Tensor) -> Tensor:
        """Read the features at positions (B, n): (B, n, d_T)."""
        rows = self._rows[places.flatten().numpy()]
        features = torch.from_numpy(self._table.features[rows].astype(np.float32))
        check_finite(features, self._table.full_name)
        return features.view(*places.shape, -1)
