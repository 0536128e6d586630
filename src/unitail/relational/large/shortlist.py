r"""Blocks for very many classes: of each row only a few have a state (`class_lists.py`).

What row j says about a class that it has no state for is what it says about its others, so

    sum_j a_ij v_jk  =  sum_j a_ij v_j*  +  sum over j that have k of  a_ij (v_jk - v_j*),

where * are the others. The second sum has about n S / K terms. A labelled row always has its own
class. With S = K - 1 nothing is left out, and answers are those of `block.py`: a test says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unitail.relational.block import FusedBlock, log_shares
from unitail.relational.class_lists import FewClasses
from unitail.relational.relations import Relations

MANY_WAYS = 100
"""Beyond this many classes rows have states for few of them."""
ASKED, MIN_KNOWN, MAX_KNOWN, MAX_KNOWN_STATES = 32, 8, 32, 2**14
"""Classes of a query that have a state of their own; of a labelled row the fewest and most, so that
all rows have about the last together."""
CROWDED = 4
"""With fewer than this many times as many classes as states, one product over all is faster."""
MAX_MEETINGS = 2**18
"""Pairs of states of one class that are worked on at once, about."""


def num_known(rows: int) -> int:
    """Return how many classes of each of this many labelled rows have a state of their own."""
    return min(MAX_KNOWN, max(MIN_KNOWN, MAX_KNOWN_STATES // rows))


@dataclass(frozen=True, eq=False)
class FewClassesCache:
    """What one layer keeps of the tokens that are seen: `block.Kept`, for few classes of each."""

    seen: FewClasses
    alike: Tensor
    """v_j*, and the sum over its classes k of v_jk - v_j*: (B, heads + operators, t, 2 value_dim).
    """
    above: Tensor
    """v_jk - v_j* of the classes that j has: (B, heads + operators, t * S, value_dim); or where
    classes are not many, 0 for all others: (B, heads + operators, t, K * value_dim)."""
    speakers: "tuple[StatesByClass, ...]"
    """Who has which class in each episode, where classes are many."""
    weights: Tensor
    context: Tensor
    classes: Tensor


@dataclass(frozen=True, eq=False)
class StatesByClass:
    """The states (t, S) of each class of one episode: some of `places`, one class after another."""

    places: Tensor
    firsts: Tensor
    """(K,)."""
    counts: Tensor
    """(K,)."""

    @classmethod
    def of(cls, classes: Tensor, ways: int) -> "StatesByClass":
        """Sort the states (t, S) by their class."""
        counts = torch.bincount(classes.flatten(), minlength=ways)
        return cls(classes.flatten().argsort(stable=True), counts.cumsum(0) - counts, counts)

    def meet(self, hearing: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Give states that hear, how many speak to each, and who: the states of the same class.

        All as places among states (rows, S), (t, S); some of the hearing at a time.
        """
        hearing = hearing.flatten()
        counts = self.counts[hearing]
        step = max(1, MAX_MEETINGS // max(1, int(counts.max())))
        for start in range(0, len(hearing), step):
            places = torch.arange(start, min(start + step, len(hearing)), device=hearing.device)
            count = counts[places]
            total = int(count.sum())
            skipped = self.firsts[hearing[places]] - (count.cumsum(0) - count)
            rank = torch.arange(total, device=hearing.device)
            yield places, count, self.places[rank + skipped.repeat_interleave(count)]


def cache_few(
    block: FusedBlock, z: Tensor, seen: FewClasses, labels: Tensor, size: Tensor
) -> FewClassesCache:
    """Work out what others hear of states z (B, t, S + 1, width), the first n of them labelled.

    `labels` (B, n) are class indices: the first state of a labelled row is that of its own class.
    """
    n = labels.shape[1]
    u = block.norm(z)
    p, _ = seen.softmax(block.belief(u).squeeze(-1))  # (B, t, S + 1)
    y = p.clone()
    y[:, :n] = 0
    y[:, :n, 0] = 1
    context = block.summarise(u[:, :n, 0], p[:, :n, 0], size)
    own = torch.zeros(len(z), seen.ways, u.shape[3] + 1).to(u)
    known = F.pad(u[:, :n, 0], (0, 1), value=1.0)
    sums = own.scatter_add(1, labels.unsqueeze(2).expand_as(known), known)
    if z.shape[1] > n:
        guessed = F.pad(u[:, n:], (0, 1), value=1.0) * y[:, n:].unsqueeze(-1)
        sums = sums + FewClasses(seen.classes[:, n:], seen.ways).by_class(guessed)
    sums, mass = sums[..., :-1], sums[..., -1:]
    least = mass.clamp_min(torch.finfo(mass.dtype).tiny)  # a class may have no row here
    values = block.values(u, torch.stack([y, y - p], dim=-1)).transpose(3, 4)
    others, above = values[:, :, :, -1], values[:, :, :, :-1] - values[:, :, :, -1:]
    many = seen.ways > max(MANY_WAYS, CROWDED * seen.size)
    return FewClassesCache(
        seen,
        alike=torch.cat([others, above.sum(dim=3)], dim=3),
        above=above.flatten(2, 3) if many else _everywhere(above, seen),
        speakers=tuple(StatesByClass.of(each, seen.ways) for each in seen.classes) if many else (),
        weights=block.gated_weights(context),
        context=context,
        classes=block.from_class(torch.cat([sums / least, log_shares(mass)], dim=-1)),
    )


def update_few(
    block: FusedBlock, z: Tensor, rows: FewClasses, kept: FewClassesCache, relations: Relations
) -> Tensor:
    """Update z (B, rows, S + 1, width) by what is kept of the seen."""
    a, operators = block.attend(kept.weights, relations), relations.operators
    if operators.shape[3] < a.shape[3]:  # operators carry what labelled rows say, and no others
        operators = F.pad(operators, (0, a.shape[3] - operators.shape[3]))
    carried = [a.to(z.dtype), operators.to(z.dtype)]
    if relations.seen_scale is not None:
        carried = [each * relations.seen_scale.unsqueeze(1) for each in carried]
    heard = _hear(carried, rows, kept)
    z = z + block.out(heard.flatten(3))
    u = block.mlp_norm(z)
    p, log_p = rows.softmax(block.mlp_belief(u).squeeze(-1))
    mean, likely = (rows.mean_weights(p) @ u).unbind(dim=2)
    episode = kept.context.unsqueeze(1).expand(-1, z.shape[1], -1)
    hidden = block.from_state(u) + block.from_belief(torch.stack([p, log_p], dim=-1))
    hidden += block.from_others(torch.cat([mean, likely, episode], dim=-1)).unsqueeze(2)
    hidden += rows.gather(kept.classes)
    change: Tensor = block.mlp_out(F.gelu(hidden))
    return z + change


def _everywhere(above: Tensor, seen: FewClasses) -> Tensor:
    """Give what is said of few classes (B, h, t, S, value_dim) a place among all of them."""
    places = seen.classes[:, None, :, :, None].expand_as(above)
    said = torch.zeros(*above.shape[:3], seen.ways, above.shape[4]).to(above)
    return said.scatter_(3, places, above).flatten(3)


def _hear(carried: list[Tensor], rows: FewClasses, kept: FewClassesCache) -> Tensor:
    """Carry what is said to each state: (B, rows, S + 1, heads + operators, value_dim).

    What heads carry, and operators, are (B, h, rows, t) each: to join them would be to copy them.
    """
    heard = _through(carried, kept.alike).transpose(1, 2)  # (B, rows, h, 2 value_dim)
    all_alike, above = heard.chunk(2, dim=3)
    return rows.append_others(_own(carried, rows, kept), above) + all_alike.unsqueeze(2)


def _through(carried: list[Tensor], said: Tensor) -> Tensor:
    """Carry what is said (B, heads + operators, t, w) to rows: (B, heads + operators, rows, w)."""
    each = torch.split(said, [part.shape[1] for part in carried], dim=1)
    return torch.cat([part @ own for part, own in zip(carried, each, strict=True)], dim=1)


def _own(carried: list[Tensor], rows: FewClasses, kept: FewClassesCache) -> Tensor:
    """Carry v_jk - v_j* to each state of a class: (B, rows, S, heads + operators, value_dim)."""
    if not kept.speakers:  # one product over all rows and classes is faster
        heard = _through(carried, kept.above)
        heard = heard.view(*heard.shape[:3], rows.ways, -1)
        return heard.permute(0, 2, 3, 1, 4).take_along_dim(rows.classes[..., None, None], dim=2)
    each = [
        _own_of_one([part[b] for part in carried], rows.classes[b], kept.above[b], kept, speakers)
        for b, speakers in enumerate(kept.speakers)
    ]
    return torch.stack(each).view(*rows.classes.shape, *each[0].shape[1:])


def _own_of_one(
    carried: list[Tensor],
    classes: Tensor,
    above: Tensor,
    kept: FewClassesCache,
    speakers: StatesByClass,
) -> Tensor:
    """Do so in one episode, where states meet only those of their class: (rows * S, h, v)."""
    pieces = []
    for places, count, saying in speakers.meet(classes):
        row = (places // classes.shape[1]).repeat_interleave(count)
        pairs = row * carried[0].shape[2] + saying // kept.seen.size
        shares = [one.flatten().index_select(0, pairs) for part in carried for one in part]
        starts = count.cumsum(0) - count
        sums = [
            F.embedding_bag(saying, values, starts, mode="sum", per_sample_weights=share)
            for values, share in zip(above, shares, strict=True)
        ]
        pieces.append(torch.stack(sums, dim=1))
    return torch.cat(pieces)
