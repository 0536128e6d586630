r"""Blocks for very many classes, with states for a few classes of each row (`class_lists.py`).

The value of row j for a class that it does not list is its value for the others, v_j*, so

    sum_j a_ij v_jk  =  sum_j a_ij v_j*  +  sum over j that list k of  a_ij (v_jk - v_j*).

The second sum has about n S / K terms. A labelled row always lists its own class. With S = K - 1
nothing is left out, and answers are those of `block.py`, as a test checks.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unitail.relational.block import FusedBlock, log_shares
from unitail.relational.class_lists import FewClasses
from unitail.relational.relations import Relations

MAX_UNLISTED_WAYS = 100
"""Largest number of classes for all of which rows have states; beyond, for a few of them."""
LISTED_PER_QUERY, MIN_KNOWN, MAX_KNOWN, MAX_KNOWN_STATES = 32, 8, 32, 2**14
"""Number of listed classes of a query; smallest and largest number of a labelled row, such that all
labelled rows together have about the last number of states."""
CROWDED = 4
"""With fewer than this many times as many classes as states, one product over all is faster."""
MAX_STATE_PAIRS = 2**18
"""Approximate number of pairs of states of the same class that are processed at once."""


def num_known(rows: int) -> int:
    """Return the number of listed classes of each labelled row, for this many rows."""
    return min(MAX_KNOWN, max(MIN_KNOWN, MAX_KNOWN_STATES // rows))


@dataclass(frozen=True, eq=False)
class FewClassesCache:
    """What `block.LayerCache` is, for seen tokens with states for a few classes."""

    seen: FewClasses
    shared: Tensor
    """v_j*, and the sum of v_jk - v_j* over the listed classes k of j: (B, heads + operators, t,
    2 value_dim)."""
    above: Tensor
    """v_jk - v_j* for the listed classes of j: (B, heads + operators, t * S, value_dim). Where
    classes are not many, for all classes, with 0 for others: (B, heads + operators, t,
    K * value_dim)."""
    states_by_class: "tuple[StatesByClass, ...]"
    """The states of each class in each episode, where classes are many; else empty."""
    weights: Tensor
    """w, gated: (B, heads, relations)."""
    context: Tensor
    """c, (B, context_dim)."""
    from_class: Tensor
    """Share of the MLP's hidden layer that comes from each class: (B, K, hidden)."""


@dataclass(frozen=True, eq=False)
class StatesByClass:
    """The states (t, S) of one episode, sorted by class."""

    places: Tensor
    """Flat indices of the states, one class after another: (t * S,)."""
    firsts: Tensor
    """Position in `places` of the first state of each class, (K,)."""
    counts: Tensor
    """Number of states of each class, (K,)."""

    @classmethod
    def of(cls, classes: Tensor, ways: int) -> "StatesByClass":
        """Sort states by their classes (t, S)."""
        counts = torch.bincount(classes.flatten(), minlength=ways)
        return cls(classes.flatten().argsort(stable=True), counts.cumsum(0) - counts, counts)

    def pairs(self, classes: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Pair the states of other rows, with `classes` (rows, S), with those of the same class.

        Yields chunks of flat indices into `classes`, the number of partners of each, and the flat
        indices of all partners in (t, S).
        """
        classes = classes.flatten()
        counts = self.counts[classes]
        step = max(1, MAX_STATE_PAIRS // max(1, int(counts.max())))
        for start in range(0, len(classes), step):
            places = torch.arange(start, min(start + step, len(classes)), device=classes.device)
            count = counts[places]
            total = int(count.sum())
            # Position k of all partners is `firsts` of its class plus k minus the partners before.
            offset = self.firsts[classes[places]] - (count.cumsum(0) - count)
            rank = torch.arange(total, device=classes.device)
            yield places, count, self.places[rank + offset.repeat_interleave(count)]


def cache_few(
    block: FusedBlock, z: Tensor, seen: FewClasses, labels: Tensor, size: Tensor
) -> FewClassesCache:
    """Compute all that depends on states z (B, t, S + 1, width) alone, the first n labelled.

    `labels` (B, n) are class indices: the first state of a labelled row is that of its own class.
    """
    n = labels.shape[1]
    u = block.norm(z)
    p, _ = seen.softmax(block.belief(u).squeeze(-1))  # (B, t, S + 1)
    y = p.clone()
    y[:, :n] = 0
    y[:, :n, 0] = 1
    c = block.summarise(u[:, :n, 0], p[:, :n, 0], size)
    # Sums over the rows of each class, with the number of rows as one more column.
    zeros = torch.zeros(len(z), seen.ways, u.shape[3] + 1).to(u)
    labelled = F.pad(u[:, :n, 0], (0, 1), value=1.0)
    sums = zeros.scatter_add(1, labels.unsqueeze(2).expand_as(labelled), labelled)
    if z.shape[1] > n:
        queries = F.pad(u[:, n:], (0, 1), value=1.0) * y[:, n:].unsqueeze(-1)
        sums = sums + FewClasses(seen.classes[:, n:], seen.ways).by_class(queries)
    sums, mass = sums[..., :-1], sums[..., -1:]
    divisor = mass.clamp_min(torch.finfo(mass.dtype).tiny)  # a class may have no row here
    v = block.values(u, torch.stack([y, y - p], dim=-1)).transpose(3, 4)
    others, above = v[:, :, :, -1], v[:, :, :, :-1] - v[:, :, :, -1:]
    many = seen.ways > max(MAX_UNLISTED_WAYS, CROWDED * seen.size)
    return FewClassesCache(
        seen,
        shared=torch.cat([others, above.sum(dim=3)], dim=3),
        above=above.flatten(2, 3) if many else _expand_to_classes(above, seen),
        states_by_class=(
            tuple(StatesByClass.of(each, seen.ways) for each in seen.classes) if many else ()
        ),
        weights=block.gated_weights(c),
        context=c,
        from_class=block.from_class(torch.cat([sums / divisor, log_shares(mass)], dim=-1)),
    )


def update_few(
    block: FusedBlock, z: Tensor, rows: FewClasses, cache: FewClassesCache, relations: Relations
) -> Tensor:
    """Update z (B, rows, S + 1, width) from the cache of the seen tokens."""
    a, operators = block.attend(cache.weights, relations), relations.operators
    if operators.shape[3] < a.shape[3]:  # operators carry values of labelled rows only
        operators = F.pad(operators, (0, a.shape[3] - operators.shape[3]))
    weights = [a.to(z.dtype), operators.to(z.dtype)]
    if relations.seen_scale is not None:
        weights = [each * relations.seen_scale.unsqueeze(1) for each in weights]
    av = _weighted_values(weights, rows, cache)
    z = z + block.out(av.flatten(3))
    u = block.mlp_norm(z)
    p, log_p = rows.softmax(block.mlp_belief(u).squeeze(-1))
    mean, likely = (rows.mean_weights(p) @ u).unbind(dim=2)
    episode = cache.context.unsqueeze(1).expand(-1, z.shape[1], -1)
    hidden = block.from_state(u) + block.from_belief(torch.stack([p, log_p], dim=-1))
    hidden += block.from_others(torch.cat([mean, likely, episode], dim=-1)).unsqueeze(2)
    hidden += rows.gather(cache.from_class)
    change: Tensor = block.mlp_out(F.gelu(hidden))
    return z + change


def _expand_to_classes(above: Tensor, seen: FewClasses) -> Tensor:
    """Scatter values of listed classes (B, h, t, S, v) to all: (B, h, t, K * v)."""
    index = seen.classes[:, None, :, :, None].expand_as(above)
    zeros = torch.zeros(*above.shape[:3], seen.ways, above.shape[4]).to(above)
    return zeros.scatter_(3, index, above).flatten(3)


def _weighted_values(weights: list[Tensor], rows: FewClasses, cache: FewClassesCache) -> Tensor:
    """Return sum_j a_ij v_jk: (B, rows, S + 1, heads + operators, value_dim).

    `weights` are a of heads and of operators, (B, h, rows, t) each, as joining them would copy the
    largest tensors.
    """
    shared = _product(weights, cache.shared).transpose(1, 2)  # (B, rows, h, 2 value_dim)
    others, total = shared.chunk(2, dim=3)
    return rows.append_others(_listed_sums(weights, rows, cache), total) + others.unsqueeze(2)


def _product(weights: list[Tensor], values: Tensor) -> Tensor:
    """Multiply weights and values (B, heads + operators, t, w): (B, heads + operators, rows, w)."""
    parts = torch.split(values, [each.shape[1] for each in weights], dim=1)
    return torch.cat([a @ v for a, v in zip(weights, parts, strict=True)], dim=1)


def _listed_sums(weights: list[Tensor], rows: FewClasses, cache: FewClassesCache) -> Tensor:
    """Return sum_j a_ij (v_jk - v_j*): (B, rows, S, heads + operators, value_dim)."""
    if not cache.states_by_class:  # one product over all rows and classes is faster
        av = _product(weights, cache.above)
        av = av.view(*av.shape[:3], rows.ways, -1)
        return av.permute(0, 2, 3, 1, 4).take_along_dim(rows.classes[..., None, None], dim=2)
    sums = [
        _episode_sums([each[b] for each in weights], rows.classes[b], cache.above[b], cache, states)
        for b, states in enumerate(cache.states_by_class)
    ]
    return torch.stack(sums).view(*rows.classes.shape, *sums[0].shape[1:])


def _episode_sums(
    weights: list[Tensor],
    classes: Tensor,
    above: Tensor,
    cache: FewClassesCache,
    states: StatesByClass,
) -> Tensor:
    """Return the same for one episode, from pairs of states of the same class: (rows * S, h, v)."""
    pieces = []
    for places, count, partners in states.pairs(classes):
        row = (places // classes.shape[1]).repeat_interleave(count)
        index = row * weights[0].shape[2] + partners // cache.seen.size
        a = [head.flatten().index_select(0, index) for each in weights for head in each]
        starts = count.cumsum(0) - count
        # `embedding_bag` multiplies and sums without a tensor of all pairs.
        sums = [
            F.embedding_bag(partners, v, starts, mode="sum", per_sample_weights=weight)
            for v, weight in zip(above, a, strict=True)
        ]
        pieces.append(torch.stack(sums, dim=1))
    return torch.cat(pieces)
