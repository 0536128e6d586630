r"""The members of a committee, and the relations of members and queries to them.

Cosines and distances are those of `geometry.py`, with centres and units of all rows. Ridge
regressions on cosines are solved for coordinates: with U the rows of length 1 and
M = (U'U + lambda I)^-1, the operator g_x P of `regressions.py` is u_x M U', and its leave-one-out
version for row i is u_i M u_j' / (1 - u_i M u_i'). A test holds all of this to pairs of rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from unitail.relational.geometry import (
    Centre,
    Comparison,
    Geometry,
    PreparedVectors,
    directions_from,
    safe_ratio,
)
from unitail.relational.large.first_answer import COSINES, LargeReading, plus_diagonal
from unitail.relational.large.gaussians import regular_gram, squared_distances
from unitail.relational.large.moments import LabelledRows
from unitail.relational.regressions import OPERATORS, CosineKernel, GaussianKernel, invert
from unitail.relational.relations import Relations, stack_channels

DIRECTED = (Centre.MEAN, Centre.SHRUNK)
"""The first centres, whose cosines operators use."""
PAIRS_AT_ONCE, MIN_ROWS_AT_ONCE, STATES = 2**18, 8, 32
"""Number of pairs of rows that are related at once, for caches; the fewest rows; the number of
pairs that take as much memory as the state of a row for one class."""


@dataclass(frozen=True, eq=False)
class Members:
    """The members, prepared for relations to them."""

    geometry: Geometry
    """The members' vectors, with centres and statistics of all rows that were read."""
    directions: Tensor
    """Directions from the centres of `DIRECTED`, of length 1: (centres, c, d_T)."""
    inverses: tuple[Tensor, ...]
    """For each operator M, (d_T, d_T), or P of a Gaussian kernel, (c, c)."""

    @classmethod
    def of(cls, reading: LargeReading, count: int) -> "Members":
        """Prepare the first `count` rows that were read."""
        rows, moments = reading.rows.first(count), reading.moments
        vectors = moments.scale(rows.features[None])
        directions = moments.directions(rows.features, DIRECTED)
        dtype = vectors.dtype
        geometry = Geometry(
            origin=moments.origin,
            limit=None,  # it was applied to rows and queries before
            scale=moments.scale,
            to_mean=moments.to_mean,
            direction=moments.direction,
            vectors=vectors,
            prepared=PreparedVectors.kind(vectors).of(vectors, moments.to_mean, moments.direction),
            mean_distance=moments.mean_distance.to(dtype).view(1, 1, 1),
            mean_cosine=moments.mean_cosine.to(dtype).view(-1, 1, 1, 1),
            cosine_deviation=moments.cosine_deviation.to(dtype).view(-1, 1, 1, 1),
        )
        has_all_rows = count == len(reading.rows.features)
        inverses = _known_inverses(reading) if has_all_rows else [None] * len(OPERATORS)
        solved = tuple(
            _solve(geometry, directions, place) if inverse is None else inverse.to(dtype)
            for place, inverse in enumerate(inverses)
        )
        return cls(geometry, directions, solved)

    def __len__(self) -> int:
        return self.geometry.vectors.shape[1]

    def chunk(self, states: int) -> int:
        """Return how many rows with this many states each are processed at once."""
        return max(MIN_ROWS_AT_ONCE, PAIRS_AT_ONCE // max(len(self), STATES * states))

    def nearest(self, queries: Tensor, rows: LabelledRows) -> Tensor:
        """Return the largest cosine of queries (m, d_T) with a member of each class: (m, K)."""
        cosines = self._directions(queries)[Centre.MEAN] @ self.directions[Centre.MEAN].mT
        largest = cosines.new_full((len(queries), rows.ways), -1)
        index = rows.class_indices.expand_as(cosines)
        return largest.scatter_reduce_(1, index, cosines, "amax")

    def relate(self, queries: Tensor) -> Relations:
        """Relate queries (m, d_T) to members."""
        directions = self._directions(queries)
        compared = self.geometry.compare(queries[None])
        operators = directions.new_empty(len(OPERATORS), len(queries), len(self))
        for ridge, inverse, operator in zip(OPERATORS, self.inverses, operators, strict=True):
            if isinstance(ridge.kernel, CosineKernel):
                centre = ridge.kernel.centre
                torch.mm(directions[centre] @ inverse, self.directions[centre].mT, out=operator)
            else:
                torch.mm(ridge.kernel(compared)[0], inverse, out=operator)
        return self._relations(compared, operators)

    def relate_each_other(self, size: int) -> Iterator[Relations]:
        """Relate chunks of members to all members; no member sees its own label."""
        vectors = self.geometry.vectors[0]
        operators = vectors.new_empty(len(OPERATORS), len(self), len(self))
        for ridge, inverse, operator in zip(OPERATORS, self.inverses, operators, strict=True):
            if isinstance(ridge.kernel, CosineKernel):
                u = self.directions[ridge.kernel.centre]
                torch.mm(u @ inverse, u.mT, out=operator)
                divisor = 1 - operator.diagonal()
            else:
                operator.copy_(inverse)
                divisor = -operator.diagonal()
            operator.div_(divisor.unsqueeze(1)).fill_diagonal_(0)
        for start in range(0, len(self), size):
            chunk = slice(start, start + size)
            yield self._relations(self.geometry.compare_seen_rows(chunk), operators[:, chunk])

    def _directions(self, queries: Tensor) -> Tensor:
        vectors = self.geometry.scale(queries[None])
        centres = self.geometry.to_mean, self.geometry.direction
        return directions_from(DIRECTED, vectors, *centres).squeeze(1)

    def _relations(self, compared: Comparison, operators: Tensor) -> Relations:
        channels = stack_channels(compared)
        no_candidates = operators.new_zeros(1, 0, len(compared.same), 0)
        return Relations(channels, operators[None], no_candidates)


def _known_inverses(reading: LargeReading) -> list[Tensor | None]:
    """Return the inverses of operators that the first answer has computed, else None."""
    solved = {place: each for (place, *_), each in zip(COSINES, reading.inverses, strict=True)}
    return [solved.get(place, reading.gaussians.operator) for place in range(len(OPERATORS))]


def _solve(geometry: Geometry, directions: Tensor, place: int) -> Tensor:
    """Return the inverse for an operator on the members."""
    kernel, penalty = OPERATORS[place].kernel, OPERATORS[place].penalty
    if isinstance(kernel, CosineKernel):
        rows = directions[kernel.centre]
        return invert(plus_diagonal((rows.mT @ rows).double(), penalty)).to(rows)
    assert isinstance(kernel, GaussianKernel)
    vectors = geometry.vectors[0]
    squares = safe_ratio(squared_distances(vectors, vectors), geometry.mean_distance[0])
    return invert(regular_gram(squares, kernel.sharpness, penalty))
