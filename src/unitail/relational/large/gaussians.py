r"""Ridge regressions on Gaussian kernels, for any number of rows.

Up to `MAX_SOLVED` rows they are solved exactly: scores g_x P Y with P = (G + lambda I)^-1.
Beyond, the smooth part is learned from all rows, and the remainder from rows near to a query
(Snelson and Ghahramani, *Local and global sparse Gaussian process approximations*, 2007). With M
rows Z as inducing points,

    phi(x) = L^-1 g_Z(x),  G_ZZ = L L'          phi(x)'phi(z) approximates g(x, z),
    r(x, z) = g(x, z) - phi(x)'phi(z)           the remainder,
    A = I + sum_i phi_i phi_i' / D_i,   w = A^-1 sum_i phi_i y_i / D_i,   D_i = lambda + r(i, i),
    scores = phi(x)' w + rho' (Y_N - Phi_N w),   rho = (r(N, N) + lambda I)^-1 r(N, x),

where N are the rows nearest to x outside of Z, as the remainder is zero in Z. If Z were all rows,
this would be the exact answer. A row i is left out by

    (phi_i' w - h y_i) / (1 - h),   h = phi_i' A^-1 phi_i / D_i,

and if it is not in Z, it is left out of its own neighbourhood.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unitail.relational.large.moments import LabelledRows
from unitail.relational.large.neighbours import Neighbourhoods
from unitail.relational.regressions import FURTHER, OPERATORS, GaussianKernel, factorise, invert

GAUSSIANS = tuple(
    (place, ridge.kernel.sharpness, ridge.penalty)
    for place, ridge in enumerate(OPERATORS + FURTHER)
    if isinstance(ridge.kernel, GaussianKernel)
)
"""Gaussian kernels: index among the ridge regressions, sharpness, penalty."""
MAX_SOLVED = 4096
"""Largest number of rows for an exact solution."""
MAX_INDUCING, MIN_INDUCING, MAX_PHI = 2048, 16, 2**25
"""Largest and smallest number of rows in Z, and largest number of elements of all phi."""
NEAR = 128
"""Number of rows in a neighbourhood."""
KERNEL_AT_ONCE, SOLVED_AT_ONCE = 2**22, 32
"""Elements of kernels at once, and queries whose neighbourhoods are solved at once."""
JITTER = {torch.float32: 1e-5, torch.float64: 1e-10}
"""Added to the diagonal of G_ZZ, so that its Cholesky factor exists."""


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What regressions of any sharpness need of some queries."""

    queries: Tensor
    """(m, d_T)."""
    squares: Tensor
    """Squared distances to all rows, or to the inducing points: (m, any)."""
    near: Tensor | None
    """Indices of the rows nearest to each query, if distances are to inducing points: (m, k)."""


@dataclass(frozen=True, eq=False)
class ExactRidge:
    """A regression that is solved exactly."""

    sharpness: float
    """Relative to squared distances of the rows as they are."""
    solution: Tensor
    """P Y, (n, K)."""
    left_out: Tensor
    """Scores of the first rows, each without its label: (num_left_out, K)."""
    inverse: Tensor
    """P, (n, n)."""

    @classmethod
    def of(
        cls,
        rows: LabelledRows,
        squares: Tensor,
        sharpness: float,
        penalty: float,
        num_left_out: int,
    ) -> "ExactRidge":
        """Solve from squared distances (n, n). Row i without its label has y_i - (P Y)_i / P_ii."""
        inverse = invert(regular_gram(squares, sharpness, penalty))
        solution = rows.sums_of(inverse.mT).mT
        labels = rows.centred_labels(num_left_out)
        left_out = labels - solution[:num_left_out] / inverse.diagonal()[:num_left_out, None]
        return cls(sharpness, solution, left_out, inverse)

    def scores(self, around: Surroundings) -> Tensor:
        """Score the classes for queries: (m, K)."""
        return torch.exp(-self.sharpness * around.squares) @ self.solution

    def row_weights(self, around: Surroundings) -> Tensor:
        """Return g_x P, (m, n)."""
        return torch.exp(-self.sharpness * around.squares) @ self.inverse


@dataclass(frozen=True, eq=False)
class SparseRidge:
    """A regression on phi, with the remainder from rows near to a query."""

    rows: LabelledRows
    sharpness: float
    root: Tensor
    """L, (M, M)."""
    phi: Tensor
    """phi of all rows, (n, M)."""
    noise: Tensor
    """D, (n, 1)."""
    inverse: Tensor
    """A^-1, (M, M)."""
    solution: Tensor
    """w, (M, K)."""

    @classmethod
    def of(
        cls, rows: LabelledRows, centre: Tensor, sharpness: float, penalty: float
    ) -> "SparseRidge":
        """Read all rows in one pass. They come in random order, and Z are the first of them."""
        dtype, count = rows.features.dtype, num_inducing(len(rows.features))
        inducing = rows.features[:count] - centre
        squares = squared_distances(inducing.double(), inducing.double())
        root = factorise(regular_gram(squares, sharpness, JITTER[dtype])).to(dtype)
        all_phi = torch.empty(len(rows.features), count).to(rows.features)
        noise = torch.empty(len(rows.features), 1).to(rows.features)
        products = torch.eye(count, dtype=torch.float64, device=root.device)
        sums = torch.zeros(rows.ways, count, dtype=torch.float64, device=root.device)
        size = max(1, KERNEL_AT_ONCE // count)
        for start in range(0, len(rows.features), size):
            chunk = slice(start, start + size)
            kernel = squared_distances(inducing, rows.features[chunk] - centre)
            kernel = torch.exp(-sharpness * kernel)
            phi = torch.linalg.solve_triangular(root, kernel, upper=False).mT
            noise[chunk] = penalty + (1 - phi.pow(2).sum(dim=1, keepdim=True)).clamp_min(0)
            all_phi[chunk] = phi
            weighted = phi / noise[chunk]
            products += (weighted.mT @ phi).double()
            sums.index_add_(0, rows.class_indices[chunk], weighted.double())
        inverse = invert(products)
        solution = inverse @ (sums - sums.sum(dim=0) / rows.ways).mT
        parts = (root, all_phi, noise, inverse.to(dtype), solution.to(dtype))
        return cls(rows, sharpness, *parts)

    def left_out(self, num_left_out: int, near: Tensor) -> Tensor:
        """Score the first rows, each without its label: (num_left_out, K).

        `near` are the indices of the rows near to those of them that are not in Z.
        """
        phi, inducing = self.phi[:num_left_out], len(self.root)
        leverage = ((phi @ self.inverse) * phi).sum(dim=1, keepdim=True) / self.noise[:num_left_out]
        labels = self.rows.centred_labels(num_left_out)
        scores = (phi @ self.solution - leverage * labels) / (1 - leverage)
        if num_left_out > inducing:
            queries = self.rows.features[inducing:num_left_out]
            scores[inducing:] += self._from_near(queries, phi[inducing:], near)
        return scores

    def scores(self, around: Surroundings) -> Tensor:
        """Score the classes for queries: (m, K)."""
        assert around.near is not None
        phi = self._phi(around)
        return phi @ self.solution + self._from_near(around.queries, phi, around.near)

    def row_weights(self, around: Surroundings) -> Tensor:
        """Return the weight of each row's centred label in the scores: (m, n)."""
        assert around.near is not None
        phi = self._phi(around)
        rho, from_near = self._rho(around.queries, phi, around.near)
        row_weights = (phi - from_near) @ self.inverse @ (self.phi / self.noise).mT
        return row_weights.scatter_add_(1, around.near, rho)

    def _phi(self, around: Surroundings) -> Tensor:
        kernel = torch.exp(-self.sharpness * around.squares).mT
        phi: Tensor = torch.linalg.solve_triangular(self.root, kernel, upper=False)
        return phi.mT

    def _from_near(self, queries: Tensor, phi: Tensor, near: Tensor) -> Tensor:
        pieces = []
        for start in range(0, len(queries), SOLVED_AT_ONCE):
            chunk = slice(start, start + SOLVED_AT_ONCE)
            rows = near[chunk]
            rho, from_near = self._rho(queries[chunk], phi[chunk], rows)
            # rho' Y_N with centred labels, without one-hot rows.
            scores = -rho.sum(dim=1, keepdim=True).repeat(1, self.rows.ways) / self.rows.ways
            scores.scatter_add_(1, self.rows.class_indices[rows], rho)
            pieces.append(scores - from_near @ self.solution)
        return torch.cat(pieces)

    def _rho(self, queries: Tensor, phi: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
        """Return rho for the rows near to queries, (m, k), and rho' Phi_N, (m, M)."""
        rows, row_phi = self.rows.features[near], self.phi[near]  # (m, k, d_T), (m, k, M)
        to_query = (rows - queries.unsqueeze(1)).pow(2).sum(dim=2, keepdim=True)
        rows = rows - rows.mean(dim=1, keepdim=True)  # less rounding, however far x is
        lengths = rows.pow(2).sum(dim=2, keepdim=True)
        squares = (lengths + lengths.mT - 2 * rows @ rows.mT).clamp_min(0)
        remainder = torch.exp(-self.sharpness * squares) - row_phi @ row_phi.mT
        remainder.diagonal(dim1=1, dim2=2).copy_(self.noise[near].squeeze(2))
        at_query = torch.exp(-self.sharpness * to_query) - row_phi @ phi.unsqueeze(2)
        rho = torch.cholesky_solve(at_query, factorise(remainder)).squeeze(2)
        return rho, (rho.unsqueeze(1) @ row_phi).squeeze(1)


@dataclass(frozen=True, eq=False)
class Gaussians:
    """The regressions on Gaussian kernels, all of them or the first ones."""

    ridges: tuple[ExactRidge | SparseRidge, ...]
    left_out: Tensor
    """Scores of the first rows, each without its label: (gaussians, num_left_out, K)."""
    centre: Tensor
    """The mean of all rows, (d_T,)."""
    centred: Tensor
    """All rows, or the inducing points, from their mean: (any, d_T)."""
    near: Neighbourhoods | None
    """The rows that are not inducing points, to be searched; None if solutions are exact."""

    @classmethod
    def of(
        cls, rows: LabelledRows, mean_distance: float, num_left_out: int, count: int
    ) -> "Gaussians":
        """Fit the first `count` regressions to all rows; leave out the first `num_left_out` rows.

        `mean_distance` is the mean squared distance between different rows.
        """
        centre = rows.features.mean(dim=0, dtype=torch.float64).to(rows.features)
        inducing = num_inducing(len(rows.features))
        per_unit = 1 / mean_distance if mean_distance > 0 else 0.0  # all rows are equal
        scaled = [(sharpness * per_unit, penalty) for _, sharpness, penalty in GAUSSIANS[:count]]
        centred = rows.features[: inducing or None] - centre
        ridges: list[ExactRidge | SparseRidge]
        near = None
        if inducing:
            near = Neighbourhoods(rows.features[inducing:], NEAR)
            sparse = [SparseRidge.of(rows, centre, *each) for each in scaled]
            places = torch.arange(max(0, num_left_out - inducing), device=centre.device)
            # These queries are rows themselves, and must not be their own neighbours.
            around = near.nearest(near.features[: len(places)], places) + inducing
            ridges, left_out = [*sparse], [each.left_out(num_left_out, around) for each in sparse]
        else:
            squares = squared_distances(centred, centred)
            exact = [ExactRidge.of(rows, squares, *each, num_left_out) for each in scaled]
            ridges, left_out = [*exact], [each.left_out for each in exact]
        return cls(tuple(ridges), torch.stack(left_out), centre, centred, near)

    def measure(self, queries: Tensor) -> Surroundings:
        """Measure and search once for all regressions what they need of queries (m, d_T)."""
        centred = queries - self.centre
        if self.near is None:
            return Surroundings(queries, squared_distances(centred, self.centred), None)
        squares = squared_distances(self.centred, centred).mT
        return Surroundings(queries, squares, self.near.nearest(queries) + len(self.centred))

    def scores(self, queries: Tensor, used: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
        """Yield some of the regressions, by their number, with their scores of queries: (m, K)."""
        if used:
            around = self.measure(queries)
            for number in used:
                yield number, self.ridges[number].scores(around)

    @property
    def operator(self) -> Tensor | None:
        """P of the first regression, which is an operator of blocks, if it is exact: (n, n)."""
        first = self.ridges[0]
        return first.inverse if isinstance(first, ExactRidge) else None


def num_inducing(rows: int) -> int:
    """Return M, the number of inducing points, or 0 for an exact solution."""
    return 0 if rows <= MAX_SOLVED else min(MAX_INDUCING, max(MIN_INDUCING, MAX_PHI // rows))


def squared_distances(queries: Tensor, rows: Tensor) -> Tensor:
    """Return squared distances between centred vectors: (m, n)."""
    lengths = queries.pow(2).sum(dim=1, keepdim=True), rows.pow(2).sum(dim=1)
    return (lengths[0] + lengths[1] - 2 * queries @ rows.mT).clamp_min(0)


def regular_gram(squares: Tensor, sharpness: float, penalty: float) -> Tensor:
    """Return G + lambda I from squared distances (n, n)."""
    gram = torch.exp(-sharpness * squares)
    gram.fill_diagonal_(1 + penalty)
    return gram
