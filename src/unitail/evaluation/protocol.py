"""What is asked of a learner in a test: the shape of the episodes, how many, and which."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unitail.errors import UserError, require
from unitail.tasks.batches import EpisodeRanges, QueryShares

ALL_WAYS = 1_000_000
"""Stands for all classes of a data set."""


@dataclass(frozen=True, kw_only=True)
class EvaluationProtocol:
    """K-way N-shot episodes; with the name of a data set, all that decides which they are."""

    ways: int = 5
    """K, the classes of an episode."""
    shots: int = 1
    """N, the labelled examples of each class."""
    queries: int = 15
    """Queries of each class, on average."""
    query_shares: QueryShares = QueryShares.BALANCED
    """How the queries are shared out among the classes."""
    concentration: float = 1.0
    """Of the Dirichlet distribution of random shares; the smaller, the more unequal."""
    episodes: int = 600
    """How many episodes."""
    seed: int = 0
    """Which episodes: others for another seed."""

    def __post_init__(self) -> None:
        for name, least in (("ways", 2), ("shots", 1), ("queries", 1), ("episodes", 2)):
            value = getattr(self, name)
            require(value >= least, name, got=value, allowed=f"{least} or more")
        positive = 0 < self.concentration < float("inf")
        require(positive, "concentration", got=self.concentration, allowed="a number above 0")

    @property
    def shares(self) -> str:
        """How reports call the shares of the queries."""
        if self.query_shares is QueryShares.BALANCED:
            return "balanced"
        if self.query_shares is QueryShares.ABSENT:
            return "half of the classes absent"
        return f"Dirichlet({self.concentration:g})"

    @property
    def name(self) -> str:
        """How reports call the protocol."""
        extra = {
            QueryShares.BALANCED: "",
            QueryShares.RANDOM: f", {self.shares} queries",
            QueryShares.ABSENT: f", {self.shares}",
        }[self.query_shares]
        ways = "all" if self.ways == ALL_WAYS else self.ways
        return f"{ways}-way {self.shots}-shot{extra}"

    @property
    def tokens(self) -> int:
        """The labelled examples and queries of an episode."""
        return self.ways * (self.shots + self.queries)

    def allowed_by(
        self, class_sizes: NDArray[np.int64], query_sizes: NDArray[np.int64] | None = None
    ) -> bool:
        """Tell whether two classes or more of a data set have rows for the shots and a query.

        `query_sizes` are those of another table that the queries come from.
        """
        return int((_rows_left(self.shots, class_sizes, query_sizes) > 0).sum()) >= 2

    def fitted(
        self,
        class_sizes: NDArray[np.int64],
        name: str,
        query_sizes: NDArray[np.int64] | None = None,
    ) -> "EvaluationProtocol":
        """Return what a data set allows of this protocol, the same for every learner.

        A class with rows for N shots and a query takes part. Where there are fewer than K of them,
        all are used; where the smallest has too few rows for the queries, fewer are asked of each.
        """
        left = _rows_left(self.shots, class_sizes, query_sizes)
        left = left[left > 0]
        if len(left) < 2:
            raise UserError(
                f"{name} has too few classes for {self.shots} shots",
                got=f"{len(left)} classes with rows for {self.shots} shots and a query",
                allowed="2 or more",
                remedy="Ask for fewer shots, or leave the data set out.",
            )
        queries = min(self.queries, int(left.min()))
        return replace(self, ways=min(self.ways, len(left)), queries=queries)

    def ranges(self, episodes: int) -> EpisodeRanges:
        """Return the ranges that hold this shape only, and batches of this many episodes."""
        fixed = EpisodeRanges.fixed(
            episodes=episodes, ways=self.ways, shots=self.shots, queries=self.queries
        )
        return replace(fixed, query_shares=self.query_shares, concentration=self.concentration)


def _rows_left(
    shots: int, class_sizes: NDArray[np.int64], query_sizes: NDArray[np.int64] | None
) -> NDArray[np.int64]:
    """Count the rows of each class that can be queries; none where the shots are too many."""
    if query_sizes is None:
        return class_sizes - shots
    return np.where(class_sizes >= shots, query_sizes, 0)
