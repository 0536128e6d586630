"""Which classes the queries of an episode are of."""

import torch
from torch import Tensor

from unitail.tasks.assemble import class_major
from unitail.tasks.shapes import BatchPlan, QueryShares

MOST_QUERIES = 4
"""Among finitely many rows, no class gets more than this many times its even share of queries."""
SMALLEST_SHARE = 1e-6
"""Shares below this part of the largest are raised to it, so that dividing by them is safe."""


def draw_classes(plan: BatchPlan, generator: torch.Generator) -> Tensor:
    """Draw the classes of support and query where rows never run out: (B, n + m).

    The support is class by class. So are balanced queries; with random shares each query has an
    independent class. `random_order` shuffles them, after the features have been drawn.
    """
    per_class = plan.shots + plan.queries
    classes = torch.arange(plan.ways, device=generator.device)[:, None]
    ordered = class_major(classes.expand(plan.episodes, plan.ways, per_class), plan.shots)
    if plan.query_shares is QueryShares.BALANCED:
        return ordered
    waits = _waits(draw_shares(plan, generator), plan.num_query, generator)  # (B, K, m)
    return torch.cat([ordered[:, : plan.num_support], waits.argmin(dim=1)], dim=1)


def draw_shares(plan: BatchPlan, generator: torch.Generator) -> Tensor:
    """Draw the shares of the classes in units of each episode's largest: (B, K).

    Independent Gamma(concentration) numbers over their sum are Dirichlet(concentration). They span
    more orders of magnitude than float32 has.
    """
    shape = torch.full(
        (plan.episodes, plan.ways), plan.concentration, dtype=torch.float64, device=generator.device
    )
    shares = torch._standard_gamma(shape, generator=generator)
    return (shares / shares.amax(dim=1, keepdim=True)).clamp_min(SMALLEST_SHARE).float()


def most_candidates(plan: BatchPlan, largest: int) -> int:
    """Return how many rows of a class, of `largest` at most, may become queries."""
    return min(largest - plan.shots, MOST_QUERIES * plan.queries)


def draw_candidates(
    plan: BatchPlan, available: Tensor, most: int, generator: torch.Generator
) -> Tensor:
    """Draw the queries among `available` (B, K) candidates: (B, m) numbers class * most + place.

    Let the candidates of a class arrive as a Poisson process whose rate is the share of the class.
    Then the classes of the first arrivals are independent draws from the shares, and a class whose
    candidates have all come leaves its share to the others. Queries are in order of arrival.
    """
    waits = _waits(draw_shares(plan, generator), most, generator)  # (B, K, most)
    # A cumulative sum as a product, since `cumsum` is not deterministic on a GPU.
    until = torch.ones(most, most, device=waits.device).triu()
    missing = torch.arange(most, device=waits.device) >= available.unsqueeze(2)
    arrivals = (waits @ until).masked_fill(missing, torch.inf)
    return arrivals.flatten(1).topk(plan.num_query, dim=1, largest=False).indices


def _waits(shares: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw exponential waiting times with the shares (B, K) as rates: (B, K, count)."""
    waits = torch.empty(*shares.shape, count, device=shares.device)
    return waits.exponential_(generator=generator) / shares.unsqueeze(2)
