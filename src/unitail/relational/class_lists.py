"""Where classes are many, a row has states for a few of them, and one for all the rest.

A block's states of n rows and K classes cost n K, though nearly all classes are out of the question
for nearly all rows. Where classes are many, row i keeps states for S of them, the most hopeful, and
one for all others, which counts K - S times wherever a sum runs over classes.

Classes that a row likes as much as the best of those it leaves out are left to the others, too:
their states are that of the others all the way. So classes that are alike are answered alike.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

TIE, SINGLE_TIE = 1e-4, 1e-2
"""Hopes that are no further apart than this are alike: rounding moves them by less, in double
precision and in single."""


@dataclass(frozen=True, eq=False)
class Few:
    """The classes of some rows that have a state of their own; all others share the last."""

    classes: Tensor
    """(B, rows, S)."""
    ways: int
    apart: Tensor | None = None
    """Which of them are told from the others, (B, rows, S); None: all."""

    @classmethod
    def best(cls, answers: Tensor, count: int, own: Tensor | None = None) -> "Few":
        """Keep the best of answers (B, rows, K); of labelled rows, the first, their own (B, n)."""
        ways = answers.shape[2]
        size = min(count, ways - 1)
        if own is not None:
            place = own.unsqueeze(2)
            known = answers[:, : own.shape[1]].scatter(2, place, torch.inf)
            answers = torch.cat([known, answers[:, own.shape[1] :]], dim=1)
        if size == ways - 1:  # a state for each
            return cls(answers.topk(size, dim=2).indices, ways)
        scores, classes = answers.topk(size + 1, dim=2)
        tie = TIE if answers.dtype is torch.float64 else SINGLE_TIE
        return cls(classes[:, :, :-1], ways, scores[:, :, :-1] > scores[:, :, -1:] + tie)

    def split(self, rows: int) -> "list[Few]":
        """Cut them into this many rows each."""
        pieces = torch.split(self.classes, rows, dim=1)
        if self.apart is None:
            return [Few(each, self.ways) for each in pieces]
        apart = torch.split(self.apart, rows, dim=1)
        return [Few(each, self.ways, own) for each, own in zip(pieces, apart, strict=True)]

    @property
    def size(self) -> int:
        """S."""
        return self.classes.shape[2]

    @property
    def others(self) -> int:
        """The classes that the last state is for."""
        return self.ways - self.size

    def believe(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return the probability of a class by its scores (B, rows, S + 1), and its logarithm."""
        counted = scores.clone()
        counted[..., -1] += math.log(self.others)
        log_p = scores - counted.logsumexp(dim=2, keepdim=True)
        return log_p.exp(), log_p

    def shares(self, p: Tensor) -> Tensor:
        """Count the last state as often as there are others."""
        both = torch.stack([torch.full_like(p, 1 / self.ways), p], dim=2)
        both[..., -1] *= self.others
        return both

    def total(self, values: Tensor) -> Tensor:
        """Sum values (B, rows, ..., S + 1) over all classes."""
        return values[..., :-1].sum(dim=-1) + self.others * values[..., -1]

    def of(self, values: Tensor) -> Tensor:
        """Take what there is of each class (B, K, w) for each state: (B, rows, S + 1, w)."""
        episodes, ways, width = values.shape
        rows = torch.arange(self.classes.shape[1] * episodes, device=values.device)
        rows = rows.view(episodes, -1, 1)
        first = ways * torch.arange(episodes, device=values.device).view(-1, 1, 1)
        places, every = self.classes + first, values.flatten(0, 1)
        kept = torch.ones_like(places) if self.apart is None else self.apart
        own = every.index_select(0, places.flatten()).view(*places.shape, width)
        said = (kept.unsqueeze(2).to(own) @ own).squeeze(2)
        rest = values.sum(dim=1, keepdim=True) - said
        rest = rest / (ways - kept.sum(dim=2, keepdim=True))
        # Of each row, the others' mean stands behind all classes: one look gives every state.
        places = torch.where(kept > 0, places, len(every) + rows)
        places = torch.cat([places, len(every) + rows], dim=2)
        table = torch.cat([every, rest.flatten(0, 1)])
        return table.index_select(0, places.flatten()).view(*places.shape, width)

    def take(self, values: Tensor) -> Tensor:
        """Take what rows have of each class (B, rows, ..., K): (B, rows, ..., S + 1)."""
        own = values.gather(-1, self._places(self.classes, values))
        return self.complete(own, values.sum(dim=-1), dim=-1)

    def spread(self, values: Tensor) -> Tensor:
        """Give each class the value of its state."""
        everywhere = values[..., -1:].expand(*values.shape[:-1], self.ways)
        return everywhere.scatter(-1, self._places(self.classes, values), values[..., :-1])

    def complete(self, own: Tensor, total: Tensor, dim: int = 2) -> Tensor:
        """Add the others' mean to values (B, rows, S, ...), by their sum over all classes.

        Classes that are not told from the others have that mean, too: (B, rows, S + 1, ...).
        """
        if self.apart is None:
            rest = ((total - own.sum(dim=dim)) / self.others).unsqueeze(dim)
            return torch.cat([own, rest], dim=dim)
        apart = self.apart.view(*self.apart.shape, *[1] * (own.dim() - 3))
        if dim == -1:
            apart = self._places(self.apart, own)
        others = self.ways - apart.sum(dim=dim)
        rest = ((total - (own * apart).sum(dim=dim)) / others).unsqueeze(dim)
        return torch.cat([torch.where(apart, own, rest), rest], dim=dim)

    def by_class(self, values: Tensor) -> Tensor:
        """Sum values of states (B, rows, S + 1, w) over rows: (B, K, w)."""
        last = values[:, :, -1:]
        above = (values[:, :, :-1] - last).flatten(1, 2)
        start = last.sum(dim=(1, 2))[:, None].repeat(1, self.ways, 1)
        places = self.classes.flatten(1).unsqueeze(2).expand_as(above)
        return start.scatter_add(1, places, above)

    @staticmethod
    def _places(each: Tensor, values: Tensor) -> Tensor:
        """Give what is known of each row and class, (B, rows, S), the shape of values but S."""
        between = [1] * (values.dim() - 3)
        shaped = each.view(*each.shape[:2], *between, each.shape[2])
        return shaped.expand(*values.shape[:-1], each.shape[2])


def most_hopeful(first: Tensor, nearest: Tensor) -> Tensor:
    """Rank classes by first answers or by how near they come, (..., K) each, whichever likes more.

    Blocks often turn to a class with a row near to x that regressions had given up.
    """
    each = []
    for liking in (first, nearest):
        deviation, mean = torch.std_mean(liking, dim=-1, keepdim=True)
        each.append((liking - mean) / deviation.clamp_min(torch.finfo(liking.dtype).tiny))
    return torch.maximum(*each)
