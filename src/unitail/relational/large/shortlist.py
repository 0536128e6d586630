r"""Blocks for many classes: of each row only a few classes have a state of their own.

A block's states of n rows and K classes cost n K, though nearly all classes are out of the question
for nearly all rows. Here row i keeps states for S classes, those that its first answer likes best,
and one state for all others, which counts K - S times wherever a sum runs over classes. What row j
says about a class that it has no state for is what it says about its others, so

    sum_j a_ij v_jk  =  sum_j a_ij v_j*  +  sum over j that have k of  a_ij (v_jk - v_j*),

where * are the others. The second sum has about n S / K terms. A labelled row always has its own
class. With S = K - 1 nothing is left out, and answers are those of `block.py`: a test says so.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unitail.relational.block import FusedBlock, log_shares
from unitail.relational.relations import Relations

MANY_WAYS = 100
"""Beyond so many classes rows have states for few of them."""
ASKED, KNOWN = 32, 8
"""Classes of a query that have a state of their own, and of a labelled row."""
MAX_MEETINGS = 2**18
"""Pairs of states of one class that are worked on at once, about."""


@dataclass(frozen=True, eq=False)
class Few:
    """The classes of some rows that have a state of their own; all others share the last."""

    classes: Tensor
    """(B, rows, S)."""
    ways: int

    @classmethod
    def best(cls, answers: Tensor, count: int, own: Tensor | None = None) -> "Few":
        """Keep the best of answers (B, rows, K); of labelled rows, the first, their own (B, n)."""
        ways = answers.shape[2]
        if own is not None:
            place = own.unsqueeze(2)
            known = answers[:, : own.shape[1]].scatter(2, place, torch.inf)
            answers = torch.cat([known, answers[:, own.shape[1] :]], dim=1)
        return cls(answers.topk(min(count, ways - 1), dim=2).indices, ways)

    @property
    def size(self) -> int:
        """S."""
        return self.classes.shape[2]

    @property
    def others(self) -> int:
        """The classes that the last state is for."""
        return self.ways - self.size

    def total(self, values: Tensor) -> Tensor:
        """Sum values (B, rows, S + 1, ...) over all classes: (B, rows, ...)."""
        return values[:, :, :-1].sum(dim=2) + self.others * values[:, :, -1]

    def believe(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return the probability of a class by its scores (B, rows, S + 1), and its logarithm."""
        counted = scores.clone()
        counted[..., -1] += math.log(self.others)
        log_p = scores - counted.logsumexp(dim=2, keepdim=True)
        return log_p.exp(), log_p

    def of(self, values: Tensor) -> Tensor:
        """Take what there is of each class (B, K, w) for each state: (B, rows, S + 1, w)."""
        episodes = torch.arange(len(values), device=values.device)[:, None, None]
        own = values[episodes, self.classes]
        rest = (values.sum(dim=1)[:, None] - own.sum(dim=2)) / self.others
        return torch.cat([own, rest.unsqueeze(2)], dim=2)

    def by_class(self, values: Tensor) -> Tensor:
        """Sum values of states (B, rows, S + 1, w) over rows: (B, K, w)."""
        last = values[:, :, -1:]
        above = (values[:, :, :-1] - last).flatten(1, 2)
        start = last.sum(dim=(1, 2))[:, None].repeat(1, self.ways, 1)
        places = self.classes.flatten(1).unsqueeze(2).expand_as(above)
        return start.scatter_add(1, places, above)

    def spread(self, values: Tensor) -> Tensor:
        """Give each class the value of its state: (B, rows, S + 1) -> (B, rows, K)."""
        everywhere = values[..., -1:].expand(-1, -1, self.ways)
        return everywhere.scatter(2, self.classes, values[..., :-1])


@dataclass(frozen=True, eq=False)
class KeptFew:
    """What one layer keeps of the tokens that are seen: `block.Kept`, for few classes of each."""

    seen: Few
    others: Tensor
    """v_j*: (B, heads + operators, t, value_dim)."""
    above: Tensor
    """v_jk - v_j* of the classes that j has: (B, heads + operators, t, S, value_dim)."""
    weights: Tensor
    context: Tensor
    classes: Tensor


def keep_few(block: FusedBlock, z: Tensor, seen: Few, labels: Tensor, size: Tensor) -> KeptFew:
    """Work out what others hear of states z (B, t, S + 1, width), the first n of them labelled.

    `labels` (B, n) are class indices: the first state of a labelled row is that of its own class.
    """
    n = labels.shape[1]
    u = block.norm(z)
    p, _ = seen.believe(block.belief(u).squeeze(-1))  # (B, t, S + 1)
    y = p.clone()
    y[:, :n] = 0
    y[:, :n, 0] = 1
    context = block.summarise(u[:, :n, 0], p[:, :n, 0], size)
    own = torch.zeros(len(z), seen.ways, u.shape[3] + 1).to(u)
    known = F.pad(u[:, :n, 0], (0, 1), value=1.0)
    sums = own.scatter_add(1, labels.unsqueeze(2).expand_as(known), known)
    if z.shape[1] > n:
        guessed = F.pad(u[:, n:], (0, 1), value=1.0) * y[:, n:].unsqueeze(-1)
        sums = sums + Few(seen.classes[:, n:], seen.ways).by_class(guessed)
    sums, mass = sums[..., :-1], sums[..., -1:]
    least = mass.clamp_min(torch.finfo(mass.dtype).tiny)  # a class may have no row here
    values = block.say(u, torch.stack([y, y - p], dim=-1)).transpose(3, 4)
    return KeptFew(
        seen,
        others=values[:, :, :, -1],
        above=values[:, :, :, :-1] - values[:, :, :, -1:],
        weights=block.bend(context),
        context=context,
        classes=block.from_class(torch.cat([sums / least, log_shares(mass)], dim=-1)),
    )


def update_few(
    block: FusedBlock, z: Tensor, rows: Few, kept: KeptFew, relations: Relations
) -> Tensor:
    """Update z (B, rows, S + 1, width) by what is kept of the seen."""
    a, operators = block.attend(kept.weights, relations), relations.operators
    if operators.shape[3] < a.shape[3]:  # operators carry what labelled rows say, and no others
        operators = F.pad(operators, (0, a.shape[3] - operators.shape[3]))
    carried = torch.cat([a.to(z.dtype), operators.to(z.dtype)], dim=1)  # (B, h, rows, t)
    if relations.heard is not None:
        carried = carried * relations.heard.unsqueeze(1)
    heard = _hear(carried, rows, kept)
    z = z + block.out(heard.flatten(3))
    u = block.mlp_norm(z)
    p, log_p = rows.believe(block.mlp_belief(u).squeeze(-1))
    mean, likely = rows.total(u) / rows.ways, rows.total(p.unsqueeze(-1) * u)
    episode = kept.context.unsqueeze(1).expand(-1, z.shape[1], -1)
    hidden = block.from_state(u) + block.from_belief(torch.stack([p, log_p], dim=-1))
    hidden += block.from_others(torch.cat([mean, likely, episode], dim=-1)).unsqueeze(2)
    hidden += rows.of(kept.classes)
    change: Tensor = block.mlp_out(F.gelu(hidden))
    return z + change


def _hear(carried: Tensor, rows: Few, kept: KeptFew) -> Tensor:
    """Carry what is said to each state: (B, rows, S + 1, heads + operators, value_dim)."""
    alike = (carried @ kept.others).transpose(1, 2)  # (B, rows, h, value_dim)
    above = (carried @ kept.above.sum(dim=3)).transpose(1, 2)
    own = _own(carried, rows, kept)
    rest = (above - own.sum(dim=2)) / rows.others
    return torch.cat([own, rest.unsqueeze(2)], dim=2) + alike.unsqueeze(2)


def _own(carried: Tensor, rows: Few, kept: KeptFew) -> Tensor:
    """Carry v_jk - v_j* to each state of a class: (B, rows, S, heads + operators, value_dim)."""
    episodes, h, _, _, width = kept.above.shape
    if rows.ways <= MANY_WAYS:  # one product over all rows and classes is faster
        places = kept.seen.classes[:, None, :, :, None].expand_as(kept.above)
        said = torch.zeros(*kept.above.shape[:3], rows.ways, width).to(kept.above)
        heard = carried @ said.scatter_(3, places, kept.above).flatten(3)
        heard = heard.view(episodes, h, -1, rows.ways, width).permute(0, 2, 3, 1, 4)
        return heard.take_along_dim(rows.classes[..., None, None], dim=2)
    values = kept.above.permute(0, 2, 3, 1, 4).flatten(1, 2)  # (B, t * S, h, value_dim)
    own = torch.zeros(episodes, rows.classes[0].numel(), h, width).to(carried)
    for b in range(episodes):
        for hearing, saying in _meetings(rows.classes[b], kept.seen.classes[b], rows.ways):
            i, j = hearing // rows.size, saying // kept.seen.size
            shares = carried[b, :, i, j].mT.unsqueeze(-1)  # (meetings, h, 1)
            own[b] = own[b].index_add(0, hearing, shares * values[b, saying])
    return own.view(*rows.classes.shape, h, width)


def _meetings(hearing: Tensor, saying: Tensor, ways: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Give the places of states (rows, S) and (t, S) that are of the same class, some at a time."""
    hearing, saying = hearing.flatten(), saying.flatten()
    speakers = saying.argsort(stable=True)
    sizes = torch.bincount(saying, minlength=ways)
    firsts = sizes.cumsum(0) - sizes
    counts = sizes[hearing]
    step = max(1, MAX_MEETINGS // max(1, int(counts.max())))
    for start in range(0, len(hearing), step):
        places = torch.arange(start, min(start + step, len(hearing)), device=hearing.device)
        count = counts[places]
        own = places.repeat_interleave(count)
        rank = torch.arange(len(own), device=own.device)
        rank = rank - (count.cumsum(0) - count).repeat_interleave(count)
        yield own, speakers[firsts[hearing[own]] + rank]
