"""One layer of the relational model, as it is defined; `fused_block.py` has it as it runs."""

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
