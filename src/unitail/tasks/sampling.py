"""Episodes from feature banks, drawn on the training device (paper, appendix D.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, Self

import numpy as np
import torch
from torch import Tensor

from unitail.banks.catalogue import Catalogue
from unitail.banks.splits import FeatureTable, full_name
from unitail.errors import UserError
from unitail.framework.episode import Episode
from unitail.tasks.assemble import assemble, class_major, distinct_places, random_order
from unitail.tasks.query_shares import draw_candidates, most_candidates
from unitail.tasks.shapes import BatchPlan, EpisodeRanges, QueryShares, choose

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
        self.groups = tuple(
            Catalogue.of([table for table in drawn if table.encoder == encoder], weights)
            for encoder in dict.fromkeys(table.encoder for table in drawn)
        )
        room = np.cumsum([group.num_bytes for group in self.groups])
        self.resident = tuple(bool(needed <= resident_bytes) for needed in room)
        self._loaded: dict[tuple[int, torch.device], _LoadedGroup] = {}

    def dropped_classes(self, rows: int) -> dict[str, int]:
        """Count the classes of each table that have fewer rows, if there are any."""
        counts = {
            full_name(table): len(table.class_names) - int(kept)
            for group in self.groups
            for table, kept in zip(group.tables, group.classes_with(rows), strict=True)
        }
        return {name: count for name, count in counts.items() if count}

    def plan(self, ranges: EpisodeRanges, generator: torch.Generator) -> BatchPlan:
        """Draw shots, an encoder by the weight of its data sets, and ways that one of them has."""
        self._check_ranges(ranges)
        shots = ranges.draw_shots(generator)
        rows = shots + ranges.queries
        number = choose([group.weight_of(ranges.ways[0], rows) for group in self.groups], generator)
        group = self.groups[number]
        return ranges.draw_plan(
            generator,
            shots=shots,
            source=group.encoder,
            group=number,
            feature_dim=group.feature_dim,
            most_ways=int(group.classes_with(rows).max()),
        )

    def sample(
        self, plan: BatchPlan, generator: torch.Generator, part: slice | None = None
    ) -> Episode:
        """Draw episodes from the tables of the plan's group; see `EpisodeSource`."""
        self._check_plan(plan)
        group = self._load(plan.group, generator.device)
        rows, classes = group.draw_rows(plan, generator)  # (B, n + m) each
        return assemble(
            group.gather(rows[part or slice(None)]),
            classes[part or slice(None)],
            ways=plan.ways,
            num_support=plan.num_support,
        )

    def _load(self, number: int, device: torch.device) -> "_LoadedGroup":
        """Bring a group's numbers, and its features if they may stay, to the device once."""
        if (number, device) not in self._loaded:
            self._loaded[number, device] = _LoadedGroup.of(
                self.groups[number], device, resident=self.resident[number]
            )
        return self._loaded[number, device]

    def _check_ranges(self, ranges: EpisodeRanges) -> None:
        """Refuse ranges with a shape that nothing fits, and tables that fit no shape."""
        fewest, most = (shots + ranges.queries for shots in ranges.shots)
        if not any(group.weight_of(ranges.ways[0], most) for group in self.groups):
            _refuse(ranges.ways[0], most, self.groups)
        for group in self.groups:
            for table, count in zip(group.tables, group.classes_with(fewest), strict=True):
                if count < 2:
                    raise UserError(
                        f"{full_name(table)} has too few classes with enough rows",
                        got=f"{count} of {len(table.class_names)} classes",
                        allowed=f"2 or more classes of {fewest} or more rows",
                        remedy="Ask for fewer shots or queries, or leave the data set out.",
                    )

    def _check_plan(self, plan: BatchPlan) -> None:
        """Refuse a plan that these tables cannot fulfil."""
        widths = [group.feature_dim for group in self.groups]
        if not 0 <= plan.group < len(widths) or plan.feature_dim != widths[plan.group]:
            raise UserError(
                "the plan is for another source",
                got=f"group {plan.group} of width {plan.feature_dim}",
                allowed=f"a group 0 to {len(widths) - 1} and its width, of {widths}",
            )
        group, rows = self.groups[plan.group], plan.shots + plan.queries
        if not group.weight_of(plan.ways, rows):
            _refuse(plan.ways, rows, [group])


@dataclass(frozen=True, kw_only=True, eq=False)
class _LoadedGroup:
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

    def draw_rows(self, plan: BatchPlan, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw the rows of all planned episodes and their classes 0..K-1: (B, n + m) each.

        Support and queries come in random order.
        """
        sizes, starts = self._draw_classes(plan, generator)  # (B, K) each
        balanced = plan.query_shares is QueryShares.BALANCED
        extra = plan.queries if balanced else most_candidates(plan, self.largest)
        places = distinct_places(sizes, plan.shots + extra, self.largest, generator)
        rows = class_major(starts.unsqueeze(2) + places, plan.shots)  # (B, n + K * extra)
        classes = torch.arange(plan.ways, device=rows.device)[:, None].expand_as(places)
        classes = class_major(classes, plan.shots)
        if not balanced:
            chosen = draw_candidates(plan, sizes - plan.shots, extra, generator)  # (B, m)
            support = torch.arange(plan.num_support, device=rows.device).expand(plan.episodes, -1)
            kept = torch.cat([support, plan.num_support + chosen], dim=1)
            rows, classes = rows.gather(1, kept), classes.gather(1, kept)
        order = random_order(plan.episodes, plan.num_support, plan.num_query, generator)
        return rows.gather(1, order), classes.gather(1, order)

    def _draw_classes(self, plan: BatchPlan, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw a data set for each episode, then K different classes: sizes and starts, (B, K)."""
        fitting = (self.sizes >= plan.shots + plan.queries).sum(dim=1)  # (D,)
        # The shortest of exponential waits is each with probability proportional to its rate.
        waits = torch.empty(plan.episodes, len(self.weights), device=generator.device)
        waits = waits.exponential_(generator=generator) / self.weights
        sets = waits.masked_fill(fitting < plan.ways, torch.inf).argmin(dim=1)  # (B,)
        places = distinct_places(fitting[sets], plan.ways, self.sizes.shape[1], generator)
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


def _refuse(ways: int, rows: int, groups: Sequence[Catalogue]) -> NoReturn:
    """Say that no data set has so many classes of so many rows."""
    most = max(int(group.classes_with(rows).max()) for group in groups)
    raise UserError(
        "no data set has enough classes with enough rows",
        got=f"{ways} ways of {rows} rows for shots and queries",
        allowed=f"at most {most} ways of so many rows",
        remedy="Ask for fewer ways, shots or queries, or add a data set.",
    )
