"""Episodes whose examples come from one table and whose queries from another."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unitail.banks.cross import CrossTable
from unitail.banks.npy_file import expect_random_reads
from unitail.banks.table import FeatureTable
from unitail.errors import UserError
from unitail.framework.episode import Episode, check_finite
from unitail.tasks.assemble import assemble, distinct_places, random_order


class CrossEpisodes:
    """Draws K classes that both tables have, then N rows of each from one, queries from the other.

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
    """The rows of a table, class by class."""

    def __init__(self, table: FeatureTable) -> None:
        members = np.flatnonzero(table.class_indices >= 0)
        order = np.argsort(table.class_indices[members], kind="stable")
        self.sizes: NDArray[np.int64] = table.class_sizes
        self._table = table
        expect_random_reads(table.features)
        self._rows = members[order]
        self._starts = torch.from_numpy(np.cumsum(self.sizes) - self.sizes)

    def draw(self, classes: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Draw different rows of each class (B, K), class by class: places (B, K * count)."""
        sizes = torch.from_numpy(self.sizes)[classes]
        places = distinct_places(sizes, count, int(self.sizes.max()), generator)
        return (self._starts[classes].unsqueeze(2) + places).flatten(1)

    def read(self, places: Tensor) -> Tensor:
        """Read the features of places (B, n): (B, n, d_T)."""
        rows = self._rows[places.flatten().numpy()]
        features = torch.from_numpy(self._table.features[rows].astype(np.float32))
        check_finite(features, self._table.full_name)
        return features.view(*places.shape, -1)
