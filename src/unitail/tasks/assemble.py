"""From rows of each class to N-shot instances of a task (paper, section 3.4)."""

import torch
from torch import Tensor

from unitail.framework.episode import Episode, Query, Support

MAX_KEYS = 2**26
"""The most random keys that are in memory at once where many rows are drawn."""


def distinct_places(sizes: Tensor, count: int, largest: int, generator: torch.Generator) -> Tensor:
    """Draw `count` different places among 0..size-1 for each size, in random order: (..., count).

    No size is above `largest`, which is given because to look would be to wait for the device.
    Where a size is below `count`, all its places come first; what follows is meaningless.

    The keys of a chunk of the sizes (B, ...) at a time are in memory. On a CPU the result does not
    depend on the chunks; on a GPU `MAX_KEYS` is one of the things that identify the random stream.
    """
    step = max(1, MAX_KEYS // (largest * max(1, sizes[0].numel())))
    return torch.cat(
        [_places(chunk, count, largest, generator) for chunk in torch.split(sizes, step)]
    )


def _places(sizes: Tensor, count: int, largest: int, generator: torch.Generator) -> Tensor:
    # The places of the largest of independent keys are a uniform draw without replacement.
    keys = torch.rand(*sizes.shape, largest, generator=generator, device=sizes.device)
    padding = torch.arange(largest, device=sizes.device) >= sizes.unsqueeze(-1)
    return keys.masked_fill_(padding, -1.0).topk(count, dim=-1).indices


def class_major(rows: Tensor, shots: int) -> Tensor:
    """Put row numbers (B, K, shots + queries) class by class, support first: (B, n + m).

    The first `shots` of each class are its support.
    """
    return torch.cat([rows[:, :, :shots].flatten(1), rows[:, :, shots:].flatten(1)], dim=1)


def random_order(
    episodes: int, num_support: int, num_query: int, generator: torch.Generator
) -> Tensor:
    """Draw in which order each episode shows its rows, numbered support first: (B, n + m).

    Support and queries are shuffled apart. Rows are drawn class by class, and a learner that reads
    a sequence would take the class from the place.
    """
    device = generator.device
    keys = torch.rand(episodes, num_support + num_query, generator=generator, device=device)
    support = keys[:, :num_support].argsort(dim=1, stable=True)
    query = keys[:, num_support:].argsort(dim=1, stable=True)
    return torch.cat([support, num_support + query], dim=1)


def take(features: Tensor, rows: Tensor) -> Tensor:
    """Take the numbered rows (B, T) of each episode's features (B, R, d_T): (B, T, d_T)."""
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
