"""One layer of the relational model: as it is defined, and as it runs, faster.

Tests hold `FusedBlock`, which runs, to `RelationalBlock`, the definition.

- What the seen tokens say is worked out once, by `keep`, however many rows hear it, by `update`.
- Linear layers with the same input are joined to one product.
- A CPU works on a chunk of rows at a time that its caches hold.
- Where all tokens know is their label, as in the first layer, two states speak for them all, and
  what is heard of a class is one number for each head and operator.
- Where classes are many, labelled rows may have states for a few of them (`class_lists.py`).
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
"""How strongly the summary of an episode bends the weights of relations, at first."""
RELATION_DEVIATION = 0.3
"""Of the weights of relations, at first."""
MIN_PROBABILITY = 1e-4
"""Probabilities and shares below this are taken as this in logarithms."""
LABEL_WIDTH = 2
"""What is said of a label: y and y - p."""
BELIEF_WIDTH = 2
"""What the MLP is told of a belief: p and log p."""
STATES_PER_CHUNK = 2**13
"""About as many states as the caches of a CPU hold."""
MAX_CHUNKS = 16
"""However many rows there are: every chunk has its price."""


class RelationalBlock(ShardUnit):
    r"""Update the state z_ik of every example i and class k, alike for all classes.

    Every row i hears what the seen examples j say. With u = LN(z),

        p_jk   = softmax_k(s . u_jk)                what the layer believes
        v_jk   = V [u_jk ; y_jk ; y_jk - p_jk]      what is said about class k by example j
        z_ik  += O [a_h v_.k]_h                     heard through heads and operators h
        z_ik  += MLP(z_ik, its rivals, class k, c)

    y is the label, one-hot, and for queries that are seen their belief p. a_h is, for a head,
    softmax_j(sum_c w_hc r_c(i, j)), where c, the summary of the episode, bends w; for an operator,
    the ridge regression of `relational/regressions.py`. The MLP is told of the rivals the mean of
    their states, plain and weighed by belief; of class k the mean state of those seen examples that
    are in it, and how many they are. Nothing depends on names or number of classes.
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
        """Start from small weights; the summary does not bend anything at first."""
        for name, layer in self.named_children():
            if isinstance(layer, nn.Linear):
                branch = name in ("out", "mlp_out")
                initialise_linear(layer, generator, gain=(2 * layers) ** -0.5 if branch else 1.0)
        nn.init.zeros_(self.gate.weight)
        nn.init.normal_(self.relation_weights, std=RELATION_DEVIATION, generator=generator)

    def forward(
        self, z: Tensor, seen: Tensor, labels: Tensor, size: Tensor, relations: Relations
    ) -> Tensor:
        """Update z (B, rows, K, width) by what is heard of the states `seen` (B, t, K, width).

        `labels` (B, n, K) are those of the first n that are seen, one-hot; `size` (B, context_dim)
        says how large the episode is.
        """
        n = labels.shape[1]
        u = self.norm(seen)
        p = self.belief(u).softmax(dim=2)  # (B, t, K, 1)
        y = torch.cat([labels.unsqueeze(-1), p[:, n:]], dim=1)  # (B, t, K, 1)
        own = (y * u)[:, :n].sum(dim=2)  # the state of the class that an example is in
        c = self.summarise(own, (y * p)[:, :n].sum(dim=(2, 3)), size)

        said = torch.cat([u, y, y - p], dim=-1)  # (B, t, K, width + 2)
        v = self.head_values(said).unflatten(-1, (self.heads, -1))  # (B, t, K, heads, value_dim)
        by_heads = torch.einsum("bhij,bjkhv->bikhv", self.attend(self.bend(c), relations), v)
        v = self.operator_values(said[:, :n]).unflatten(-1, (NUM_OPERATORS, -1))
        by_operators = torch.einsum("bhij,bjkhv->bikhv", relations.operators, v)
        z = z + self.out(torch.cat([by_heads, by_operators], dim=3).flatten(3))

        mass = y.sum(dim=1)  # (B, K, 1)
        of_class = torch.cat([(y * u).sum(dim=1) / mass, log_shares(mass)], dim=-1)
        return z + self._mlp(z, of_class, c)

    def _mlp(self, z: Tensor, of_class: Tensor, c: Tensor) -> Tensor:
        u = self.mlp_norm(z)
        score = self.mlp_belief(u)  # (B, rows, K, 1)
        p = score.softmax(dim=2)
        episode = c.unsqueeze(1).expand(-1, z.shape[1], -1)
        others = torch.cat([u.mean(dim=2), (p * u).sum(dim=2), episode], dim=-1)
        hidden = (
            self.from_state(u)
            + self.from_others(others).unsqueeze(2)
            + self.from_class(of_class).unsqueeze(1)
            + self.from_belief(torch.cat([p, score.log_softmax(dim=2)], dim=-1))
        )
        change: Tensor = self.mlp_out(F.gelu(hidden))
        return change

    def summarise(self, own: Tensor, likelihood: Tensor, size: Tensor) -> Tensor:
        """Return c: how well the labelled examples explain each other, (B, context_dim).

        `own` (B, n, width) are the states of their classes, believed with `likelihood` (B, n).
        """
        surprise = likelihood.clamp_min(MIN_PROBABILITY).log().unsqueeze(-1)
        evidence = F.gelu(self.evidence(torch.cat([own, surprise.to(own.dtype)], dim=-1)))
        summed: Tensor = self.summary(evidence.mean(dim=1))
        return summed + size

    def bend(self, c: Tensor) -> Tensor:
        """Return w: the weights of relations, each changed and all of a head stretched by c."""
        gates = GATE_SCALE * self.gate(c).view(len(c), self.heads, -1)
        bent: Tensor = (self.relation_weights + gates[..., :-1]) * torch.exp(gates[..., -1:])
        return bent

    def attend(self, w: Tensor, relations: Relations) -> Tensor:
        """Return a of the heads: softmax over the seen, (B, heads, rows, t)."""
        channels = relations.channels
        scores = w @ channels.flatten(2).to(w.dtype)  # sum over channels as one product
        return scores.view(*scores.shape[:2], *channels.shape[2:]).softmax(dim=-1)


def log_shares(masses: Tensor) -> Tensor:
    """Take numbers of examples (B, K, 1) in units of their mean, as logarithms."""
    return (masses / masses.mean(dim=1, keepdim=True)).clamp_min(MIN_PROBABILITY).log()


class ClassList(Protocol):
    """Which classes of a row have a state: s of them, all or a few (`class_lists.py`)."""

    def believe(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return the probability of a class by its scores (B, rows, s), and its logarithm."""

    def shares(self, p: Tensor) -> Tensor:
        """Return what states add to the mean over classes, and to that by p: (B, rows, 2, s)."""

    def total(self, values: Tensor) -> Tensor:
        """Sum values (B, rows, ..., s) over all classes: (B, rows, ...)."""

    def of(self, values: Tensor) -> Tensor:
        """Take what there is of each class (B, K, w) for each state: (B, rows or 1, s, w)."""

    def take(self, values: Tensor) -> Tensor:
        """Take what rows have of each class (B, rows, ..., K) for each state: (B, rows, ..., s)."""

    def spread(self, values: Tensor) -> Tensor:
        """Give each class the value of its state: (B, rows, ..., s) -> (B, rows, ..., K)."""


class EveryClass:
    """A state for each: nothing is left out, and nothing is to be done."""

    def believe(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Take softmax."""
        return scores.softmax(dim=-1), scores.log_softmax(dim=-1)

    def shares(self, p: Tensor) -> Tensor:
        """Take p as it is."""
        return torch.stack([torch.full_like(p, 1 / p.shape[-1]), p], dim=2)

    def total(self, values: Tensor) -> Tensor:
        """Sum."""
        return values.sum(dim=-1)

    def of(self, values: Tensor) -> Tensor:
        """Take all."""
        return values.unsqueeze(1)

    def take(self, values: Tensor) -> Tensor:
        """Take all."""
        return values

    def spread(self, values: Tensor) -> Tensor:
        """Leave all where they are."""
        return values


EVERY_CLASS = EveryClass()


@dataclass(frozen=True, eq=False)
class Kept:
    """What one layer keeps of the tokens that are seen."""

    values: Tensor
    """v for each head, then each operator: (B, heads + operators, t, value_dim, K)."""
    weights: Tensor
    """w, bent: (B, heads, relations)."""
    classes: Tensor
    """What the hidden layer of the MLP takes from each class and from c, with all that it adds to
    whatever it is told: (B, K, hidden)."""
    from_state: Tensor
    """Its weights of a state, p and log p: (hidden, width + 2)."""
    labels: Tensor | None = None
    """If that is all that the seen know, (B, t, K); `values` is then what a state takes from one of
    its class more than from others, and from others: (2, heads + operators, width)."""


class FusedBlock(RelationalBlock):
    """`block(z, seen, labels, size, r)` is `block.update(z, block.keep(seen, labels, size), r)`."""

    entry_points = ("keep", "keep_alike", "update")

    def keep(
        self, seen: Tensor, labels: Tensor, size: Tensor, listed: ClassList = EVERY_CLASS
    ) -> Kept:
        """Work out what others hear of the tokens that are seen.

        If they have states for a few classes only, `listed`, all of them are labelled.
        """
        return self._keep(seen, labels, size, listed)

    def keep_alike(self, tokens: Tensor, labels: Tensor, size: Tensor) -> Kept:
        """Do as `keep` does where all that the seen know is their label.

        `tokens` (2, width) are the state of the class that one is in, and that of any other.
        """
        u = self.norm(tokens)
        scores = self.belief(u).squeeze(-1)
        most = scores.new_zeros(2)
        most[1] = math.log(labels.shape[2] - 1)  # the other classes
        p = (scores - (scores + most).logsumexp(dim=0)).exp().to(u.dtype)
        context = self.summarise(u[None, :1], p[None, :1], size)
        mass = labels.sum(dim=1).unsqueeze(-1)
        own = u[0].expand(*mass.shape[:2], -1)
        of_class = self.from_class(torch.cat([own, log_shares(mass)], dim=-1))
        y = torch.zeros_like(p)
        y[0] = 1
        values = self.say(u[None, None], torch.stack([y, y - p], dim=-1)[None, None])
        own, other = values[0, :, 0].unbind(dim=-1)  # (heads + operators, value_dim)
        out = self.out.weight.view(-1, *own.shape)
        values = torch.einsum("whv,ohv->ohw", out, torch.stack([own - other, other]))
        return self._kept(values, context, of_class, labels)

    def update(
        self, z: Tensor, kept: Kept, relations: Relations, listed: ClassList = EVERY_CLASS
    ) -> Tensor:
        """Update z (B, rows, states, width) by what is kept of the seen."""
        a, operators = self.attend(kept.weights, relations), relations.operators
        a = a.to(kept.values.dtype)
        if relations.heard is not None:
            heard = relations.heard.unsqueeze(1)
            a, operators = a * heard, operators * heard[..., : operators.shape[3]]
        if kept.labels is None:
            values = kept.values.flatten(3)  # (B, heads + operators, t, value_dim * K)
            by_operators = operators @ values[:, self.heads :, : operators.shape[3]]
            carried = [a @ values[:, : self.heads], by_operators]
            carried = [each.view(*each.shape[:3], self.value_dim, -1) for each in carried]
        else:  # what comes from the rows of each class: (B, heads + operators, rows, K)
            shares = [each.flatten(1, 2) @ kept.labels for each in (a, operators)]
            carried = [each.view(len(z), -1, z.shape[1], each.shape[2]) for each in shares]
        taken = [listed.take(each.transpose(1, 2)) for each in carried]
        classes = listed.of(kept.classes).expand(-1, z.shape[1], -1, -1)
        chunks = _row_chunks(z, *taken, classes)
        return _joined([self._update_rows(kept, listed, *chunk) for chunk in chunks], dim=1)

    def _keep(self, seen: Tensor, labels: Tensor, size: Tensor, listed: ClassList) -> Kept:
        n = labels.shape[1]
        u = self.norm(seen)
        p, _ = listed.believe(self.belief(u).squeeze(-1))  # (B, t, states)
        # A label is one-hot: of the labelled only the state of their own class counts.
        y = listed.take(labels)
        classes = y.argmax(dim=2, keepdim=True)  # (B, n, 1)
        own = u[:, :n].gather(2, classes.unsqueeze(-1).expand(-1, -1, -1, u.shape[3])).squeeze(2)
        likelihood = p[:, :n].gather(2, classes).squeeze(2)
        sums, mass = labels.mT.to(own.dtype) @ own, labels.sum(dim=1)  # (B, K, width), (B, K)
        if seen.shape[1] > n:
            guessed = p[:, n:]
            y, mass = torch.cat([y, guessed], dim=1), mass + guessed.sum(dim=1)
            sums = sums + (u[:, n:] * guessed.to(u.dtype).unsqueeze(-1)).sum(dim=1)
        mass = mass.unsqueeze(-1)
        context = self.summarise(own, likelihood, size)
        of_class = self.from_class(torch.cat([sums / mass, log_shares(mass)], dim=-1))
        said = self.say(u, torch.stack([y, y - p], dim=-1))
        values = listed.spread(said.transpose(1, 2)).transpose(1, 2)
        return self._kept(values, context, of_class)

    def _kept(
        self, values: Tensor, context: Tensor, of_class: Tensor, labels: Tensor | None = None
    ) -> Kept:
        bias = self.from_state.bias + self.from_others.bias + self.from_belief.bias
        of_context = self.from_others.weight[:, -context.shape[1] :]
        return Kept(
            values=values,
            weights=self.bend(context),
            classes=of_class + F.linear(context, of_context, bias).unsqueeze(1),
            from_state=torch.cat([self.from_state.weight, self.from_belief.weight], dim=1),
            labels=labels,
        )

    def say(self, u: Tensor, told: Tensor) -> Tensor:
        """Return v of tokens (B, t, K, width), with what is told of labels (B, t, K, 2).

        One product puts the values of all tokens side by side, as `update` adds them up.
        """
        weight = torch.cat([self.head_values.weight, self.operator_values.weight])
        bias = torch.cat([self.head_values.bias, self.operator_values.bias]).unsqueeze(-1)
        values = []
        for chunk in _row_chunks(u, told.to(u.dtype)):
            said = torch.cat(chunk, dim=-1).flatten(1, 2).mT  # (B, width + 2, t * K)
            value = torch.baddbmm(bias, weight.expand(len(said), -1, -1), said)
            value = value.view(len(said), -1, self.value_dim, *chunk[0].shape[1:3])
            values.append(value.transpose(2, 3))  # (B, heads + operators, t, value_dim, K)
        return _joined(values, dim=2)

    def _hear(self, kept: Kept, listed: ClassList, heads: Tensor, operators: Tensor) -> Tensor:
        """Return what states take from what was carried, (B, rows, of them, ..., states) each."""
        episodes, rows = heads.shape[:2]
        if kept.labels is not None:
            shares = torch.cat([heads, operators], dim=2)
            above, others = kept.values.to(shares.dtype).unbind()
            taken = shares.mT.flatten(1, 2) @ above  # (B, rows * K, width)
            of_row = torch.addmm(self.out.bias, listed.total(shares).flatten(0, 1), others)
            return taken.view(episodes, rows, -1, taken.shape[2]) + of_row.view(
                episodes, rows, 1, -1
            )
        # All values of a state stand under each other, so one product takes all states at once.
        heard = torch.cat([each.permute(0, 2, 3, 1, 4) for each in (heads, operators)], dim=1)
        heard = heard.view(episodes, -1, rows * heard.shape[4]).mT  # (B, rows * K, all values)
        taken = torch.baddbmm(self.out.bias, heard, self.out.weight.mT.expand(episodes, -1, -1))
        return taken.view(episodes, rows, -1, taken.shape[2])

    def _update_rows(
        self, kept: Kept, listed: ClassList, z: Tensor, heads: Tensor, operators: Tensor, of: Tensor
    ) -> Tensor:
        """Hear what was carried, and think; `of` (B, rows, states, hidden) is known of classes."""
        z = z + self._hear(kept, listed, heads, operators)
        u = self.mlp_norm(z)
        p, log_p = listed.believe(self.mlp_belief(u).squeeze(-1))  # (B, rows, states)
        rivals = (listed.shares(p).to(u.dtype) @ u).flatten(2)  # the mean state, then the likely
        others = F.linear(rivals, self.from_others.weight[:, : rivals.shape[2]])
        told = [u, p.unsqueeze(-1), log_p.unsqueeze(-1)]
        hidden = F.linear(torch.cat(told, dim=-1), kept.from_state)
        hidden += others.unsqueeze(2)  # in place: it is the largest tensor of all
        hidden += of
        change: Tensor = self.mlp_out(gelu(hidden))
        return z + change


def gelu(hidden: Tensor) -> Tensor:
    """Return x Phi(x), as `F.gelu` does, which takes a third longer in double precision."""
    if hidden.dtype is not torch.float64 or hidden.is_cuda or hidden.requires_grad:
        return F.gelu(hidden)
    return torch.erf(hidden * math.sqrt(0.5)).add_(1).mul_(hidden).mul_(0.5)


def _joined(chunks: list[Tensor], dim: int) -> Tensor:
    """Put chunks together; one alone is as it should be."""
    return torch.cat(chunks, dim=dim) if len(chunks) > 1 else chunks[0]


def _row_chunks(*tensors: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """Cut rows of states (B, rows, K, width), and of what belongs to them, for a CPU's caches."""
    episodes, rows, ways, _ = tensors[0].shape
    most = rows
    if tensors[0].device.type == "cpu":
        most = max(1, STATES_PER_CHUNK // (episodes * ways), math.ceil(rows / MAX_CHUNKS))
    if rows <= most:
        return [tensors]
    return zip(*(torch.split(tensor, most, dim=1) for tensor in tensors), strict=True)
