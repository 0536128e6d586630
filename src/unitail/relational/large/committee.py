"""Blocks beside a first answer that comes from any number of rows: some rows correct it.

Blocks relate rows in pairs, so of many rows only a committee can have states: the first of a random
order, all of them up to `MAX_MEMBERS`. What c of n rows correct counts c / n, and fades with the
number of rows of a class as it always does (`weighing.py`). One row more changes the committee by
one row, so answers do not jump where it stops to hold all rows. Of many classes, each row has
states for a few (`shortlist.py`).
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from unitail.relational.class_lists import FewClasses, most_hopeful
from unitail.relational.influence import integrated_slopes
from unitail.relational.large import shortlist
from unitail.relational.large.first_answer import LargeReading
from unitail.relational.large.members import Members
from unitail.relational.large.moments import LabelledRows
from unitail.relational.large.shortlist import (
    ASKED,
    FewClassesCache,
    cache_few,
    num_known,
    update_few,
)
from unitail.relational.model import Relational
from unitail.relational.weighing import MAX_SHOTS

MAX_MEMBERS, MAX_PAIRS = 4000, 2**24
"""The most members, and their number times rows, ..."""
MORE_PAIRS = 4
"""... or up to this many times that where classes have few rows, and corrections do not fade."""
MIN_SHARE = 0.002
"""A correction that counts less than this is not made."""
SLOPES = 4
"""How many times the memory of answers their slopes take, about."""


@dataclass(frozen=True, eq=False)
class Committee:
    """Rows with states, ready to correct."""

    model: Relational
    members: Members
    layers: tuple[FewClassesCache, ...]
    strength: Tensor
    rows: LabelledRows
    """The members as they were read."""

    @classmethod
    @torch.no_grad()
    def of(cls, model: Relational, reading: LargeReading, strength: Tensor) -> "Committee | None":
        """Let the first rows that were read be its members, if it would count."""
        total, ways = len(reading.rows.features), reading.rows.ways
        rows = reading.rows.first(num_members(total, ways))
        strength = strength * len(rows.features) / total
        if float(strength) < MIN_SHARE:
            return None
        members = Members.of(reading, len(rows.features), origin=model.config.angles_from_origin)
        hopes = torch.zeros(len(members), ways).to(rows.features)
        if ways > shortlist.MANY_WAYS:
            pieces = torch.split(rows.features, members.chunk(1))
            first = (reading.scores(piece, roughly=True) for piece in pieces)
            near = (members.nearest(piece, rows) for piece in pieces)
            hopes = torch.cat(list(map(most_hopeful, first, near)))
        layers = _read(model, rows, members, hopes)
        return cls(model, members, layers, strength, rows)

    @torch.no_grad()
    def correct(self, queries: Tensor, first: Tensor) -> Tensor:
        """Correct first answers (m, K) to queries (m, d_T)."""
        size = self.members.chunk(_listed(ASKED, first.shape[1]))
        pairs = zip(torch.split(queries, size), torch.split(first, size), strict=True)
        return torch.cat([answers + self.correction(each, answers) for each, answers in pairs])

    def correction(self, queries: Tensor, first: Tensor, heard: Tensor | None = None) -> Tensor:
        """Return what is added to first answers; `heard` (m, c) is the share of each member."""
        relations = self.members.relate(queries).to(self.model.unknown.dtype)
        if heard is not None:
            relations = replace(relations, seen_scale=heard[None].to(self.model.unknown))
        few = self._shortlist(queries, first)
        z = self.model.unknown.expand(1, len(queries), few.size + 1, -1)
        for block, kept in zip(self.model.stack(), self.layers, strict=True):
            z = update_few(block, z, few, kept, relations)
        said = few.to_classes(self.model.correction(z))[0]
        absent = self.rows.shots == 0
        if absent.any():  # nobody speaks for these classes, or against
            said = torch.where(absent, said[:, ~absent].mean(dim=1, keepdim=True), said)
        corrected: Tensor = self.strength[0] * said
        return corrected

    def _shortlist(self, queries: Tensor, first: Tensor) -> FewClasses:
        ways = first.shape[1]
        if ways > shortlist.MANY_WAYS:
            first = most_hopeful(first, self.members.nearest(queries, self.rows))
        return FewClasses.best(first[None], _listed(ASKED, ways))

    def contributions(self, queries: Tensor, first: Tensor, classes: Tensor) -> Tensor:
        """Say what each member adds to the correction of classes (m,): (m, c)."""
        size = max(1, self.members.chunk(_listed(ASKED, first.shape[1])) // SLOPES)
        parts = (torch.split(each, size) for each in (queries, first, classes))
        return torch.cat([self._contributions(*part) for part in zip(*parts, strict=True)])

    def _contributions(self, queries: Tensor, first: Tensor, classes: Tensor) -> Tensor:
        def correct(heard: Tensor) -> Tensor:
            return self.correction(queries, first, heard[0])[None]

        heard = torch.ones(1, len(queries), len(self.members)).to(queries)
        return integrated_slopes(correct, heard, classes[None])[0]


def num_members(rows: int, ways: int) -> int:
    """Return c."""
    more = min(MORE_PAIRS, max(1, MORE_PAIRS * MAX_SHOTS * ways / rows))
    return min(rows, MAX_MEMBERS, int(MAX_PAIRS * more) // rows)


def _listed(most: int, ways: int) -> int:
    """Return how many classes have a state of their own: of few classes, all."""
    return most if ways > shortlist.MANY_WAYS else ways


def _read(
    model: Relational, rows: LabelledRows, members: Members, hopes: Tensor
) -> tuple[FewClassesCache, ...]:
    """Pass the states of members through the blocks."""
    labels, kind = rows.class_indices[None], model.unknown.dtype
    size = model.embed_size(len(members), rows.ways, 0)[None]
    few = FewClasses.best(hopes[None], _listed(num_known(len(members)), rows.ways), labels)
    own = FewClasses(
        labels.unsqueeze(2), rows.ways
    )  # before any block, other classes are all alike
    known = torch.zeros(1, len(members), 2).to(model.unknown)
    known[..., 0] = 1
    tokens = model.label_states(known)
    z = torch.cat([tokens, tokens[:, :, 1:].expand(-1, -1, few.size - 1, -1)], dim=2)
    blocks, step = model.stack(), members.chunk(few.size + 1)
    relations = [each.to(kind) for each in members.relate_each_other(step)]
    layers = [cache_few(blocks[0], tokens, own, labels, size)]
    for block, following in pairwise(blocks):
        parts = zip(torch.split(z, step, dim=1), few.split(step), relations, strict=True)
        z = torch.cat([update_few(block, *part[:2], layers[-1], part[2]) for part in parts], dim=1)
        layers.append(cache_few(following, z, few, labels, size))
    return tuple(layers)
