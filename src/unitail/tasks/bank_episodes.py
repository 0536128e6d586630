"""Episodes from feature banks, drawn on the training device (paper, appendix D.1)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np
import torch
from torch import Tensor

from unitail.banks.catalogue import Catalogue
from unitail.banks.table import FeatureTable
from unitail.errors import UserError
from unitail.framework.episode import Episode
from unitail.tasks.assemble import assemble, class_major, distinct_places, random_order
from unitail.tasks.query_shares import draw_candidates, max_candidates
from unitail.tasks.random_numbers import choose
from unitail.tasks.shapes import BatchShape, EpisodeRanges, QueryShares
from unitail.tasks.source import Batch

RESIDENT_BYTES = 8 * 2**30
"""The features that are kept on the device, if no other number is given."""


class BankEpisodes:
    """An `EpisodeSource` over the tables of several encoders.

    A batch is of one encoder. Each of its episodes draws a data set, then K of its classes, then
    the rows of each class, all different. A class takes part if it has shots + queries rows, a data
    set if it has K such classes. P(data set) is proportional to its weight in `weights` or, if it
    is not named there, to its number of classes.

    Features stay on the device, encoder by encoder as far as `resident_bytes` reach. Those of the
    other encoders are read from their files for each batch, for which the device must wait; the
    episodes are the same.
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
        self.catalogues = tuple(
            Catalogue.of([table for table in drawn if table.encoder == encoder], weights)
            for encoder in dict.fromkeys(table.encoder for table in drawn)
        )
        room = np.cumsum([catalogue.num_bytes for catalogue in self.catalogues])
        self.resident = tuple(bool(needed <= resident_bytes) for needed in room)
        self._loaded: dict[tuple[int, torch.device], _LoadedCatalogue] = {}

    def choose_batch(self, ranges: EpisodeRanges, generator: torch.Generator) -> "BankBatch":
        """Draw shots, an encoder by the weight of its data sets, and ways that one of them has."""
        self._check_ranges(ranges)
        shots = ranges.draw_shots(generator)
        rows = shots + ranges.queries
        weights = [catalogue.weight_of(ranges.ways[0], rows) for catalogue in self.catalogues]
        number = choose(weights, generator)
        catalogue = self.catalogues[number]
        shape = ranges.draw_shape(
            generator,
            shots=shots,
            source=catalogue.encoder,
            feature_dim=catalogue.feature_dim,
            max_ways=int(catalogue.classes_with(rows).max()),
        )
        return BankBatch(shape, partial(self._load, number))

    def _load(self, number: int, device: torch.device) -> "_LoadedCatalogue":
        """Bring a catalogue, and its features if they may stay, to the device once."""
        if (number, device) not in self._loaded:
            self._loaded[number, device] = _LoadedCatalogue.of(
                self.catalogues[number], device, resident=self.resident[number]
            )
        return self._loaded[number, device]

    def _check_ranges(self, ranges: EpisodeRanges) -> None:
        """Refuse ranges with a shape that nothing fits, and tables that fit no shape."""
        fewest, most = (shots + ranges.queries for shots in ranges.shots)
        ways = ranges.ways[0]
        if not any(catalogue.weight_of(ways, most) for catalogue in self.catalogues):
            most_ways = max(int(each.classes_with(most).max()) for each in self.catalogues)
            raise UserError(
                "no data set has enough classes with enough rows",
                got=f"{ways} ways of {most} rows for shots and queries",
                allowed=f"at most {most_ways} ways with that many rows",
                remedy="Ask for fewer ways, shots or queries, or add a data set.",
            )
        for catalogue in self.catalogues:
            for table, count in zip(catalogue.tables, catalogue.classes_with(fewest), strict=True):
                if count < 2:
                    raise UserError(
                        f"{table.full_name} has too few classes with enough rows",
                        got=f"{count} of {len(table.class_names)} classes",
                        allowed=f"2 or more classes of {fewest} or more rows",
                        remedy="Ask for fewer shots or queries, or leave the data set out.",
                    )


@dataclass(frozen=True, eq=False)
class BankBatch(Batch):
    """Episodes of the tables of one encoder."""

    load: Callable[[torch.device], "_LoadedCatalogue"]

    def sample(self, generator: torch.Generator, shard: slice | None = None) -> Episode:
        """Draw the rows of all episodes, and fetch the features of some; see `Batch`."""
        catalogue, own = self.load(generator.device), shard or slice(None)
        rows, classes = catalogue.draw_rows(self.shape, generator)
        return assemble(
            catalogue.gather(rows[own]),
            classes[own],
            ways=self.shape.ways,
            num_support=self.shape.num_support,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _LoadedCatalogue:
    """A catalogue on a device."""

    catalogue: Catalogue
    weights: Tensor
    """P(data set) up to a factor, (D,)."""
    sizes: Tensor
    """The rows of each class of each data set, padded with zeros, (D, C)."""
    starts: Tensor
    """The first row of each class, (D, C)."""
    largest: int
    """The rows of the largest class."""
    features: Tensor | None
    """The features of all rows, (rows, d_T); None where they are read from files."""

    @classmethod
    def of(cls, catalogue: Catalogue, device: torch.device, *, resident: bool) -> Self:
        """Copy what is needed to the device."""
        return cls(
            catalogue=catalogue,
            weights=torch.from_numpy(catalogue.weights).float().to(device),
            sizes=torch.from_numpy(catalogue.sizes).to(device),
            starts=torch.from_numpy(catalogue.starts).to(device),
            largest=int(catalogue.sizes.max()),
            features=catalogue.read_all(device) if resident else None,
        )

    def draw_rows(self, shape: BatchShape, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw the rows of all episodes and their classes 0..K-1, in random order: (B, n + m)."""
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
        # Numbers are shuffled rather than features, which are many times as wide.
        order = random_order(shape.episodes, shape.num_support, shape.num_query, generator)
        return rows.gather(1, order), classes.gather(1, order)

    def _draw_classes(self, shape: BatchShape, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw a data set for each episode, then K different classes: sizes and starts, (B, K)."""
        fitting = (self.sizes >= shape.shots + shape.queries).sum(dim=1)  # (D,)
        # The shortest of exponential waits is each with probability proportional to its rate.
        waits = torch.empty(shape.episodes, len(self.weights), device=generator.device)
        waits = waits.exponential_(generator=generator) / self.weights
        sets = waits.masked_fill(fitting < shape.ways, torch.inf).argmin(dim=1)  # (B,)
        places = distinct_places(fitting[sets], shape.ways, self.sizes.shape[1], generator)
        return self.sizes[sets].gather(1, places), self.starts[sets].gather(1, places)

    def gather(self, rows: Tensor) -> Tensor:
        """Fetch the features of rows (B, n + m) as float32: (B, n + m, d_T)."""
        if self.features is None:
            features = self.catalogue.read(rows.flatten().cpu().numpy()).to(rows.device)
        else:
            features = self.features.index_select(0, rows.flatten())
        return features.float().reshape(*rows.shape, -1)


def _check_weights(tables: Sequence[FeatureTable], weights: Mapping[str, float]) -> None:
    """Refuse no tables at all, and weights of unknown data sets or below zero."""
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
