r"""The rows that have states in a committee, and how they and others relate to them.

Centres only shift rows, so that one product of rows x that are centred by their mean gives the
cosines seen from all of them,

    (x_i + s)'(x_j + s) = x_i'x_j + x_i's + x_j's + s's,

and ridge regressions on cosines are solved among coordinates: with U the rows of length 1 and
M = (U'U + lambda I)^-1, what `regressions.py` has as g_x P is u_x M U', and what row i takes
without its own label is u_i M u_j' / (1 - u_i M u_i'). A test holds all of it to pairs of rows.
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
    lengths_and_directions,
    safe_ratio,
)
from unitail.relational.large.first_answer import COSINES, LargeReading, plus_diagonal
from unitail.relational.large.gaussians import regular_gram, squared_distances
from unitail.relational.large.moments import LabelledRows
from unitail.relational.regressions import OPERATORS, CosineKernel, GaussianKernel, invert
from unitail.relational.relations import Relations, stack_channels

CENTRES = (Centre.MEAN, Centre.SHRUNK, Centre.ORIGIN)
"""Those that blocks and their operators have cosines from."""
NUMBERS, MIN_CHUNK, STATES = 2**18, 8, 32
"""Pairs of rows that are related at once, so that caches hold them; the fewest rows; the pairs
that the states of a class are worth."""


@dataclass(frozen=True, eq=False)
class Members:
    """Rows, ready to be compared with."""

    geometry: Geometry
    """Their vectors; centres and what is usual are those of all rows that were read."""
    directions: Tensor
    """Of length 1, from each centre: (centres, 1, c, d_T)."""
    shifted: Tensor
    """x's of each, from each centre: (centres, c)."""
    sizes: Tensor
    """1 / |x + s|, 0 for a row at the centre: (centres, c)."""
    inverses: tuple[Tensor, ...]
    """Of each operator: M, (d_T, d_T), or P of a Gaussian kernel, (c, c)."""
    origin: bool

    @classmethod
    def of(cls, reading: LargeReading, count: int, *, origin: bool) -> "Members":
        """Take the first of the rows that were read."""
        rows, moments = reading.rows.first(count), reading.moments
        vectors = moments.scale(rows.features[None])
        _, directions = lengths_and_directions(vectors, moments.to_mean, moments.direction)
        kind = vectors.dtype
        geometry = Geometry(
            limit=None,  # it was applied to rows and queries before
            scale=moments.scale,
            to_mean=moments.to_mean,
            direction=moments.direction,
            vectors=vectors,
            prepared=PreparedVectors.kind(vectors).of(vectors, moments.to_mean, moments.direction),
            mean_distance=moments.mean_distance.to(kind).view(1, 1, 1),
            mean_cosine=moments.mean_cosine.to(kind).view(-1, 1, 1, 1),
            cosine_deviation=moments.cosine_deviation.to(kind).view(-1, 1, 1, 1),
        )
        shifted, sizes = _sizes(vectors[0], moments.to_mean)
        whole = count == len(reading.rows.features)
        inverses = _known_inverses(reading) if whole else [None] * len(OPERATORS)
        solved = tuple(
            _solve(geometry, directions, place) if known is None else known.to(kind)
            for place, known in enumerate(inverses)
        )
        return cls(geometry, directions, shifted, sizes, solved, origin)

    def __len__(self) -> int:
        return self.geometry.vectors.shape[1]

    def chunk(self, states: int) -> int:
        """Return how many rows with this many states each are worked on at once."""
        return max(MIN_CHUNK, NUMBERS // max(len(self), STATES * states))

    def nearest(self, queries: Tensor, rows: LabelledRows) -> Tensor:
        """Return the largest cosine of queries (m, d_T) with a member of each class: (m, K)."""
        vectors = self.geometry.scale(queries[None])
        _, directions = lengths_and_directions(
            vectors, self.geometry.to_mean, self.geometry.direction
        )
        seen, own = (each[Centre.MEAN][0] for each in (directions, self.directions))
        cosines = seen @ own.mT
        largest = cosines.new_full((len(queries), rows.ways), -1)
        places = rows.class_indices.expand_as(cosines)
        return largest.scatter_reduce_(1, places, cosines, "amax")

    def relate(self, queries: Tensor) -> Relations:
        """Relate queries (m, d_T) to members."""
        vectors = self.geometry.scale(queries[None])
        _, directions = lengths_and_directions(
            vectors, self.geometry.to_mean, self.geometry.direction
        )
        compared = self._compare(vectors[0], vectors.new_zeros(len(queries), len(self)))
        operators = vectors.new_empty(len(OPERATORS), len(queries), len(self))
        for ridge, inverse, operator in zip(OPERATORS, self.inverses, operators, strict=True):
            if isinstance(ridge.kernel, CosineKernel):
                seen, own = (each[ridge.kernel.centre][0] for each in (directions, self.directions))
                torch.mm(seen @ inverse, own.mT, out=operator)
            else:
                torch.mm(ridge.kernel(compared)[0], inverse, out=operator)
        return self._relations(compared, operators)

    def relate_each_other(self, size: int) -> Iterator[Relations]:
        """Relate some members at a time to all; no label counts for the member that has it."""
        vectors = self.geometry.vectors[0]
        operators = vectors.new_empty(len(OPERATORS), len(self), len(self))
        for ridge, inverse, operator in zip(OPERATORS, self.inverses, operators, strict=True):
            if isinstance(ridge.kernel, CosineKernel):
                own = self.directions[ridge.kernel.centre][0]
                torch.mm(own @ inverse, own.mT, out=operator)
                left = 1 - operator.diagonal()
            else:
                operator.copy_(inverse)
                left = -operator.diagonal()
            operator.div_(left.unsqueeze(1)).fill_diagonal_(0)
        for start in range(0, len(self), size):
            chunk = slice(start, start + size)
            same = vectors.new_zeros(len(vectors[chunk]), len(self))
            same.diagonal(start).fill_(1)
            yield self._relations(self._compare(vectors[chunk], same), operators[:, chunk])

    def _compare(self, vectors: Tensor, same: Tensor) -> Comparison:
        """Compare scaled vectors (m, d_T) with members."""
        own = self.geometry.vectors[0]
        products = vectors @ own.mT
        shifted, sizes = _sizes(vectors, self.geometry.to_mean)
        cosines = products.new_empty(len(CENTRES), 1, *products.shape)
        for centre in CENTRES:
            shift = self.geometry.to_mean[centre].pow(2).sum()
            torch.add(products, (shifted[centre] + shift).unsqueeze(1), out=cosines[centre, 0])
            cosines[centre, 0] += self.shifted[centre]
            cosines[centre, 0] *= sizes[centre].unsqueeze(1)
            cosines[centre, 0] *= self.sizes[centre]
        squares = vectors.pow(2).sum(dim=1, keepdim=True)
        distances = torch.add(squares, products, alpha=-2).add_(own.pow(2).sum(dim=1))
        distances = safe_ratio(distances.clamp_min_(0), self.geometry.mean_distance)
        return Comparison(self.geometry, cosines, distances, same)

    def _relations(self, compared: Comparison, operators: Tensor) -> Relations:
        channels = stack_channels(compared, origin=self.origin)
        nothing = operators.new_zeros(1, 0, len(compared.same), 0)
        return Relations(channels, operators[None], nothing)


def _sizes(vectors: Tensor, to_mean: Tensor) -> tuple[Tensor, Tensor]:
    """Return x's and 1 / |x + s| of scaled vectors (m, d_T), from each centre: (centres, m)."""
    shifts = to_mean[list(CENTRES), 0]  # (centres, 1, d_T)
    lengths = (vectors + shifts).norm(dim=2)
    return (vectors @ shifts.mT).squeeze(2), safe_ratio(torch.ones_like(lengths), lengths)


def _known_inverses(reading: LargeReading) -> list[Tensor | None]:
    """Return what the first answer has solved of each operator."""
    solved = {place: each for (place, *_), each in zip(COSINES, reading.inverses, strict=True)}
    return [solved.get(place, reading.gaussians.operator) for place in range(len(OPERATORS))]


def _solve(geometry: Geometry, directions: Tensor, place: int) -> Tensor:
    """Return the inverse of an operator, solved among the members."""
    kernel, penalty = OPERATORS[place].kernel, OPERATORS[place].penalty
    if isinstance(kernel, CosineKernel):
        rows = directions[kernel.centre][0]
        return invert(plus_diagonal((rows.mT @ rows).double(), penalty)).to(rows)
    assert isinstance(kernel, GaussianKernel)
    vectors = geometry.vectors[0]
    squares = safe_ratio(squared_distances(vectors, vectors), geometry.mean_distance[0])
    return invert(regular_gram(squares, kernel.sharpness, penalty))
