"""Where classes are many, each row has states for a few of them, and one state for all others.

The states of n rows and K classes cost n K in a block, though nearly all classes are out of the
question for nearly all rows. So row i has states for the S most promising classes only, and one
more state for all others, which counts K - S times in every sum over classes.

A listed class whose score is tied with the best class left out is treated as one of the others: its
state equals theirs in every layer. So classes with equal evidence get equal answers.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

TIE, SINGLE_TIE = 1e-4, 1e-2
"""Scores that differ by no more than this are tied: rounding changes them by less, in double
precision and in single."""


@dataclass(frozen=True, eq=False)
class FewClasses:
    """For each row a list of S classes with a state of their own; all others share the last one."""

    classes: Tensor
    """(B, rows, S)."""
    ways: int
    apart: Tensor | None = None
    """Which listed classes are not tied with the others, (B, rows, S); None: all of them."""

    @classmethod
    def best(cls, scores: Tensor, count: int, own: Tensor | None = None) -> "FewClasses":
        """List the classes with the best scores (B, rows, K).

        The first n rows may be labelled; their own class (B, n) is listed first.
        """
        ways = scores.shape[2]
        size = min(count, ways - 1)
        if own is not None:
            index = own.unsqueeze(2)
            labelled = scores[:, : own.shape[1]].scatter(2, index, torch.inf)
            scores = torch.cat([labelled, scores[:, own.shape[1] :]], dim=1)
        if size == ways - 1:  # the last state is for a single class: nothing can be tied
            return cls(scores.topk(size, dim=2).indices, ways)
        best, classes = scores.topk(size + 1, dim=2)
        tie = TIE if scores.dtype is torch.float64 else SINGLE_TIE
        return cls(classes[:, :, :-1], ways, best[:, :, :-1] > best[:, :, -1:] + tie)

    def split(self, rows: int) -> "list[FewClasses]":
        """Split into chunks of this many rows."""
        pieces = torch.split(self.classes, rows, dim=1)
        if self.apart is None:
            return [FewClasses(piece, self.ways) for piece in pieces]
        masks = torch.split(self.apart, rows, dim=1)
        return [
            FewClasses(piece, self.ways, mask) for piece, mask in zip(pieces, masks, strict=True)
        ]

    @property
    def size(self) -> int:
        """S."""
        return self.classes.shape[2]

    @property
    def others(self) -> int:
        """Number of classes that share the last state, K - S."""
        return self.ways - self.size

    def softmax(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return class probabilities from scores (B, rows, S + 1), and their logarithms."""
        counted = scores.clone()
        counted[..., -1] += math.log(self.others)
        log_p = scores - counted.logsumexp(dim=2, keepdim=True)
        return log_p.exp(), log_p

    def mean_weights(self, p: Tensor) -> Tensor:
        """Return weights of states in the plain mean over classes and by p: (B, rows, 2, S + 1)."""
        weights = torch.stack([torch.full_like(p, 1 / self.ways), p], dim=2)
        weights[..., -1] *= self.others
        return weights

    def total(self, values: Tensor) -> Tensor:
        """Sum values (B, rows, ..., S + 1) over all classes."""
        return values[..., :-1].sum(dim=-1) + self.others * values[..., -1]

    def gather(self, values: Tensor) -> Tensor:
        """Gather per-class values (B, K, w) for the states of each row: (B, rows, S + 1, w)."""
        episodes, ways, width = values.shape
        rows = torch.arange(self.classes.shape[1] * episodes, device=values.device)
        rows = rows.view(episodes, -1, 1)
        first = ways * torch.arange(episodes, device=values.device).view(-1, 1, 1)
        places, flat = self.classes + first, values.flatten(0, 1)
        apart = torch.ones_like(places) if self.apart is None else self.apart
        listed = flat.index_select(0, places.flatten()).view(*places.shape, width)
        listed_sum = (apart.unsqueeze(2).to(listed) @ listed).squeeze(2)
        others_mean = values.sum(dim=1, keepdim=True) - listed_sum
        others_mean = others_mean / (ways - apart.sum(dim=2, keepdim=True))
        # The others' mean of each row goes to the end of the table: one lookup gives all states.
        places = torch.where(apart > 0, places, len(flat) + rows)
        places = torch.cat([places, len(flat) + rows], dim=2)
        table = torch.cat([flat, others_mean.flatten(0, 1)])
        return table.index_select(0, places.flatten()).view(*places.shape, width)

    def to_states(self, values: Tensor) -> Tensor:
        """Reduce values of all classes (B, rows, ..., K) to the states: (B, rows, ..., S + 1)."""
        listed = values.gather(-1, self._expand(self.classes, values))
        return self.append_others(listed, values.sum(dim=-1), dim=-1)

    def to_classes(self, values: Tensor) -> Tensor:
        """Expand values of states (B, rows, ..., S + 1) to all classes: (B, rows, ..., K)."""
        others = values[..., -1:].expand(*values.shape[:-1], self.ways)
        return others.scatter(-1, self._expand(self.classes, values), values[..., :-1])

    def append_others(self, listed: Tensor, total: Tensor, dim: int = 2) -> Tensor:
        """Append the mean of the others to values of listed classes (B, rows, S, ...).

        `total` is the sum over all classes. Listed classes that are tied with the others get their
        mean, too. The result is (B, rows, S + 1, ...).
        """
        if self.apart is None:
            mean = ((total - listed.sum(dim=dim)) / self.others).unsqueeze(dim)
            return torch.cat([listed, mean], dim=dim)
        apart = self.apart.view(*self.apart.shape, *[1] * (listed.dim() - 3))
        if dim == -1:
            apart = self._expand(self.apart, listed)
        others = self.ways - apart.sum(dim=dim)
        mean = ((total - (listed * apart).sum(dim=dim)) / others).unsqueeze(dim)
        return torch.cat([torch.where(apart, listed, mean), mean], dim=dim)

    def by_class(self, values: Tensor) -> Tensor:
        """Sum values of states (B, rows, S + 1, w) over rows: (B, K, w)."""
        last = values[:, :, -1:]
        above = (values[:, :, :-1] - last).flatten(1, 2)
        start = last.sum(dim=(1, 2))[:, None].repeat(1, self.ways, 1)
        index = self.classes.flatten(1).unsqueeze(2).expand_as(above)
        return start.scatter_add(1, index, above)

    @staticmethod
    def _expand(index: Tensor, values: Tensor) -> Tensor:
        """Expand (B, rows, S) to the shape of `values` (B, rows, ..., any): (B, rows, ..., S)."""
        between = [1] * (values.dim() - 3)
        shaped = index.view(*index.shape[:2], *between, index.shape[2])
        return shaped.expand(*values.shape[:-1], index.shape[2])


def most_promising(first: Tensor, nearest: Tensor) -> Tensor:
    """Score classes by the larger of first answer and closeness (..., K), both standardised.

    Blocks often choose a class with a row near to x that the regressions had ruled out.
    """
    standardised = []
    for scores in (first, nearest):
        deviation, mean = torch.std_mean(scores, dim=-1, keepdim=True)
        tiny = torch.finfo(scores.dtype).tiny
        standardised.append((scores - mean) / deviation.clamp_min(tiny))
    return torch.maximum(*standardised)
