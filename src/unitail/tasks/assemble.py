"""Deal rows of each class to support and queries: N-shot instances of a task (paper, section 3.4).

Every class has N rows in the support. Queries are the same number for each class, follow random
class shares, or leave some classes out (`QueryShares`).
"""

import torch
from torch import Tensor

from unitail.framework.episode import Episode, Query, Support
from unitail.tasks.batches import BatchShape, QueryShares

MAX_KEYS = 2**26
"""Largest number of random keys held in memory at once when many rows are drawn."""
MAX_SHARE_RATIO = 4
"""With finitely many rows, no class gets more than this many times its even share of queries."""
MIN_SHARE = 1e-6
"""Lower bound of shares, in units of the largest, so that they can be divided by."""
ABSENT_SHARE = 1e-20
"""Share of a class meant to have no queries, in units of the other classes' shares."""


def distinct_places(sizes: Tensor, count: int, largest: int, generator: torch.Generator) -> Tensor:
    """Draw `count` distinct positions in 0..size-1 for each size, in random order: (..., count).

    No size exceeds `largest`, a parameter because computing it here would wait for the device.
    If a size is below `count`, all its positions come first and the remaining entries are
    meaningless.

    Keys are held in memory for one chunk of the sizes (B, ...) at a time. On a CPU the result does
    not depend on the chunks; on a GPU the random stream depends on `MAX_KEYS`.
    """
    step = max(1, MAX_KEYS // (largest * max(1, sizes[0].numel())))
    return torch.cat(
        [_places(chunk, count, largest, generator) for chunk in torch.split(sizes, step)]
    )


def _places(sizes: Tensor, count: int, largest: int, generator: torch.Generator) -> Tensor:
    # The positions of the largest of i.i.d. keys are a uniform draw without replacement.
    keys = torch.rand(*sizes.shape, largest, generator=generator, device=sizes.device)
    padding = torch.arange(largest, device=sizes.device) >= sizes.unsqueeze(-1)
    return keys.masked_fill_(padding, -1.0).topk(count, dim=-1).indices


def class_major(rows: Tensor, shots: int) -> Tensor:
    """Flatten row numbers (B, K, shots + queries), support first, by class: (B, n + m).

    The first `shots` of each class are its support.
    """
    return torch.cat([rows[:, :, :shots].flatten(1), rows[:, :, shots:].flatten(1)], dim=1)


def random_order(
    episodes: int, num_support: int, num_query: int, generator: torch.Generator
) -> Tensor:
    """Draw a random order of each episode's rows, the support before the queries: (B, n + m).

    Support and queries are shuffled separately. Rows are drawn class by class, and without a
    shuffle a learner that reads a sequence could infer the class from the position.
    """
    device = generator.device
    keys = torch.rand(episodes, num_support + num_query, generator=generator, device=device)
    support = keys[:, :num_support].argsort(dim=1, stable=True)
    query = keys[:, num_support:].argsort(dim=1, stable=True)
    return torch.cat([support, num_support + query], dim=1)


def take(features: Tensor, rows: Tensor) -> Tensor:
    """Gather the rows with indices (B, T) from each episode's features (B, R, d_T): (B, T, d_T)."""
    return features.gather(1, rows.unsqueeze(2).expand(-1, -1, features.shape[2]))


def assemble(features: Tensor, class_indices: Tensor, *, ways: int, num_support: int) -> Episode:
    """Build episodes from features (B, n + m, d_T) and class indices (B, n + m), support first."""
    return Episode(
        support=Support(
            features=features[:, :num_support],
            class_indices=class_indices[:, :num_support],
            ways=ways,
        ),
        query=Query(
            features=features[:, num_support:], class_indices=class_indices[:, num_support:]
        ),
    )


def split_rows(rows: Tensor, shots: int, generator: torch.Generator) -> Episode:
    """Split rows (B, K, shots + queries, d_T) of each class into support and query, both shuffled.

    The first `shots` rows of each class are its support.
    """
    episodes, ways, count, _ = rows.shape
    numbers = torch.arange(ways * count, device=rows.device).view(1, ways, count)
    num_support = ways * shots
    order = random_order(episodes, num_support, ways * count - num_support, generator)
    chosen = class_major(numbers, shots)[0][order]  # (B, n + m)
    features = take(rows.flatten(1, 2), chosen)
    return assemble(features, chosen // count, ways=ways, num_support=num_support)


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
