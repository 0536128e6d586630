"""Blocks beside a first answer that comes from any number of rows: some rows correct it.

Blocks relate rows in pairs, so of many rows only a committee can have states: the first of a random
order, all of them up to `MAX_MEMBERS`. What c of n rows correct counts c / n, and fades with the
number of rows of a class as it always does (`weighing.py`). One row more changes the committee by
one row, so answers do not jump where it stops to hold all rows. Of many classes, each row has
states for a few (`shortlist.py`).
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from unitail.relational.geometry import Comparison, Geometry
from unitail.relational.influence import integrated_slopes
from unitail.relational.large import shortlist
from unitail.relational.large.first_answer import LargeReading
from unitail.relational.large.moments import LabelledRows
from unitail.relational.large.shortlist import ASKED, KNOWN, Few, KeptFew, keep_few, update_few
from unitail.relational.model import Relational
from unitail.relational.regressions import (
    OPERATORS,
    CosineKernel,
    GaussianKernel,
    invert,
    leave_one_out,
)
from unitail.relational.relations import Relations, stack_channels
from unitail.relational.weighing import MAX_SHOTS

MAX_MEMBERS, MAX_PAIRS = 4000, 2**24
"""The most members, and their number times rows, ..."""
MORE_PAIRS = 4
"""... or up to so many times that where classes have few rows, and corrections do not fade."""
MIN_SHARE = 0.002
"""A correction that counts less than this is not made."""
MAX_NUMBERS = 2**25
"""Numbers of relations between queries and members at once."""


@dataclass(frozen=True, eq=False)
class Committee:
    """Rows with states, ready to correct."""

    model: Relational
    geometry: Geometry
    solutions: Tensor
    """P of each operator, (1, operators, c, c)."""
    layers: tuple[KeptFew, ...]
    strength: Tensor
    absent: Tensor
    """The classes that no member has, (K,)."""

    @classmethod
    @torch.no_grad()
    def of(cls, model: Relational, reading: LargeReading, strength: Tensor) -> "Committee | None":
        """Let the first rows that were read be its members, if it would count."""
        rows = reading.rows
        total = len(rows.features)
        members = rows.first(num_members(total, rows.ways))
        strength = strength * len(members.features) / total
        if float(strength) < MIN_SHARE:
            return None
        geometry, compared = Geometry.of(
            members.features[None], origin=model.config.angles_from_origin
        )
        whole = len(members.features) == total
        solutions = _solve(geometry, compared, reading.gaussians.operator if whole else None)
        relations = _relations(model, compared, leave_one_out(solutions))
        count, ways = len(members.features), rows.ways
        size = model.tell_size(count, ways, 0)[None]
        answers = torch.zeros(count, ways).to(solutions)
        if ways > shortlist.MANY_WAYS:
            answers = reading.scores(members.features, roughly=True)
        layers = _read(model, members, relations, answers, size)
        return cls(model, geometry, solutions, layers, strength, members.shots == 0)

    @torch.no_grad()
    def correct(self, queries: Tensor, first: Tensor) -> Tensor:
        """Correct first answers (m, K) to queries (m, d_T)."""
        size = max(1, MAX_NUMBERS // (len(self.geometry.vectors[0]) * 4 * len(OPERATORS)))
        pairs = zip(torch.split(queries, size), torch.split(first, size), strict=True)
        return torch.cat([answers + self.correction(each, answers) for each, answers in pairs])

    def correction(self, queries: Tensor, first: Tensor, heard: Tensor | None = None) -> Tensor:
        """Return what is added to first answers; `heard` (m, c) is the share of each member."""
        compared = self.geometry.compare(queries[None])
        carried = _kernels(compared) @ self.solutions
        relations = _relations(self.model, compared, carried, heard)
        few = Few.best(first[None], _listed(ASKED, first.shape[1]))
        z = self.model.unknown.expand(1, len(queries), few.size + 1, -1)
        for block, kept in zip(self.model.stack(), self.layers, strict=True):
            z = update_few(block, z, few, kept, relations)
        said = few.spread(self.model.read_off(z))[0]
        if self.absent.any():  # nobody speaks for them, or against
            said = torch.where(self.absent, said[:, ~self.absent].mean(dim=1, keepdim=True), said)
        corrected: Tensor = self.strength[0] * said
        return corrected

    def contributions(self, queries: Tensor, first: Tensor, classes: Tensor) -> Tensor:
        """Say what each member adds to the correction of classes (m,): (m, c)."""

        def correct(heard: Tensor) -> Tensor:
            return self.correction(queries, first, heard[0])[None]

        heard = torch.ones(1, len(queries), self.geometry.vectors.shape[1]).to(queries)
        return integrated_slopes(correct, heard, classes[None])[0]


def num_members(rows: int, ways: int) -> int:
    """Return c."""
    more = min(MORE_PAIRS, max(1, MORE_PAIRS * MAX_SHOTS * ways / rows))
    return min(rows, MAX_MEMBERS, int(MAX_PAIRS * more) // rows)


def _listed(most: int, ways: int) -> int:
    """Return how many classes have a state of their own: of few classes, all."""
    return most if ways > shortlist.MANY_WAYS else ways


def _read(
    model: Relational, members: LabelledRows, relations: Relations, answers: Tensor, size: Tensor
) -> tuple[KeptFew, ...]:
    """Pass the states of members through the blocks."""
    labels = members.class_indices[None]
    few = Few.best(answers[None], _listed(KNOWN, members.ways), labels)
    own = Few(labels.unsqueeze(2), members.ways)  # before any block, other classes are all alike
    known = torch.zeros(1, len(labels[0]), 2).to(model.unknown)
    known[..., 0] = 1
    tokens = model.known(known)
    z = torch.cat([tokens, tokens[:, :, 1:].expand(-1, -1, few.size - 1, -1)], dim=2)
    blocks = model.stack()
    layers = [keep_few(blocks[0], tokens, own, labels, size)]
    for block, following in pairwise(blocks):
        z = update_few(block, z, few, layers[-1], relations)
        layers.append(keep_few(following, z, few, labels, size))
    return tuple(layers)


def _kernels(compared: Comparison) -> Tensor:
    return torch.stack([ridge.kernel(compared) for ridge in OPERATORS], dim=1)


def _relations(
    model: Relational, compared: Comparison, operators: Tensor, heard: Tensor | None = None
) -> Relations:
    channels = stack_channels(compared, origin=model.config.angles_from_origin)
    kind = model.unknown.dtype
    nothing = operators.new_zeros(1, 0, operators.shape[2], 0)
    share = None if heard is None else heard[None].to(kind)
    return Relations(channels.to(kind), operators.to(kind), nothing, share)


def _solve(geometry: Geometry, compared: Comparison, gaussian: Tensor | None) -> Tensor:
    """Return P of each operator, that of the Gaussian kernel as it is known.

    Of cosines in few coordinates it is solved among these:

    (U U' + lambda I)^-1 = (I - U (U'U + lambda I)^-1 U') / lambda.
    """
    count, width = geometry.vectors.shape[1:]
    solutions = compared.cosines.new_empty(1, len(OPERATORS), count, count)
    for ridge, solution in zip(OPERATORS, solutions[0], strict=True):
        if isinstance(ridge.kernel, CosineKernel) and 2 * width < count:
            rows = geometry.directions[ridge.kernel.centre][0]
            inner = (rows.mT @ rows).double()
            inner.diagonal().add_(ridge.penalty)
            torch.mm(rows @ (invert(inner) / -ridge.penalty).to(rows), rows.mT, out=solution)
            solution.diagonal().add_(1 / ridge.penalty)
        elif isinstance(ridge.kernel, GaussianKernel) and gaussian is not None:
            solution.copy_(gaussian)
        else:
            gram = ridge.kernel(compared)[0].clone()
            gram.diagonal().add_(ridge.penalty)
            solution.copy_(invert(gram))
    return solutions
