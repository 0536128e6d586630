"""Evaluation protocols: the shape, number and seed of test episodes."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unitail.errors import UserError, require
from unitail.tasks.batches import EpisodeRanges, QueryShares

ALL_WAYS = 1_000_000
"""Value of `ways` that stands for all classes of a data set."""


@dataclass(frozen=True, kw_only=True)
class EvaluationProtocol:
    """K-way N-shot episodes; with the name of a data set, it determines them completely."""

    ways: int = 5
    """K, the number of classes per episode."""
    shots: int = 1
    """N, the number of labelled examples per class."""
    queries: int = 15
    """Number of queries per class, on average."""
    query_shares: QueryShares = QueryShares.BALANCED
    """How the queries are distributed over the classes."""
    concentration: float = 1.0
    """Concentration of the Dirichlet distribution of random shares; smaller is more unequal."""
    episodes: int = 600
    """Number of episodes."""
    seed: int = 0
    """Seed of the episodes."""

    def __post_init__(self) -> None:
        for name, least in (("ways", 2), ("shots", 1), ("queries", 1), ("episodes", 2)):
            value = getattr(self, name)
            require(value >= least, name, got=value, allowed=f"{least} or more")
        positive = 0 < self.concentration < float("inf")
        require(positive, "concentration", got=self.concentration, allowed="a number above 0")

    @property
    def shares(self) -> str:
        """Name of the query shares in reports."""
        if self.query_shares is QueryShares.BALANCED:
            return "balanced"
        if self.query_shares is QueryShares.ABSENT:
            return "half of the classes absent"
        return f"Dirichlet({self.concentration:g})"

    @property
    def name(self) -> str:
        """Name of the protocol in reports."""
        extra = {
            QueryShares.BALANCED: "",
            QueryShares.RANDOM: f", {self.shares} queries",
            QueryShares.ABSENT: f", {self.shares}",
        }[self.query_shares]
        ways = "all" if self.ways == ALL_WAYS else self.ways
        return f"{ways}-way {self.shots}-shot{extra}"

    @property
    def tokens(self) -> int:
        """Number of labelled examples and queries in an episode."""
        return self.ways * (self.shots + self.queries)

    def allowed_by(
        self, class_sizes: NDArray[np.int64], query_sizes: NDArray[np.int64] | None = None
    ) -> bool:
        """Return whether at least two classes have enough rows for the shots and a query.

        `query_sizes` are the class sizes of a separate table of queries, if there is one.
        """
        return int((_rows_left(self.shots, class_sizes, query_sizes) > 0).sum()) >= 2

    def fitted(
        self,
        class_sizes: NDArray[np.int64],
        name: str,
        query_sizes: NDArray[np.int64] | None = None,
    ) -> "EvaluationProtocol":
        """Fit this protocol to a data set that may be too small for it, the same for every learner.

        Classes with rows for N shots and a query are used. If there are fewer than K of them, all
        are used; if the smallest has too few rows for the queries, every class gets fewer queries.
        """
        rows_left = _rows_left(self.shots, class_sizes, query_sizes)
        rows_left = rows_left[rows_left > 0]
        if len(rows_left) < 2:
            raise UserError(
                f"{name} has too few classes for {self.shots} shots",
                got=f"{len(rows_left)} classes with rows for {self.shots} shots and a query",
                allowed="2 or more",
                remedy="Ask for fewer shots, or leave the data set out.",
            )
        queries = min(self.queries, int(rows_left.min()))
        return replace(self, ways=min(self.ways, len(rows_left)), queries=queries)

    def ranges(self, episodes: int) -> EpisodeRanges:
        """Return ranges with only this shape, and batches of this many episodes."""
        fixed = EpisodeRanges.fixed(
            episodes=episodes, ways=self.ways, shots=self.shots, queries=self.queries
        )
        return replace(fixed, query_shares=self.query_shares, concentration=self.concentration)


def _rows_left(
    shots: int, class_sizes: NDArray[np.int64], query_sizes: NDArray[np.int64] | None
) -> NDArray[np.int64]:
    """Count each class's rows left for queries; 0 or less if it has too few for the shots."""
    if query_sizes is None:
        return class_sizes - shots
    return np.where(class_sizes >= shots, query_sizes, 0)
