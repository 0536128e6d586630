"""One layer of the relational model."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unitail.nn.sharding import ShardUnit
from unitail.nn.transformer import initialise_linear
from unitail.relational.config import RelationalConfig
from unitail.relational.relations import NUM_OPERATORS, Relations

GATE_SCALE = 0.3
"""How strongly the summary of an episode bends the weights of relations, at first."""
SMALLEST = 1e-4
"""Probabilities below this are taken as this in logarithms."""
STATES_IN_CACHE = 2**13
"""A CPU works on so many states at a time, which its caches hold."""
MOST_PARTS = 16
"""But on no more parts than this, each of which has its price."""


@dataclass(frozen=True, eq=False)
class Kept:
    """What one layer keeps of the tokens that others may look at."""

    values: Tensor
    """What heads, then operators, carry from tokens: (B, heads + operators, t, value_dim * K)."""
    weights: Tensor
    """Of the relations in each head's scores: (B, heads, relations)."""
    context: Tensor
    """The summary of the episode: (B, context_dim)."""
    classes: Tensor
    """What the MLP hears of a class, of its mean state and how many tokens: (B, K, hidden)."""
    groups: Tensor | None = None
    """Which group a seen token is in, one-hot (B, 1, seen, t), where values are those of groups."""


class RelationalBlock(ShardUnit):
    r"""Update the state z_ik of every example i and class k, alike for all classes.

        p_ik   = softmax_k(s . LN(z_ik))                what the layer believes
        v_jk   = V [LN(z_jk) ; y_jk ; y_jk - p_jk]      what is said about class k by example j
        z_ik  += O [A_h v_.k]_h                         heard through heads and operators
        z_ik  += MLP(z_ik, mean and belief-weighted mean over classes, class k, episode)

    y is the label, one-hot, and for queries that are seen their belief p. A_h is, for a head,
    softmax_j(sum_c w_hc r_c(i, j)), where the summary of the episode bends w; for an operator, the
    ridge regression of `relational/relations.py`. Nothing depends on names or number of classes.
    """

    entry_points = ("keep", "keep_alike")

    def __init__(self, config: RelationalConfig) -> None:
        super().__init__()
        width, context, self.heads = config.channels, config.context_dim, config.heads
        self.value_dim = config.value_dim
        self.norm = nn.LayerNorm(width)
        self.belief = nn.Linear(width, 1)
        self.head_values = nn.Linear(width + 2, config.heads * config.value_dim)
        self.operator_values = nn.Linear(width + 2, NUM_OPERATORS * config.value_dim)
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
        self.from_belief = nn.Linear(2, config.mlp_dim)
        self.mlp_out = nn.Linear(config.mlp_dim, width)

    def initialise(self, generator: torch.Generator, layers: int) -> None:
        """Start from small weights; the summary does not bend anything at first."""
        for name, part in self.named_children():
            if isinstance(part, nn.Linear):
                branch = name in ("out", "mlp_out")
                initialise_linear(part, generator, gain=(2 * layers) ** -0.5 if branch else 1.0)
        nn.init.zeros_(self.gate.weight)
        nn.init.normal_(self.relation_weights, std=0.3, generator=generator)

    def keep(self, states: Tensor, labels: Tensor, size: Tensor) -> Kept:
        """Prepare what others hear of tokens (B, seen, K, width), of which the first are labelled.

        `labels` (B, n, K) are one-hot; `size` (B, context_dim) says how large the episode is.
        """
        return self._keep(states, labels, size)

    def _keep(self, states: Tensor, labels: Tensor, size: Tensor) -> Kept:
        normed = self.norm(states)
        beliefs = self.belief(normed).squeeze(-1).softmax(dim=-1)  # (B, seen, K)
        n = labels.shape[1]
        believed = torch.cat([labels, beliefs[:, n:]], dim=1)  # (B, seen, K)
        told = torch.stack([believed, believed - beliefs], dim=-1)
        own = normed[:, :n].take_along_dim(labels.argmax(dim=2)[:, :, None, None], dim=2).squeeze(2)
        context = self._context(own, (beliefs[:, :n] * labels).sum(dim=2)) + size
        gates = GATE_SCALE * self.gate(context).view(len(context), self.heads, -1)
        masses = believed.sum(dim=1)  # (B, K)
        guessed = normed[:, n:] * beliefs[:, n:].to(normed.dtype).unsqueeze(-1)
        sums = labels.mT.to(own.dtype) @ own + guessed.sum(dim=1)  # (B, K, width)
        classes = [sums / masses.unsqueeze(-1), _log_masses(masses)]
        return Kept(
            values=self._say(normed, told),
            weights=(self.relation_weights + gates[..., :-1]) * torch.exp(gates[..., -1:]),
            context=context,
            classes=self.from_class(torch.cat(classes, dim=-1)),
        )

    def keep_alike(self, states: Tensor, labels: Tensor, size: Tensor) -> Kept:
        """Do as `keep` does where labelled tokens of a class are all alike: from one of each."""
        one = labels[0].argmax(dim=0)  # of each class, in the first episode
        kept = self._keep(states[:1, one], labels[:1, one], size)
        masses = _log_masses(labels.sum(dim=1)) * self.from_class.weight[:, -1]  # were log 1 = 0
        return replace(kept, classes=kept.classes + masses, groups=labels.unsqueeze(1))

    def forward(self, states: Tensor, kept: Kept, relations: Relations) -> Tensor:
        """Update tokens (B, rows, K, width) by what they hear."""
        shares, operators = self._shares(kept, relations), relations.operators
        if kept.groups is not None:
            shares, operators = shares @ kept.groups, operators @ kept.groups
        by_heads = shares @ kept.values[:, : self.heads]
        by_operators = operators @ kept.values[:, self.heads :, : operators.shape[3]]
        parts = _in_parts(states, by_heads.transpose(1, 2), by_operators.transpose(1, 2))
        return torch.cat([self._update(kept, *part) for part in parts], dim=1)

    def _update(self, kept: Kept, states: Tensor, heads: Tensor, operators: Tensor) -> Tensor:
        """Hear what heads and operators carried, (B, rows, parts, value_dim * K), and think."""
        heard = torch.cat([heads, operators], dim=2)
        heard = heard.view(*states.shape[:2], -1, states.shape[2]).mT  # (B, rows, K, all values)
        return self._think(states + self.out(heard), kept)

    def _context(self, own: Tensor, likelihood: Tensor) -> Tensor:
        """Sum up how well the labelled tokens explain each other: (B, context_dim).

        `own` (B, n, width) are the states of their classes, believed with `likelihood` (B, n).
        """
        surprise = likelihood.clamp_min(SMALLEST).log().unsqueeze(-1)
        evidence = F.gelu(self.evidence(torch.cat([own, surprise.to(own.dtype)], dim=-1)))
        summed: Tensor = self.summary(evidence.mean(dim=1))
        return summed

    def _shares(self, kept: Kept, relations: Relations) -> Tensor:
        """A_h: softmax over the seen tokens, (B, heads, rows, seen)."""
        channels = relations.channels
        scores = kept.weights @ channels.flatten(2).to(kept.weights.dtype)
        scores = scores.view(*scores.shape[:2], *channels.shape[2:])
        return scores.softmax(dim=-1).to(kept.values.dtype)

    def _say(self, normed: Tensor, told: Tensor) -> Tensor:
        """v of tokens (B, t, K, width) and (B, t, K, 2): (B, parts, t, value_dim * K)."""
        weight = torch.cat([self.head_values.weight, self.operator_values.weight])
        bias = torch.cat([self.head_values.bias, self.operator_values.bias]).unsqueeze(-1)
        values = []
        for part in _in_parts(normed, told.to(normed.dtype)):
            said = torch.cat(part, dim=-1).flatten(1, 2).mT  # (B, width + 2, t * K)
            value = torch.baddbmm(bias, weight.expand(len(said), -1, -1), said)
            value = value.view(len(said), -1, self.value_dim, *part[0].shape[1:3])
            values.append(value.transpose(2, 3))  # (B, parts, t, value_dim, K)
        return torch.cat(values, dim=2).flatten(3)

    def _think(self, states: Tensor, kept: Kept) -> Tensor:
        """Update each state by itself, its rivals, its class and the episode."""
        normed = self.mlp_norm(states)
        scores = self.mlp_belief(normed).squeeze(-1)  # (B, rows, K)
        beliefs = scores.softmax(dim=-1)
        likely = (beliefs.unsqueeze(2).to(normed.dtype) @ normed).squeeze(2)
        context = kept.context.unsqueeze(1).expand(-1, states.shape[1], -1)
        others = self.from_others(torch.cat([normed.mean(dim=2), likely, context], dim=-1))
        seen = [normed, beliefs.unsqueeze(-1), scores.log_softmax(dim=-1).unsqueeze(-1)]
        weight = torch.cat([self.from_state.weight, self.from_belief.weight], dim=1)
        bias = self.from_state.bias + self.from_belief.bias
        hidden = F.linear(torch.cat(seen, dim=-1), weight, bias)  # the widest: added to in place
        hidden += others.unsqueeze(2)
        hidden += kept.classes.unsqueeze(1)
        thought: Tensor = self.mlp_out(F.gelu(hidden))
        return states + thought


def _log_masses(masses: Tensor) -> Tensor:
    """Take numbers of tokens (B, K) in units of their mean, as logarithms: (B, K, 1)."""
    shares = masses / masses.mean(dim=1, keepdim=True)
    return shares.clamp_min(SMALLEST).log().unsqueeze(-1)


def _in_parts(*tensors: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """Cut rows of states (B, rows, K, width), and of what belongs to them, for a CPU's caches."""
    episodes, rows, ways, _ = tensors[0].shape
    if tensors[0].device.type == "cpu":
        rows = max(1, STATES_IN_CACHE // (episodes * ways), math.ceil(rows / MOST_PARTS))
    return zip(*(torch.split(tensor, rows, dim=1) for tensor in tensors), strict=True)
