"""The block of `block.py` as it runs: the same answers, faster. Tests hold the two together.

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
from torch import Tensor

from unitail.relational.block import RelationalBlock, log_shares
from unitail.relational.relations import Relations

STATES_PER_CHUNK = 2**13
"""About as many states as the caches of a CPU hold."""
MAX_CHUNKS = 16
"""However many rows there are: every chunk has its price."""


@dataclass(frozen=True, eq=False)
class Kept:
    """What one layer keeps of the tokens that are seen."""

    values: Tensor
    """v for each head, then each operator: (B, heads + operators, t, value_dim, K)."""
    weights: Tensor
    """w, bent: (B, heads, relations)."""
    context: Tensor
    """c: (B, context_dim)."""
    classes: Tensor
    """What the hidden layer of the MLP takes from each class: (B, K, hidden)."""
    groups: Tensor | None = None
    """If `values` has one token for each group of alike ones, which the seen are in, one-hot:
    (B, 1, seen, t)."""


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
        return replace(kept, classes=kept.classes + masses, groups=labels.unsqueeze(1))

    def update(self, z: Tensor, kept: Kept, relations: Relations) -> Tensor:
        """Update z (B, rows, K, width) by what is kept of the seen."""
        a, operators = self.attend(kept.weights, relations), relations.operators
        a = a.to(kept.values.dtype)
        if relations.heard is not None:
            heard = relations.heard.unsqueeze(1)
            a, operators = a * heard, operators * heard[..., : operators.shape[3]]
        if kept.groups is not None:  # what goes to the tokens of a group goes to the one for them
            a, operators = a @ kept.groups, operators @ kept.groups
        values = kept.values.flatten(3)  # (B, heads + operators, t, value_dim * K)
        by_heads = a @ values[:, : self.heads]
        by_operators = operators @ values[:, self.heads :, : operators.shape[3]]
        chunks = _row_chunks(z, by_heads.transpose(1, 2), by_operators.transpose(1, 2))
        return torch.cat([self._update_rows(kept, *chunk) for chunk in chunks], dim=1)

    def _keep(self, seen: Tensor, labels: Tensor, size: Tensor) -> Kept:
        n = labels.shape[1]
        u = self.norm(seen)
        p = self.belief(u).squeeze(-1).softmax(dim=-1)  # (B, t, K)
        y = torch.cat([labels, p[:, n:]], dim=1)
        # A label is one-hot: of the labelled only the state of their own class counts.
        own = u[:, :n].take_along_dim(labels.argmax(dim=2)[:, :, None, None], dim=2).squeeze(2)
        guessed = u[:, n:] * p[:, n:].to(u.dtype).unsqueeze(-1)
        sums = labels.mT.to(own.dtype) @ own + guessed.sum(dim=1)  # (B, K, width)
        mass = y.sum(dim=1).unsqueeze(-1)
        context = self.summarise(own, (p[:, :n] * labels).sum(dim=2), size)
        return Kept(
            values=self._say(u, torch.stack([y, y - p], dim=-1)),
            weights=self.bend(context),
            context=context,
            classes=self.from_class(torch.cat([sums / mass, log_shares(mass)], dim=-1)),
        )

    def _say(self, u: Tensor, told: Tensor) -> Tensor:
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
        return torch.cat(values, dim=2)

    def _update_rows(self, kept: Kept, z: Tensor, heads: Tensor, operators: Tensor) -> Tensor:
        """Hear what heads and operators carried, (B, rows, of them, value_dim * K), and think."""
        heard = torch.cat([heads, operators], dim=2)
        heard = heard.view(*z.shape[:2], -1, z.shape[2]).mT  # (B, rows, K, all values)
        z = z + self.out(heard)
        u = self.mlp_norm(z)
        score = self.mlp_belief(u).squeeze(-1)  # (B, rows, K)
        p = score.softmax(dim=-1)
        likely = (p.unsqueeze(2).to(u.dtype) @ u).squeeze(2)
        episode = kept.context.unsqueeze(1).expand(-1, z.shape[1], -1)
        others = self.from_others(torch.cat([u.mean(dim=2), likely, episode], dim=-1))
        inputs = [u, p.unsqueeze(-1), score.log_softmax(dim=-1).unsqueeze(-1)]
        weight = torch.cat([self.from_state.weight, self.from_belief.weight], dim=1)
        bias = self.from_state.bias + self.from_belief.bias
        hidden = F.linear(torch.cat(inputs, dim=-1), weight, bias)
        hidden += others.unsqueeze(2)  # in place: it is the largest tensor of all
        hidden += kept.classes.unsqueeze(1)
        change: Tensor = self.mlp_out(F.gelu(hidden))
        return z + change


def _row_chunks(*tensors: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """Cut rows of states (B, rows, K, width), and of what belongs to them, for a CPU's caches."""
    episodes, rows, ways, _ = tensors[0].shape
    if tensors[0].device.type == "cpu":
        rows = max(1, STATES_PER_CHUNK // (episodes * ways), math.ceil(rows / MAX_CHUNKS))
    return zip(*(torch.split(tensor, rows, dim=1) for tensor in tensors), strict=True)
