r"""Ridge regressions on Gaussian kernels, for any number of rows.

Up to `MAX_SOLVED` rows they are solved as they are: scores g_x P Y with P = (G + lambda I)^-1.
Beyond, what is smooth is learned from all rows, and what is not from those near to a query (Snelson
and Ghahramani, *Local and global sparse Gaussian process approximations*, 2007). With Z, M of them,

    phi(x) = L^-1 g_Z(x),  G_ZZ = L L'          phi(x)'phi(z) is g(x, z) as far as Z can tell,
    r(x, z) = g(x, z) - phi(x)'phi(z)           the rest,
    A = I + sum_i phi_i phi_i' / D_i,   w = A^-1 sum_i phi_i y_i / D_i,   D_i = lambda + r(i, i),
    scores = phi(x)' w + rho' (Y_N - Phi_N w),   rho = (r(N, N) + lambda I)^-1 r(N, x),

where N are the rows nearest to x, but for Z, whose rest is nothing. Were Z all rows, this would be
the exact answer. A row i is left out by

    (phi_i' w - h y_i) / (1 - h),   h = phi_i' A^-1 phi_i / D_i,

and if it is not in Z, its neighbourhood has the others.
"""

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
"""Place among ridge regressions, sharpness, penalty."""
MAX_SOLVED = 4096
"""Rows up to which regressions are solved as they are."""
MAX_GUIDES, MIN_GUIDES, MAX_PROFILES = 2048, 16, 2**25
"""The most and fewest rows in Z, and numbers in all phi."""
NEAR = 128
"""Rows in a neighbourhood."""
CHUNK, QUERIES = 2**22, 32
"""Numbers of kernels at once, and queries whose neighbours are asked at once."""
JITTER = {torch.float32: 1e-5, torch.float64: 1e-10}
"""Of G_ZZ, so that it has a root."""


@dataclass(frozen=True, eq=False)
class ExactRidge:
    """A regression that is solved as it is."""

    rows: LabelledRows
    centre: Tensor
    sharpness: float
    """In the units of the rows."""
    penalty: float
    solution: Tensor
    """P Y, (n, K)."""
    left_out: Tensor
    """Scores of the first rows, each without its label: (asked, K)."""
    inverse: Tensor
    """P, (n, n)."""

    @classmethod
    def of(
        cls,
        rows: LabelledRows,
        squares: Tensor,
        centre: Tensor,
        sharpness: float,
        penalty: float,
        asked: int,
    ) -> "ExactRidge":
        """Solve it by squared distances (n, n); without its label, i has y_i - (P Y)_i / P_ii."""
        inverse = invert(regular_gram(squares, sharpness, penalty))
        solution = rows.sums_of(inverse.mT).mT
        own = rows.centred_labels(asked)
        left_out = own - solution[:asked] / inverse.diagonal()[:asked, None]
        return cls(rows, centre, sharpness, penalty, solution, left_out, inverse)

    def scores(self, queries: Tensor) -> Tensor:
        """Score the classes for queries (m, d_T): (m, K)."""
        return self._kernel(queries) @ self.solution

    def carried(self, queries: Tensor) -> Tensor:
        """Return g_x P, (m, n)."""
        return self._kernel(queries) @ self.inverse

    def _kernel(self, queries: Tensor) -> Tensor:
        known, asked = self.rows.features - self.centre, queries - self.centre
        return torch.exp(-self.sharpness * squared_distances(asked, known))


@dataclass(frozen=True, eq=False)
class SparseRidge:
    """A regression by profiles, and the rest of them near to a query."""

    rows: LabelledRows
    centre: Tensor
    sharpness: float
    penalty: float
    root: Tensor
    """L, (M, M)."""
    profiles: Tensor
    """phi of all rows, (n, M)."""
    noise: Tensor
    """D, (n, 1)."""
    inverse: Tensor
    """A^-1, (M, M)."""
    solution: Tensor
    """w, (M, K)."""
    near: Neighbourhoods
    """Of the rows that are not in Z."""

    @classmethod
    def of(
        cls,
        rows: LabelledRows,
        centre: Tensor,
        sharpness: float,
        penalty: float,
        near: Neighbourhoods,
    ) -> "SparseRidge":
        """Walk over all rows once; Z are the first of them, which come in random order."""
        kind, count = rows.features.dtype, num_guides(len(rows.features))
        guides = rows.features[:count] - centre
        squares = squared_distances(guides.double(), guides.double())
        root = factorise(regular_gram(squares, sharpness, JITTER[kind])).to(kind)
        profiles = torch.empty(len(rows.features), count).to(rows.features)
        noise = torch.empty(len(rows.features), 1).to(rows.features)
        products = torch.eye(count, dtype=torch.float64, device=root.device)
        sums = torch.zeros(rows.ways, count, dtype=torch.float64, device=root.device)
        size = max(1, CHUNK // count)
        for start in range(0, len(rows.features), size):
            chunk = slice(start, start + size)
            kernel = squared_distances(guides, rows.features[chunk] - centre)
            kernel = torch.exp(-sharpness * kernel)
            phi = torch.linalg.solve_triangular(root, kernel, upper=False).mT
            noise[chunk] = penalty + (1 - phi.pow(2).sum(dim=1, keepdim=True)).clamp_min(0)
            profiles[chunk] = phi
            weighed = phi / noise[chunk]
            products += (weighed.mT @ phi).double()
            sums.index_add_(0, rows.class_indices[chunk], weighed.double())
        inverse = invert(products)
        solution = inverse @ (sums - sums.sum(dim=0) / rows.ways).mT
        parts = (root, profiles, noise, inverse.to(kind), solution.to(kind))
        return cls(rows, centre, sharpness, penalty, *parts, near)

    def left_out(self, asked: int, near: Tensor) -> Tensor:
        """Score the first rows, each without its label: (asked, K).

        `near` are the places of the rows near to those of them that are not in Z.
        """
        phi, guides = self.profiles[:asked], len(self.root)
        leverage = ((phi @ self.inverse) * phi).sum(dim=1, keepdim=True) / self.noise[:asked]
        labels = self.rows.centred_labels(asked)
        scores = (phi @ self.solution - leverage * labels) / (1 - leverage)
        if asked > guides:
            queries = self.rows.features[guides:asked]
            scores[guides:] += self._from_near(queries, phi[guides:], near)
        return scores

    def scores(self, queries: Tensor) -> Tensor:
        """Score the classes for queries (m, d_T): (m, K)."""
        phi = self._profiles(queries)
        return phi @ self.solution + self._from_near(queries, phi, self._near(queries))

    def carried(self, queries: Tensor) -> Tensor:
        """Return what each row's centred label counts: (m, n)."""
        phi = self._profiles(queries)
        near = self._near(queries)
        rho = self._rest(queries, phi, near)
        left = phi - (rho.unsqueeze(1) @ self.profiles[near]).squeeze(1)
        carried = left @ self.inverse @ (self.profiles / self.noise).mT
        return carried.scatter_add_(1, near, rho)

    def _profiles(self, queries: Tensor) -> Tensor:
        guides = self.rows.features[: len(self.root)] - self.centre
        kernel = squared_distances(guides, queries - self.centre)
        kernel = torch.exp(-self.sharpness * kernel)
        profiles: Tensor = torch.linalg.solve_triangular(self.root, kernel, upper=False)
        return profiles.mT

    def _near(self, queries: Tensor) -> Tensor:
        return self.near.nearest(queries) + len(self.root)

    def _from_near(self, queries: Tensor, phi: Tensor, near: Tensor) -> Tensor:
        pieces = []
        for start in range(0, len(queries), QUERIES):
            chunk = slice(start, start + QUERIES)
            own = near[chunk]
            rho = self._rest(queries[chunk], phi[chunk], own)
            votes = -rho.sum(dim=1, keepdim=True).repeat(1, self.rows.ways) / self.rows.ways
            votes.scatter_add_(1, self.rows.class_indices[own], rho)
            known = (rho.unsqueeze(1) @ self.profiles[own]).squeeze(1)
            pieces.append(votes - known @ self.solution)
        return torch.cat(pieces)

    def _rest(self, queries: Tensor, phi: Tensor, near: Tensor) -> Tensor:
        """Return rho of the rows near to queries: (m, k)."""
        rows, known = self.rows.features[near], self.profiles[near]  # (m, k, d_T), (m, k, M)
        away = (rows - queries.unsqueeze(1)).pow(2).sum(dim=2, keepdim=True)
        rows = rows - rows.mean(dim=1, keepdim=True)  # so that little is rounded, however far x is
        lengths = rows.pow(2).sum(dim=2, keepdim=True)
        squares = (lengths + lengths.mT - 2 * rows @ rows.mT).clamp_min(0)
        rest = torch.exp(-self.sharpness * squares) - known @ known.mT
        rest.diagonal(dim1=1, dim2=2).copy_(self.noise[near].squeeze(2))
        asked = torch.exp(-self.sharpness * away) - known @ phi.unsqueeze(2)
        return torch.cholesky_solve(asked, factorise(rest)).squeeze(2)


@dataclass(frozen=True, eq=False)
class Gaussians:
    """All of them, or the first."""

    ridges: tuple[ExactRidge | SparseRidge, ...]
    left_out: Tensor
    """Scores of the first rows, each without its label: (gaussians, asked, K)."""

    @classmethod
    def of(cls, rows: LabelledRows, mean_distance: float, asked: int, count: int) -> "Gaussians":
        """Read all rows, for the first `count` of the regressions.

        `mean_distance` is squared, between different rows.
        """
        centre = rows.features.mean(dim=0, dtype=torch.float64).to(rows.features)
        guides = num_guides(len(rows.features))
        per_unit = 1 / mean_distance if mean_distance > 0 else 0.0  # all rows are equal
        scaled = [(sharpness * per_unit, penalty) for _, sharpness, penalty in GAUSSIANS[:count]]
        ridges: list[ExactRidge | SparseRidge]
        if guides:
            near = Neighbourhoods(rows.features[guides:], NEAR)
            sparse = [SparseRidge.of(rows, centre, *each, near) for each in scaled]
            places = torch.arange(max(0, asked - guides), device=centre.device)
            # Each of them is a row itself, and has the other rows near.
            around = near.nearest(near.features[: len(places)], places) + guides
            ridges, left_out = [*sparse], [each.left_out(asked, around) for each in sparse]
        else:
            known = rows.features - centre
            squares = squared_distances(known, known)
            exact = [ExactRidge.of(rows, squares, centre, *each, asked) for each in scaled]
            ridges, left_out = [*exact], [each.left_out for each in exact]
        return cls(tuple(ridges), torch.stack(left_out))

    @property
    def operator(self) -> Tensor | None:
        """P of the regression that blocks have as an operator, if it is exact: (n, n)."""
        first = self.ridges[0]
        return first.inverse if isinstance(first, ExactRidge) else None


def num_guides(rows: int) -> int:
    """Return M, 0 where regressions are solved as they are."""
    return 0 if rows <= MAX_SOLVED else min(MAX_GUIDES, max(MIN_GUIDES, MAX_PROFILES // rows))


def squared_distances(queries: Tensor, rows: Tensor) -> Tensor:
    """Compare centred rows: (m, n)."""
    lengths = queries.pow(2).sum(dim=1, keepdim=True), rows.pow(2).sum(dim=1)
    return (lengths[0] + lengths[1] - 2 * queries @ rows.mT).clamp_min(0)


def regular_gram(squares: Tensor, sharpness: float, penalty: float) -> Tensor:
    """Return G + lambda I by squared distances (n, n)."""
    gram = torch.exp(-sharpness * squares)
    gram.fill_diagonal_(1 + penalty)
    return gram
