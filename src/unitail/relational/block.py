"""One layer of the relational model, written twice: as it is defined, and as it runs.

`RelationalBlock` is the definition. `FusedBlock` computes the same, faster, and is what runs; tests
hold it to the definition. What makes it faster:

- All that depends on the seen tokens alone is computed once, by `cache`, for any number of rows.
- Linear layers with the same input are joined into one product.
- A CPU processes rows in chunks that fit into its caches.
- Where the states of seen tokens depend on their labels alone, as in the first layer, two states
  stand for all of them, and each head and operator carries one number per class.
- Where classes are many, labelled rows may have states for only a few of them (`class_lists.py`).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unitail.nn.episode_model import ShardUnit
from unitail.nn.transformer import initialise_linear
from unitail.relational.config import RelationalConfig
from unitail.relational.regressions import NUM_OPERATORS
from unitail.relational.relations import Relations

GATE_SCALE = 0.3
"""Factor of the gates through which the summary of an episode changes the relation weights."""
RELATION_DEVIATION = 0.3
"""Standard deviation of the relation weights at initialisation."""
MIN_PROBABILITY = 1e-4
"""Probabilities and shares are clamped to at least this before a logarithm."""
LABEL_WIDTH = 2
"""Inputs of V that come from the label: y and y - p."""
BELIEF_WIDTH = 2
"""Inputs of the MLP that come from its own belief: p and log p."""
STATES_PER_CHUNK = 2**13
"""Number of states that roughly fit into the caches of a CPU."""
MAX_CHUNKS = 16
"""Largest number of chunks, however many rows there are: each one has an overhead."""


class RelationalBlock(ShardUnit):
    r"""Update the state z_ik of every example i and class k, treating all classes alike.

    Every row i attends to the seen examples j. With u = LN(z),

        p_jk   = softmax_k(s . u_jk)                what the layer believes about example j
        v_jk   = V [u_jk ; y_jk ; y_jk - p_jk]      value of example j for class k
        z_ik  += O [sum_j a_hij v_hjk]_h            over all heads and operators h
        z_ik  += MLP(z_ik, its rivals, class k, c)

    y is the one-hot label; for seen queries, which have none, it is p. For a head,
    a_hij = softmax_j(sum_r w_hr r(i, j)) over the channels r of `relations.py`, and its weights w
    are gated by c, the summary of the episode. For an operator, a is the ridge regression of
    `regressions.py` and carries values of labelled examples only. The MLP sees two means over the
    states of the row, plain and weighted by its belief (the rivals); for class k, the mean state of
    the seen examples in it, and its share of them. Nothing depends on the names or the number of
    classes.

    In the code s is `belief`, V is `head_values` and `operator_values`, and O is `out`.
    """

    def __init__(self, config: RelationalConfig) -> None:
        super().__init__()
        width, context, self.heads = config.channels, config.context_dim, config.heads
        self.value_dim = config.value_dim
        self.norm = nn.LayerNorm(width)
        self.belief = nn.Linear(width, 1)
        self.head_values = nn.Linear(width + LABEL_WIDTH, config.heads * config.value_dim)
        self.operator_values = nn.Linear(width + LABEL_WIDTH, NUM_OPERATORS * config.value_dim)
        self.relation_weights = nn.Parameter(torch.empty(config.heads, config.relations))
        self.evidence = nn.Linear(width + 1, context)
        self.summary = nn.Linear(context, context)
        self.gate = nn.Linear(context, config.heads * (config.relations + 1))
        self.out = nn.Linear((config.heads + NUM_OPERATORS) * config.value_dim, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp_belief = nn.Linear(width, 1)
        self.from_state = nn.Linear(width, config.mlp_dim)
        self.from_others = nn.Linear(2 * width + context, config.mlp_dim)
        self.from_class = nn.Linear(width + 1, config.mlp_dim)
        self.from_belief = nn.Linear(BELIEF_WIDTH, config.mlp_dim)
        self.mlp_out = nn.Linear(config.mlp_dim, width)

    def initialise(self, generator: torch.Generator, layers: int) -> None:
        """Draw small random weights; the gates start at zero, so c has no effect at first."""
        for name, layer in self.named_children():
            if isinstance(layer, nn.Linear):
                branch = name in ("out", "mlp_out")
                initialise_linear(layer, generator, gain=(2 * layers) ** -0.5 if branch else 1.0)
        nn.init.zeros_(self.gate.weight)
        nn.init.normal_(self.relation_weights, std=RELATION_DEVIATION, generator=generator)

    def forward(
        self, z: Tensor, seen: Tensor, labels: Tensor, size: Tensor, relations: Relations
    ) -> Tensor:
        """Update z (B, rows, K, width) from the states `seen` (B, t, K, width).

        `labels` (B, n, K) are the one-hot labels of the first n seen examples; `size`
        (B, context_dim) embeds the size of the episode.
        """
        n = labels.shape[1]
        u = self.norm(seen)
        p = self.belief(u).softmax(dim=2)  # (B, t, K, 1)
        y = torch.cat([labels.unsqueeze(-1), p[:, n:]], dim=1)  # (B, t, K, 1)
        own_u = (y * u)[:, :n].sum(dim=2)  # of the class that each labelled example is in
        own_p = (y * p)[:, :n].sum(dim=(2, 3))
        c = self.summarise(own_u, own_p, size)
        w = self.gated_weights(c)

        inputs = torch.cat([u, y, y - p], dim=-1)  # (B, t, K, width + 2)
        a = self.attend(w, relations)
        v = self.head_values(inputs).unflatten(-1, (self.heads, -1))  # (B, t, K, heads, value_dim)
        from_heads = torch.einsum("bhij,bjkhv->bikhv", a, v)
        a = relations.operators
        v = self.operator_values(inputs[:, :n]).unflatten(-1, (NUM_OPERATORS, -1))
        from_operators = torch.einsum("bhij,bjkhv->bikhv", a, v)
        z = z + self.out(torch.cat([from_heads, from_operators], dim=3).flatten(3))

        mass = y.sum(dim=1)  # (B, K, 1)
        classes = torch.cat([(y * u).sum(dim=1) / mass, log_shares(mass)], dim=-1)
        return z + self._mlp(z, classes, c)

    def _mlp(self, z: Tensor, classes: Tensor, c: Tensor) -> Tensor:
        u = self.mlp_norm(z)
        score = self.mlp_belief(u)  # (B, rows, K, 1)
        p = score.softmax(dim=2)
        episode = c.unsqueeze(1).expand(-1, z.shape[1], -1)
        others = torch.cat([u.mean(dim=2), (p * u).sum(dim=2), episode], dim=-1)
        hidden = (
            self.from_state(u)
            + self.from_others(others).unsqueeze(2)
            + self.from_class(classes).unsqueeze(1)
            + self.from_belief(torch.cat([p, score.log_softmax(dim=2)], dim=-1))
        )
        change: Tensor = self.mlp_out(F.gelu(hidden))
        return change

    def summarise(self, own_u: Tensor, own_p: Tensor, size: Tensor) -> Tensor:
        """Return c (B, context_dim): how well the labelled examples explain each other.

        `own_u` (B, n, width) are their normalised states for their own class, and `own_p` (B, n)
        the probabilities that the layer gives it.
        """
        log_p = own_p.clamp_min(MIN_PROBABILITY).log().unsqueeze(-1)
        evidence = F.gelu(self.evidence(torch.cat([own_u, log_p.to(own_u.dtype)], dim=-1)))
        summary: Tensor = self.summary(evidence.mean(dim=1))
        return summary + size

    def gated_weights(self, c: Tensor) -> Tensor:
        """Return w (B, heads, relations): per relation a gate is added, per head one multiplies."""
        gates = GATE_SCALE * self.gate(c).view(len(c), self.heads, -1)
        w: Tensor = (self.relation_weights + gates[..., :-1]) * torch.exp(gates[..., -1:])
        return w

    def attend(self, w: Tensor, relations: Relations) -> Tensor:
        """Return a of the heads, a softmax over the seen examples: (B, heads, rows, t)."""
        channels = relations.channels
        scores = w @ channels.flatten(2).to(w.dtype)  # sum over channels as one product
        return scores.view(*scores.shape[:2], *channels.shape[2:]).softmax(dim=-1)


def log_shares(masses: Tensor) -> Tensor:
    """Return the logarithms of class masses (B, K, 1) relative to their mean."""
    return (masses / masses.mean(dim=1, keepdim=True)).clamp_min(MIN_PROBABILITY).log()


class ClassList(Protocol):
    """The classes for which each row has a state: s of them, all or a few (`class_lists.py`)."""

    def softmax(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return class probabilities from scores (B, rows, s), and their logarithms."""

    def mean_weights(self, p: Tensor) -> Tensor:
        """Return weights of states in the plain mean over classes and by p: (B, rows, 2, s)."""

    def total(self, values: Tensor) -> Tensor:
        """Sum values (B, rows, ..., s) over all classes: (B, rows, ...)."""

    def gather(self, values: Tensor) -> Tensor:
        """Gather per-class values (B, K, w) for the states of each row: (B, rows or 1, s, w)."""

    def to_states(self, values: Tensor) -> Tensor:
        """Reduce values of all classes (B, rows, ..., K) to the states: (B, rows, ..., s)."""

    def to_classes(self, values: Tensor) -> Tensor:
        """Expand values of states (B, rows, ..., s) to all classes: (B, rows, ..., K)."""


class EveryClass:
    """The trivial list: each class has a state of its own."""

    def softmax(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return the softmax and its logarithm."""
        return scores.softmax(dim=-1), scores.log_softmax(dim=-1)

    def mean_weights(self, p: Tensor) -> Tensor:
        """Return 1 / K and p."""
        return torch.stack([torch.full_like(p, 1 / p.shape[-1]), p], dim=2)

    def total(self, values: Tensor) -> Tensor:
        """Sum over the last dimension."""
        return values.sum(dim=-1)

    def gather(self, values: Tensor) -> Tensor:
        """Return all values, the same for each row."""
        return values.unsqueeze(1)

    def to_states(self, values: Tensor) -> Tensor:
        """Return the values unchanged."""
        return values

    def to_classes(self, values: Tensor) -> Tensor:
        """Return the values unchanged."""
        return values


EVERY_CLASS = EveryClass()


@dataclass(frozen=True, eq=False)
class LayerCache:
    """All that one layer needs of the seen tokens to update any number of rows."""

    values: Tensor
    """v for each head, then each operator: (B, heads + operators, t, value_dim, K). With `labels`
    set, O times v instead, as the difference between the own class and the others, and for the
    others: (2, heads + operators, width)."""
    weights: Tensor
    """w, gated: (B, heads, relations)."""
    from_class: Tensor
    """Share of the MLP's hidden layer that comes from each class and from c, with all of the
    hidden layer's biases: (B, K, hidden)."""
    state_weight: Tensor
    """Weight of the hidden layer for a state, p and log p: (hidden, width + 2)."""
    labels: Tensor | None = None
    """Labels (B, t, K) where the states of the seen tokens depend on nothing else, or None."""


class FusedBlock(RelationalBlock):
    """The same function in two steps: `block.update(z, block.cache(seen, labels, size), r)`."""

    entry_points = ("cache", "cache_two_states", "update")

    def cache(
        self, seen: Tensor, labels: Tensor, size: Tensor, class_list: ClassList = EVERY_CLASS
    ) -> LayerCache:
        """Compute all that depends on the seen tokens alone.

        A `class_list` of a few classes requires that all seen tokens are labelled.
        """
        n = labels.shape[1]
        u = self.norm(seen)
        p, _ = class_list.softmax(self.belief(u).squeeze(-1))  # (B, t, states)
        # A label is one-hot, so labelled rows need a gather where the definition has products.
        y = class_list.to_states(labels)
        own = y.argmax(dim=2, keepdim=True)  # (B, n, 1)
        own_u = u[:, :n].gather(2, own.unsqueeze(-1).expand(-1, -1, -1, u.shape[3])).squeeze(2)
        own_p = p[:, :n].gather(2, own).squeeze(2)
        sums, mass = labels.mT.to(own_u.dtype) @ own_u, labels.sum(dim=1)  # (B, K, width), (B, K)
        if seen.shape[1] > n:
            y_queries = p[:, n:]
            y, mass = torch.cat([y, y_queries], dim=1), mass + y_queries.sum(dim=1)
            sums = sums + (u[:, n:] * y_queries.to(u.dtype).unsqueeze(-1)).sum(dim=1)
        mass = mass.unsqueeze(-1)
        c = self.summarise(own_u, own_p, size)
        from_class = self.from_class(torch.cat([sums / mass, log_shares(mass)], dim=-1))
        v = self.values(u, torch.stack([y, y - p], dim=-1))
        v = class_list.to_classes(v.transpose(1, 2)).transpose(1, 2)
        return self._layer_cache(v, c, from_class)

    def cache_two_states(self, tokens: Tensor, labels: Tensor, size: Tensor) -> LayerCache:
        """Do what `cache` does where the states of seen tokens depend on their labels alone.

        `tokens` (2, width) are the state for the class of an example, and that for any other class.
        """
        u = self.norm(tokens)
        scores = self.belief(u).squeeze(-1)
        log_counts = scores.new_zeros(2)
        log_counts[1] = math.log(labels.shape[2] - 1)  # the second state is for K - 1 classes
        p = (scores - (scores + log_counts).logsumexp(dim=0)).exp().to(u.dtype)
        c = self.summarise(u[None, :1], p[None, :1], size)
        mass = labels.sum(dim=1).unsqueeze(-1)
        mean_u = u[0].expand(*mass.shape[:2], -1)
        from_class = self.from_class(torch.cat([mean_u, log_shares(mass)], dim=-1))
        y = torch.zeros_like(p)
        y[0] = 1
        v = self.values(u[None, None], torch.stack([y, y - p], dim=-1)[None, None])
        own, other = v[0, :, 0].unbind(dim=-1)  # (heads + operators, value_dim)
        # O is linear: applied to two values here, not to the sum of each row and class later.
        out = self.out.weight.view(-1, *own.shape)
        values = torch.einsum("whv,ohv->ohw", out, torch.stack([own - other, other]))
        return self._layer_cache(values, c, from_class, labels)

    def update(
        self,
        z: Tensor,
        cache: LayerCache,
        relations: Relations,
        class_list: ClassList = EVERY_CLASS,
    ) -> Tensor:
        """Update z (B, rows, states, width) from the cache of the seen tokens."""
        a, operators = self.attend(cache.weights, relations), relations.operators
        a = a.to(cache.values.dtype)
        if relations.seen_scale is not None:
            scale = relations.seen_scale.unsqueeze(1)
            a, operators = a * scale, operators * scale[..., : operators.shape[3]]
        if cache.labels is None:
            v = cache.values.flatten(3)  # (B, heads + operators, t, value_dim * K)
            from_operators = operators @ v[:, self.heads :, : operators.shape[3]]
            sums = [a @ v[:, : self.heads], from_operators]
            sums = [each.view(*each.shape[:3], self.value_dim, -1) for each in sums]
        else:  # the total weight of the rows of each class: (B, heads + operators, rows, K)
            sums = [each.flatten(1, 2) @ cache.labels for each in (a, operators)]
            sums = [each.view(len(z), -1, z.shape[1], each.shape[2]) for each in sums]
        av = [class_list.to_states(each.transpose(1, 2)) for each in sums]
        from_class = class_list.gather(cache.from_class).expand(-1, z.shape[1], -1, -1)
        chunks = _row_chunks(z, *av, from_class)
        return _concatenate([self._update_rows(cache, class_list, *chunk) for chunk in chunks], 1)

    def _layer_cache(
        self, values: Tensor, c: Tensor, from_class: Tensor, labels: Tensor | None = None
    ) -> LayerCache:
        # Biases and the part of c are the same for all rows, so they are added once, here.
        bias = self.from_state.bias + self.from_others.bias + self.from_belief.bias
        context_weight = self.from_others.weight[:, -c.shape[1] :]
        return LayerCache(
            values=values,
            weights=self.gated_weights(c),
            from_class=from_class + F.linear(c, context_weight, bias).unsqueeze(1),
            state_weight=torch.cat([self.from_state.weight, self.from_belief.weight], dim=1),
            labels=labels,
        )

    def values(self, u: Tensor, y: Tensor) -> Tensor:
        """Return v from u (B, t, K, width) and y (B, t, K, 2), which holds y and y - p.

        The result (B, heads + operators, t, value_dim, K) has the layout in which `update` sums
        over t, so one product here saves a transposition there.
        """
        weight = torch.cat([self.head_values.weight, self.operator_values.weight])
        bias = torch.cat([self.head_values.bias, self.operator_values.bias]).unsqueeze(-1)
        values = []
        for chunk in _row_chunks(u, y.to(u.dtype)):
            inputs = torch.cat(chunk, dim=-1).flatten(1, 2).mT  # (B, width + 2, t * K)
            v = torch.baddbmm(bias, weight.expand(len(inputs), -1, -1), inputs)
            v = v.view(len(inputs), -1, self.value_dim, *chunk[0].shape[1:3])
            values.append(v.transpose(2, 3))  # (B, heads + operators, t, value_dim, K)
        return _concatenate(values, dim=2)

    def _project(
        self, cache: LayerCache, class_list: ClassList, av_heads: Tensor, av_operators: Tensor
    ) -> Tensor:
        """Return O [av]: (B, rows, states, width), from (B, rows, heads, ..., states) and alike."""
        episodes, rows = av_heads.shape[:2]
        if cache.labels is not None:
            a = torch.cat([av_heads, av_operators], dim=2)  # summed over the rows of each class
            above, other = cache.values.to(a.dtype).unbind()
            by_class = a.mT.flatten(1, 2) @ above  # (B, rows * K, width)
            by_row = torch.addmm(self.out.bias, class_list.total(a).flatten(0, 1), other)
            return by_class.view(episodes, rows, -1, by_class.shape[2]) + by_row.view(
                episodes, rows, 1, -1
            )
        # All values of a state go into one column, so that one product projects all states at once.
        av = torch.cat([each.permute(0, 2, 3, 1, 4) for each in (av_heads, av_operators)], dim=1)
        av = av.view(episodes, -1, rows * av.shape[4]).mT  # (B, rows * K, all values)
        projected = torch.baddbmm(self.out.bias, av, self.out.weight.mT.expand(episodes, -1, -1))
        return projected.view(episodes, rows, -1, projected.shape[2])

    def _update_rows(
        self,
        cache: LayerCache,
        class_list: ClassList,
        z: Tensor,
        av_heads: Tensor,
        av_operators: Tensor,
        from_class: Tensor,
    ) -> Tensor:
        """Add O [av] and the MLP to z; `from_class` is (B, rows, states, hidden)."""
        z = z + self._project(cache, class_list, av_heads, av_operators)
        u = self.mlp_norm(z)
        p, log_p = class_list.softmax(self.mlp_belief(u).squeeze(-1))  # (B, rows, states)
        rivals = (class_list.mean_weights(p).to(u.dtype) @ u).flatten(2)  # the plain mean first
        # The columns of `from_others` for c are in the cache already.
        from_rivals = F.linear(rivals, self.from_others.weight[:, : rivals.shape[2]])
        inputs = torch.cat([u, p.unsqueeze(-1), log_p.unsqueeze(-1)], dim=-1)
        hidden = F.linear(inputs, cache.state_weight)
        hidden += from_rivals.unsqueeze(2)  # in place, as no other tensor is as large
        hidden += from_class
        change: Tensor = self.mlp_out(gelu(hidden))
        return z + change


def gelu(hidden: Tensor) -> Tensor:
    """Return x Phi(x), as `F.gelu` does; that takes a third longer in double precision on a CPU."""
    if hidden.dtype is not torch.float64 or hidden.is_cuda or hidden.requires_grad:
        return F.gelu(hidden)
    return torch.erf(hidden * math.sqrt(0.5)).add_(1).mul_(hidden).mul_(0.5)


def _concatenate(chunks: list[Tensor], dim: int) -> Tensor:
    """Concatenate chunks; a single one is returned without a copy."""
    return torch.cat(chunks, dim=dim) if len(chunks) > 1 else chunks[0]


def _row_chunks(*tensors: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """Split tensors (B, rows, ...), the first with states (B, rows, K, width), for CPU caches."""
    episodes, rows, ways, _ = tensors[0].shape
    size = rows
    if tensors[0].device.type == "cpu":
        size = max(1, STATES_PER_CHUNK // (episodes * ways), math.ceil(rows / MAX_CHUNKS))
    if rows <= size:
        return [tensors]
    return zip(*(torch.split(tensor, size, dim=1) for tensor in tensors), strict=True)
