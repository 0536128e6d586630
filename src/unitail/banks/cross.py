"""Two tables of the same classes: examples come from one, queries from the other."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from unitail.banks.splits import drop_shared_rows
from unitail.banks.table import FeatureTable
from unitail.errors import InvalidBank
from unitail.wording import some

ARROW = "->"
"""Between the names of the two: "photos->paintings"."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CrossTable:
    """Examples from `support`, queries from `query`: another domain, or another part of the data.

    Both have the same classes in the same order, and no row in common.
    """

    support: FeatureTable
    query: FeatureTable
    shared_rows: int = 0
    """Rows that both had, and that are no queries any more."""

    @classmethod
    def of(cls, support: FeatureTable, query: FeatureTable) -> Self:
        """Keep the classes that both have; queries that are rows of the support are left out."""
        _check_alike(support, query)
        names = [name for name in support.class_names if name in set(query.class_names)]
        if len(names) < 2:
            raise InvalidBank(
                f"{support.full_name} and {query.full_name} have too few classes in common",
                got=f"{len(names)}; {some(support.class_names)} and {some(query.class_names)}",
                allowed="2 or more classes of the same names",
                remedy="Give the classes the same names in both.",
            )
        examples, asked = support.select_classes(names), query.select_classes(names)
        [kept] = drop_shared_rows([asked], [examples])
        dropped = int(np.sum(asked.class_sizes) - np.sum(kept.class_sizes))
        return cls(support=examples, query=kept, shared_rows=dropped)

    @property
    def name(self) -> str:
        """SUPPORT->QUERY."""
        return f"{self.support.name}{ARROW}{self.query.name}"

    @property
    def encoder(self) -> str:
        """The encoder of both."""
        return self.support.encoder

    @property
    def full_name(self) -> str:
        """ENCODER/SUPPORT->QUERY."""
        return f"{self.encoder}/{self.name}"

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes that both have."""
        return self.support.class_names


def _check_alike(support: FeatureTable, query: FeatureTable) -> None:
    """Refuse two tables whose vectors cannot be compared."""
    mine, other = (support.encoder, support.feature_dim), (query.encoder, query.feature_dim)
    if mine != other:
        raise InvalidBank(
            f"{support.name} and {query.name} are not of one encoder",
            got=f"{mine[0]} of {mine[1]} numbers and {other[0]} of {other[1]}",
            allowed="two banks of the same encoder",
            remedy="Encode both with one encoder.",
        )
