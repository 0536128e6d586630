"""Number of queries per class of an episode: equal, random shares, or none for some classes."""

import torch
from torch import Tensor

from unitail.tasks.assemble import class_major
from unitail.tasks.batches import BatchShape, QueryShares

MAX_SHARE_RATIO = 4
"""With finitely many rows, no class gets more than this many times its even share of queries."""
MIN_SHARE = 1e-6
"""Lower bound of shares, in units of the largest, so that they can be divided by."""
ABSENT_SHARE = 1e-20
"""Share of a class meant to have no queries, in units of the other classes' shares."""


def draw_classes(shape: BatchShape, generator: torch.Generator) -> Tensor:
    """Draw the classes of support and queries if rows never run out: (B, n + m).

    The support and balanced queries are in class order; with random shares each query draws its
    class independently. `random_order` shuffles them after the features have been drawn.
    """
    per_class = shape.shots + shape.queries
    classes = torch.arange(shape.ways, device=generator.device)[:, None]
    ordered = class_major(classes.expand(shape.episodes, shape.ways, per_class), shape.shots)
    if shape.query_shares is QueryShares.BALANCED:
        return ordered
    waits = _waits(draw_shares(shape, generator), shape.num_query, generator)  # (B, K, m)
    return torch.cat([ordered[:, : shape.num_support], waits.argmin(dim=1)], dim=1)


def draw_shares(shape: BatchShape, generator: torch.Generator) -> Tensor:
    """Draw the class shares in units of each episode's largest: (B, K).

    Independent Gamma(concentration) numbers over their sum are Dirichlet(concentration). They span
    more orders of magnitude than float32 can hold. An absent class has a share so small that its
    rows are used only once all others have run out.
    """
    size, device = (shape.episodes, shape.ways), generator.device
    if shape.query_shares is QueryShares.ABSENT:
        places = torch.rand(size, generator=generator, device=device).argsort(dim=1)
        return (places >= shape.ways // 2).float().clamp_min(ABSENT_SHARE)
    concentrations = torch.full(size, shape.concentration, dtype=torch.float64, device=device)
    shares = torch._standard_gamma(concentrations, generator=generator)
    return (shares / shares.amax(dim=1, keepdim=True)).clamp_min(MIN_SHARE).float()


def max_candidates(shape: BatchShape, largest: int) -> int:
    """Return how many rows of a class may become queries, if no class exceeds `largest` rows."""
    return min(largest - shape.shots, MAX_SHARE_RATIO * shape.queries)


def draw_candidates(
    shape: BatchShape, available: Tensor, limit: int, generator: torch.Generator
) -> Tensor:
    """Draw queries from `available` (B, K) candidates: (B, m) numbers class * limit + position.

    Let the candidates of a class arrive as a Poisson process whose rate is the share of the class.
    Then the classes of the first arrivals are independent draws from the shares, and a class that
    runs out of candidates leaves its share to the others. Queries are in order of arrival.
    """
    waits = _waits(draw_shares(shape, generator), limit, generator)  # (B, K, limit)
    # A cumulative sum as a product, since `cumsum` is not deterministic on a GPU.
    until = torch.ones(limit, limit, device=waits.device).triu()
    missing = torch.arange(limit, device=waits.device) >= available.unsqueeze(2)
    arrivals = (waits @ until).masked_fill(missing, torch.inf)
    return arrivals.flatten(1).topk(shape.num_query, dim=1, largest=False).indices


def _waits(shares: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw exponential waiting times with the shares (B, K) as rates: (B, K, count)."""
    waits = torch.empty(*shares.shape, count, device=shares.device)
    return waits.exponential_(generator=generator) / shares.unsqueeze(2)
