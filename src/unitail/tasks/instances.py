"""From rows of each class to N-shot instances of a task (paper, section 3.4)."""

import torch
from torch import Tensor

from unitail.errors import UserError
from unitail.framework.episode import Episode, Query, Support


def check_counts(*, episodes: int, shots: int, queries: int) -> None:
    """Refuse to draw none of something."""
    for what, got in (("episodes", episodes), ("shots", shots), ("queries", queries)):
        if got < 1:
            raise UserError(f"{what} are too few", got=got, allowed="1 or more")


def split_rows(rows: Tensor, shots: int) -> Episode:
    """Split rows (B, K, shots + queries, d_T) of each class into support and query, class by class.

    The first `shots` rows of each class are its support.
    """
    episodes, ways, count, _ = rows.shape
    classes = torch.arange(ways, device=rows.device).expand(episodes, ways)  # (B, K)
    support = Support(
        features=rows[:, :, :shots].flatten(1, 2),  # (B, K * shots, d_T)
        class_indices=classes.repeat_interleave(shots, dim=1),
        ways=ways,
    )
    query = Query(
        features=rows[:, :, shots:].flatten(1, 2),  # (B, K * queries, d_T)
        class_indices=classes.repeat_interleave(count - shots, dim=1),
    )
    return Episode(support=support, query=query)
