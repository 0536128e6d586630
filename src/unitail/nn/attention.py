"""Multi-head self-attention that can read a support set once and answer queries from it."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SELF_COLUMNS = 8
"""Extra coordinates per head for a query's score with itself. Two are needed; fused kernels require
head sizes in multiples of eight."""


@dataclass(frozen=True)
class SupportKeys:
    """Cached keys and values of a support set in one layer, extended for `Attention.answer`."""

    keys: Tensor
    """(B, heads, n + 1, head_dim + SELF_COLUMNS)."""
    values: Tensor
    """The same shape."""


class Attention(nn.Module):
    r"""softmax(q k^T / sqrt(d)) v over several heads, in the forms that each visibility needs.

    A query that sees the support and itself has the output

        sum_j p_j v_j + p_self v_self,   (p_1 .. p_n, p_self) = softmax(q.k_1 .. q.k_n, q.k_self).

    Each query has its own key and value, so plain attention would need an m x m mask. Instead the
    support gets one more row, the *mirror*, and each head one more coordinate. There the query
    holds its own score q.k_self, and the mirror's key is 1 there and 0 elsewhere, so the mirror's
    score is q.k_self. The mirror's value is 1 there and 0 elsewhere, so the output in that
    coordinate is p_self. (A second coordinate holds the part of the score that half precision would
    round off.) The cost is n*m, on the same fused kernels as plain attention.
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, tokens: Tensor, *, causal: bool = False) -> Tensor:
        """Attend to all tokens, or with `causal` to earlier ones: (B, t, dim) -> (B, t, dim)."""
        q, k, v = self._split(tokens)  # (B, heads, t, head_dim) each
        return self._merge(F.scaled_dot_product_attention(q, k, v, is_causal=causal))

    def read(self, support: Tensor) -> tuple[Tensor, SupportKeys]:
        """Attend within the support; return the result, and the cache for queries."""
        q, k, v = self._split(support)
        attended = self._merge(F.scaled_dot_product_attention(q, k, v))
        return attended, self._with_mirror(k, v)

    def cache(self, support: Tensor) -> SupportKeys:
        """Return the cache for queries alone, where the attended support is not needed."""
        used = slice(self.heads * self.head_dim, None)  # keys and values, without the queries
        kv = F.linear(support, self.qkv.weight[used], self.qkv.bias[used])
        heads = kv.view(*support.shape[:2], 2, self.heads, self.head_dim)
        k, v = heads.permute(2, 0, 3, 1, 4)
        return self._with_mirror(k, v)

    def answer(self, query: Tensor, support: SupportKeys) -> Tensor:
        """Attend from each query to the support and itself: (B, m, dim) -> (B, m, dim)."""
        q, k, v = self._split(query)
        wide = torch.promote_types(q.dtype, torch.float32)
        own_score = (q * k).sum(dim=-1, keepdim=True, dtype=wide)  # (B, heads, m, 1)
        high = own_score.to(q.dtype)
        low = (own_score - high).to(q.dtype)  # the part of the score that half precision rounds off
        probe = F.pad(torch.cat([q, high, low], dim=-1), (0, SELF_COLUMNS - 2))
        seen = F.scaled_dot_product_attention(
            probe, support.keys, support.values, scale=self.head_dim**-0.5
        )
        own_share = seen[..., self.head_dim : self.head_dim + 1]  # p_self
        return self._merge(seen[..., : self.head_dim] + own_share * v)

    def _with_mirror(self, keys: Tensor, values: Tensor) -> SupportKeys:
        mirror = keys.new_zeros(2, self.head_dim + SELF_COLUMNS)
        mirror[0, self.head_dim : self.head_dim + 2] = 1  # its key adds both parts of the score
        mirror[1, self.head_dim] = 1  # its value returns p_self
        key, value = mirror[:, None, None, None].expand(2, *keys.shape[:2], 1, -1)
        return SupportKeys(
            keys=torch.cat([F.pad(keys, (0, SELF_COLUMNS)), key], dim=2),
            values=torch.cat([F.pad(values, (0, SELF_COLUMNS)), value], dim=2),
        )

    def _split(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        heads = self.qkv(tokens).unflatten(-1, (3, self.heads, self.head_dim))
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        return q, k, v

    def _merge(self, heads: Tensor) -> Tensor:
        merged: Tensor = self.out(heads.transpose(1, 2).flatten(-2))
        return merged
