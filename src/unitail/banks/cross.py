"""Pairs of tables with the same classes: examples come from one, queries from the other."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from unitail.banks.splits import drop_shared_rows
from unitail.banks.table import FeatureTable
from unitail.errors import InvalidBank
from unitail.wording import some

ARROW = "->"
"""Separates the names of the two tables: "photos->paintings"."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CrossTable:
    """Examples from `support`, queries from `query`: another domain, or another part of the data.

    Both have the same classes in the same order, and no row in common.
    """

    support: FeatureTable
    query: FeatureTable
    shared_rows: int = 0
    """Number of rows in both tables, which were removed from the queries."""

    @classmethod
    def of(cls, support: FeatureTable, query: FeatureTable) -> Self:
        """Keep the common classes, and remove queries that are also rows of the support."""
        _check_same_encoder(support, query)
        names = [name for name in support.class_names if name in set(query.class_names)]
        if len(names) < 2:
            raise InvalidBank(
                f"{support.full_name} and {query.full_name} have too few classes in common",
                got=f"{len(names)}; {some(support.class_names)} and {some(query.class_names)}",
                allowed="2 or more classes with the same names",
                remedy="Give the classes the same names in both.",
            )
        examples, queries = support.select_classes(names), query.select_classes(names)
        [kept] = drop_shared_rows([queries], [examples])
        dropped = int(np.sum(queries.class_sizes) - np.sum(kept.class_sizes))
        return cls(support=examples, query=kept, shared_rows=dropped)

    @property
    def name(self) -> str:
        """Name SUPPORT->QUERY."""
        return f"{self.support.name}{ARROW}{self.query.name}"

    @property
    def encoder(self) -> str:
        """Encoder of both tables."""
        return self.support.encoder

    @property
    def full_name(self) -> str:
        """Name ENCODER/SUPPORT->QUERY."""
        return f"{self.encoder}/{self.name}"

    @property
    def class_names(self) -> tuple[str, ...]:
        """The common classes."""
        return self.support.class_names


def _check_same_encoder(support: FeatureTable, query: FeatureTable) -> None:
    """Raise an error if the vectors of the tables cannot be compared."""
    first, second = (support.encoder, support.feature_dim), (query.encoder, query.feature_dim)
    if first != second:
        raise InvalidBank(
            f"{support.name} and {query.name} have different encoders",
            got=f"{first[0]} of width {first[1]} and {second[0]} of width {second[1]}",
            allowed="two banks of the same encoder",
            remedy="Encode both with one encoder.",
        )
