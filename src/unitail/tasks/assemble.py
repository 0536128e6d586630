"""Turn rows of each class into N-shot instances of a task (paper, section 3.4)."""

import torch
from torch import Tensor

from unitail.framework.episode import Episode, Query, Support

MAX_KEYS = 2**26
"""Largest number of random keys held in memory at once when many rows are drawn."""


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
