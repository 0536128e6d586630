"""One layer of the relational model."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unitail.nn.relations import NUM_OPERATORS, Relations
from unitail.nn.transformer import initialise_linear
from unitail.relational.config import RelationalConfig

GATE_SCALE = 0.3
"""How strongly the summary of an episode bends the weights of relations, at first."""
SMALLEST = 1e-4
"""Probabilities below this are taken as this in logarithms."""


@dataclass(frozen=True, eq=False)
class Kept:
    """What one layer keeps of the tokens that others may look at."""

    seen_values: Tensor
    """What heads carry from seen tokens: (B, heads, seen, K * value_dim)."""
    labelled_values: Tensor
    """What operators carry from labelled tokens: (B, operators, n, K * value_dim)."""
    weights: Tensor
    """Of the relations in each head's scores: (B, heads, relations)."""
    context: Tensor
    """The summary of the episode: (B, context_dim)."""
    classes: Tensor
    """The mean state of each class's tokens: (B, K, channels)."""
    masses: Tensor
    """How many tokens a class has, in units of the mean over classes, as logarithms: (B, K)."""


class Block(nn.Module):
    r"""Update the state z_ik of every example i and class k, alike for all classes.

        p_ik   = softmax_k(s . LN(z_ik))                what the layer believes
        v_jk   = V [LN(z_jk) ; y_jk ; y_jk - p_jk]      what is said about class k by example j
        z_ik  += O [A_h v_.k]_h                         heard through heads and operators
        z_ik  += MLP(z_ik, mean and belief-weighted mean over classes, class k, episode)

    y is the label, one-hot, and for queries that are seen their belief p. A_h is, for a head,
    softmax_j(sum_c w_hc r_c(i, j)), where the summary of the episode bends w; for an operator, the
    ridge regression of `nn/relations.py`. Nothing depends on the names or the number of classes.
    """

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
        normed = self.norm(states)
        beliefs = self.belief(normed).squeeze(-1).softmax(dim=-1)  # (B, seen, K)
        labelled = slice(labels.shape[1])
        believed = torch.cat([labels, beliefs[:, labels.shape[1] :]], dim=1)  # (B, seen, K)
        told = torch.stack([believed, believed - beliefs], dim=-1)
        context = self._context(normed[:, labelled], beliefs[:, labelled], labels) + size
        gates = GATE_SCALE * self.gate(context).view(len(context), self.heads, -1)
        masses = believed.sum(dim=1)  # (B, K)
        classes = torch.einsum("bikc,bik->bkc", normed, believed.to(normed.dtype))
        said = torch.cat([normed, told.to(normed.dtype)], dim=-1)
        return Kept(
            seen_values=self._split(self.head_values(said)),
            labelled_values=self._split(self.operator_values(said[:, labelled])),
            weights=(self.relation_weights + gates[..., :-1]) * torch.exp(gates[..., -1:]),
            context=context,
            classes=classes / masses.unsqueeze(-1),
            masses=(masses / masses.mean(dim=1, keepdim=True)).clamp_min(SMALLEST).log(),
        )

    def forward(self, states: Tensor, kept: Kept, relations: Relations) -> Tensor:
        """Update tokens (B, rows, K, width) by what they hear."""
        heard = torch.cat(
            [
                self._shares(kept, relations) @ kept.seen_values,
                relations.operators.to(kept.labelled_values.dtype) @ kept.labelled_values,
            ],
            dim=1,
        )  # (B, heads + operators, rows, K * value_dim)
        heard = heard.view(*heard.shape[:3], -1, self.value_dim)
        heard = heard.permute(0, 2, 3, 1, 4).flatten(-2)  # (B, rows, K, all values)
        return self._think(states + self.out(heard), kept)

    def _context(self, normed: Tensor, beliefs: Tensor, labels: Tensor) -> Tensor:
        """Sum up how well the labelled tokens explain each other: (B, context_dim)."""
        own = (normed * labels.unsqueeze(-1).to(normed.dtype)).sum(dim=2)  # (B, n, width)
        likelihood = (beliefs * labels).sum(dim=-1, keepdim=True).clamp_min(SMALLEST).log()
        evidence = F.gelu(self.evidence(torch.cat([own, likelihood.to(own.dtype)], dim=-1)))
        summed: Tensor = self.summary(evidence.mean(dim=1))
        return summed

    def _shares(self, kept: Kept, relations: Relations) -> Tensor:
        """A_h: softmax over the seen tokens, (B, heads, rows, seen)."""
        channels = relations.channels
        scores = kept.weights @ channels.flatten(2).to(kept.weights.dtype)
        scores = scores.view(*scores.shape[:2], *channels.shape[2:])
        return scores.softmax(dim=-1).to(kept.seen_values.dtype)

    def _split(self, values: Tensor) -> Tensor:
        """(B, t, K, parts * value_dim) -> (B, parts, t, K * value_dim)."""
        parts = values.view(*values.shape[:3], -1, self.value_dim)
        return parts.permute(0, 3, 1, 2, 4).flatten(-2)

    def _think(self, states: Tensor, kept: Kept) -> Tensor:
        """Update each state by itself, its rivals, its class and the episode."""
        normed = self.mlp_norm(states)
        scores = self.mlp_belief(normed).squeeze(-1)  # (B, rows, K)
        beliefs = scores.softmax(dim=-1)
        likely = torch.einsum("bikc,bik->bic", normed, beliefs.to(normed.dtype))
        context = kept.context.unsqueeze(1).expand(-1, states.shape[1], -1)
        others = self.from_others(torch.cat([normed.mean(dim=2), likely, context], dim=-1))
        classes = self.from_class(torch.cat([kept.classes, kept.masses.unsqueeze(-1)], dim=-1))
        believed = torch.stack([beliefs, scores.log_softmax(dim=-1)], dim=-1)
        hidden = self.from_state(normed)  # the widest tensor of all: added to in place
        hidden += self.from_belief(believed)
        hidden += others.unsqueeze(2)
        hidden += classes.unsqueeze(1)
        thought: Tensor = self.mlp_out(F.gelu(hidden))
        return states + thought
