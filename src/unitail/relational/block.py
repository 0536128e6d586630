"""One layer of the relational model, as it is defined (`RelationalBlock`) and as it runs.

`FusedBlock` gives the same answers, faster; tests hold the two together.

- What the seen tokens say is worked out once, by `keep`, however many rows hear it, by `update`.
- Linear layers with the same input are joined to one product.
- A CPU works on a chunk of rows at a time that its caches hold.
- Where the tokens of a class are all alike, as in the first layer, one of each speaks for them all.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

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
    groups: Tensor | None = None
    """If `values` has one token for each group of alike ones, which the seen are in, one-hot:
    (B, seen, t)."""


class FusedBlock(RelationalBlock):
    """`block(z, seen, labels, size, r)` is `block.update(z, block.keep(seen, labels, size), r)`."""

    entry_points = ("keep", "keep_alike", "update")

    def keep(self, seen: Tensor, labels: Tensor, size: Tensor) -> Kept:
        """Work out what others hear of the tokens that are seen."""
        return self._keep(seen, labels, size)

    def keep_alike(self, tokens: Tensor, labels: Tensor, size: Tensor) -> Kept:
        """Do as `keep` does where all seen are labelled and those of a class alike.

        `tokens` (1, K, K, width) are one of each class, the same in all episodes. How many there
        are of a class they do not tell: `_keep` takes it for a share of 1, whose logarithm is 0.
        """
        one_of_each = torch.eye(labels.shape[2], dtype=labels.dtype, device=labels.device)
        kept = self._keep(tokens, one_of_each.unsqueeze(0), size)
        masses = log_shares(labels.sum(dim=1).unsqueeze(-1)) * self.from_class.weight[:, -1]
        return replace(kept, classes=kept.classes + masses, groups=labels)

    def update(self, z: Tensor, kept: Kept, relations: Relations) -> Tensor:
        """Update z (B, rows, K, width) by what is kept of the seen."""
        a, operators = self.attend(kept.weights, relations), relations.operators
        a = a.to(kept.values.dtype)
        if relations.heard is not None:
            heard = relations.heard.unsqueeze(1)
            a, operators = a * heard, operators * heard[..., : operators.shape[3]]
        if kept.groups is not None:  # what goes to the tokens of a group goes to the one for them
            a, operators = (_add_up(each, kept.groups) for each in (a, operators))
        values = kept.values.flatten(3)  # (B, heads + operators, t, value_dim * K)
        by_heads = a @ values[:, : self.heads]
        by_operators = operators @ values[:, self.heads :, : operators.shape[3]]
        chunks = _row_chunks(z, by_heads.transpose(1, 2), by_operators.transpose(1, 2))
        return _joined([self._update_rows(kept, *chunk) for chunk in chunks], dim=1)

    def _keep(self, seen: Tensor, labels: Tensor, size: Tensor) -> Kept:
        n = labels.shape[1]
        u = self.norm(seen)
        p = self.belief(u).squeeze(-1).softmax(dim=-1)  # (B, t, K)
        # A label is one-hot: of the labelled only the state of their own class counts.
        classes = labels.argmax(dim=2, keepdim=True)  # (B, n, 1)
        own = u[:, :n].gather(2, classes.unsqueeze(-1).expand(-1, -1, -1, u.shape[3])).squeeze(2)
        likelihood = p[:, :n].gather(2, classes).squeeze(2)
        y, sums = labels, labels.mT.to(own.dtype) @ own  # (B, K, width)
        if seen.shape[1] > n:
            y = torch.cat([labels, p[:, n:]], dim=1)
            sums = sums + (u[:, n:] * p[:, n:].to(u.dtype).unsqueeze(-1)).sum(dim=1)
        mass = y.sum(dim=1).unsqueeze(-1)
        context = self.summarise(own, likelihood, size)
        of_class = self.from_class(torch.cat([sums / mass, log_shares(mass)], dim=-1))
        bias = self.from_state.bias + self.from_others.bias + self.from_belief.bias
        of_episode = F.linear(context, self.from_others.weight[:, 2 * u.shape[3] :], bias)
        return Kept(
            values=self.say(u, torch.stack([y, y - p], dim=-1)),
            weights=self.bend(context),
            classes=of_class + of_episode.unsqueeze(1),
            from_state=torch.cat([self.from_state.weight, self.from_belief.weight], dim=1),
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

    def _update_rows(self, kept: Kept, z: Tensor, heads: Tensor, operators: Tensor) -> Tensor:
        """Hear what heads and operators carried, (B, rows, of them, value_dim * K), and think."""
        episodes, rows, ways, _ = z.shape
        # All values of a state stand under each other, so one product takes all states at once.
        carried = [each.view(*each.shape[:3], -1, ways) for each in (heads, operators)]
        heard = torch.cat([each.permute(0, 2, 3, 1, 4) for each in carried], dim=1)
        heard = heard.view(episodes, -1, rows * ways).mT  # (B, rows * K, all values)
        taken = torch.baddbmm(self.out.bias, heard, self.out.weight.mT.expand(episodes, -1, -1))
        z = z + taken.view(episodes, rows, ways, -1)
        u = self.mlp_norm(z)
        score = self.mlp_belief(u).squeeze(-1)  # (B, rows, K)
        p = score.softmax(dim=-1)
        shares = torch.stack([torch.full_like(p, 1 / ways), p], dim=2).to(u.dtype)
        rivals = (shares @ u).flatten(2)  # the mean state, then the likely one
        others = F.linear(rivals, self.from_others.weight[:, : rivals.shape[2]])
        told = [u, p.unsqueeze(-1), score.log_softmax(dim=-1).unsqueeze(-1)]
        hidden = F.linear(torch.cat(told, dim=-1), kept.from_state)
        hidden += others.unsqueeze(2)  # in place: it is the largest tensor of all
        hidden += kept.classes.unsqueeze(1)
        change: Tensor = self.mlp_out(gelu(hidden))
        return z + change


def gelu(hidden: Tensor) -> Tensor:
    """Return x Phi(x), as `F.gelu` does, which takes a third longer in double precision."""
    if hidden.dtype is not torch.float64 or hidden.is_cuda or hidden.requires_grad:
        return F.gelu(hidden)
    return torch.erf(hidden * math.sqrt(0.5)).add_(1).mul_(hidden).mul_(0.5)


def _add_up(shares: Tensor, groups: Tensor) -> Tensor:
    """Add shares (B, h, rows, seen) up by groups (B, seen, t), in one product for all h."""
    return (shares.flatten(1, 2) @ groups).view(*shares.shape[:3], -1)


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
