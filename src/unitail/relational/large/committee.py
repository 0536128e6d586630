"""The correction by the blocks where the first answer comes from any number of rows.

Blocks relate rows in pairs, so with many rows only a committee of them has states: the first ones
of a random order, all rows up to `MAX_MEMBERS`. With c of n rows the correction has the factor
c / n, and fades with the number of rows per class as it always does (`weighing.py`). One more row
changes the committee by one row, so answers do not jump where it stops to hold all rows. With many
classes, each row has states for a few of them (`shortlist.py`).
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from unitail.nn.episode_model import GRADIENT_MEMORY
from unitail.relational.class_lists import FewClasses, most_promising
from unitail.relational.influence import integrated_slopes
from unitail.relational.large import shortlist
from unitail.relational.large.first_answer import LargeReading
from unitail.relational.large.members import Members
from unitail.relational.large.moments import LabelledRows
from unitail.relational.large.shortlist import (
    LISTED_PER_QUERY,
    FewClassesCache,
    cache_few,
    num_known,
    update_few,
)
from unitail.relational.model import Relational
from unitail.relational.weighing import MAX_SHOTS

MAX_MEMBERS, MAX_PAIRS = 4000, 2**24
"""Largest number of members, and usually of members times rows."""
MORE_PAIRS = 4
"""Where classes have few rows, and corrections do not fade, members times rows may be up to this
many times `MAX_PAIRS`."""
MIN_SHARE = 0.002
"""A correction with a smaller factor is not computed."""


@dataclass(frozen=True, eq=False)
class Committee:
    """Rows with states, whose caches in each block correct the first answer."""

    model: Relational
    members: Members
    layers: tuple[FewClassesCache, ...]
    strength: Tensor
    rows: LabelledRows
    """The labelled rows of the members."""

    @classmethod
    @torch.no_grad()
    def of(cls, model: Relational, reading: LargeReading, strength: Tensor) -> "Committee | None":
        """Take the first rows as members; None if their correction would be negligible."""
        total, ways = len(reading.rows.features), reading.rows.ways
        rows = reading.rows.first(num_members(total, ways))
        strength = strength * len(rows.features) / total
        if float(strength) < MIN_SHARE:
            return None
        members = Members.of(reading, len(rows.features))
        class_scores = torch.zeros(len(members), ways).to(rows.features)
        if ways > shortlist.MAX_UNLISTED_WAYS:
            pieces = torch.split(rows.features, members.chunk(1))
            first = (reading.scores(piece, roughly=True) for piece in pieces)
            near = (members.nearest(piece, rows) for piece in pieces)
            class_scores = torch.cat(list(map(most_promising, first, near)))
        layers = _read(model, rows, members, class_scores)
        return cls(model, members, layers, strength, rows)

    @torch.no_grad()
    def correct(self, queries: Tensor, first: Tensor) -> Tensor:
        """Correct first answers (m, K) to queries (m, d_T)."""
        size = self.members.chunk(_num_listed(LISTED_PER_QUERY, first.shape[1]))
        pairs = zip(torch.split(queries, size), torch.split(first, size), strict=True)
        return torch.cat([answers + self.correction(each, answers) for each, answers in pairs])

    def correction(self, queries: Tensor, first: Tensor, scale: Tensor | None = None) -> Tensor:
        """Return the correction of first answers (m, K); `scale` (m, c) is a factor per member."""
        relations = self.members.relate(queries).to(self.model.unknown.dtype)
        if scale is not None:
            relations = replace(relations, seen_scale=scale[None].to(self.model.unknown))
        few = self._shortlist(queries, first)
        z = self.model.unknown.expand(1, len(queries), few.size + 1, -1)
        for block, cache in zip(self.model.stack(), self.layers, strict=True):
            z = update_few(block, z, few, cache, relations)
        correction = few.to_classes(self.model.correction(z))[0]
        absent = self.rows.shots == 0
        if absent.any():  # a class without a member gets the mean correction of the others
            mean = correction[:, ~absent].mean(dim=1, keepdim=True)
            correction = torch.where(absent, mean, correction)
        scaled: Tensor = self.strength[0] * correction
        return scaled

    def _shortlist(self, queries: Tensor, first: Tensor) -> FewClasses:
        ways = first.shape[1]
        if ways > shortlist.MAX_UNLISTED_WAYS:
            first = most_promising(first, self.members.nearest(queries, self.rows))
        return FewClasses.best(first[None], _num_listed(LISTED_PER_QUERY, ways))

    def contributions(self, queries: Tensor, first: Tensor, classes: Tensor) -> Tensor:
        """Return what each member adds to the correction of classes (m,): (m, c)."""
        listed = _num_listed(LISTED_PER_QUERY, first.shape[1])
        size = max(1, self.members.chunk(listed) // GRADIENT_MEMORY)
        parts = (torch.split(each, size) for each in (queries, first, classes))
        return torch.cat([self._contributions(*part) for part in zip(*parts, strict=True)])

    def _contributions(self, queries: Tensor, first: Tensor, classes: Tensor) -> Tensor:
        def correct(scale: Tensor) -> Tensor:
            return self.correction(queries, first, scale[0])[None]

        ones = torch.ones(1, len(queries), len(self.members)).to(queries)
        return integrated_slopes(correct, ones, classes[None])[0]


def num_members(rows: int, ways: int) -> int:
    """Return c, the number of members."""
    factor = min(MORE_PAIRS, max(1, MORE_PAIRS * MAX_SHOTS * ways / rows))
    return min(rows, MAX_MEMBERS, int(MAX_PAIRS * factor) // rows)


def _num_listed(limit: int, ways: int) -> int:
    """Return how many classes have a state of their own: all, unless classes are many."""
    return limit if ways > shortlist.MAX_UNLISTED_WAYS else ways


def _read(
    model: Relational, rows: LabelledRows, members: Members, class_scores: Tensor
) -> tuple[FewClassesCache, ...]:
    """Pass the states of members through the blocks, and return the cache of each block."""
    labels, dtype = rows.class_indices[None], model.unknown.dtype
    size = model.embed_size(len(members), rows.ways, 0)[None]
    few = FewClasses.best(
        class_scores[None], _num_listed(num_known(len(members)), rows.ways), labels
    )
    # Before any block, a row's states for all classes but its own are equal.
    own = FewClasses(labels.unsqueeze(2), rows.ways)
    one_hot = torch.zeros(1, len(members), 2).to(model.unknown)
    one_hot[..., 0] = 1
    tokens = model.label_states(one_hot)
    z = torch.cat([tokens, tokens[:, :, 1:].expand(-1, -1, few.size - 1, -1)], dim=2)
    blocks, step = model.stack(), members.chunk(few.size + 1)
    relations = [each.to(dtype) for each in members.relate_each_other(step)]
    layers = [cache_few(blocks[0], tokens, own, labels, size)]
    for block, following in pairwise(blocks):
        parts = zip(torch.split(z, step, dim=1), few.split(step), relations, strict=True)
        z = torch.cat([update_few(block, *part[:2], layers[-1], part[2]) for part in parts], dim=1)
        layers.append(cache_few(following, z, few, labels, size))
    return tuple(layers)
