r"""The weight of joint answers against isolated ones.

Unlabelled rows help where classes are clusters, and mislead where they are not, such as sentiment
in texts about many topics. Labelled rows show which is the case: leave each one out, and test
whether it is nearest to the mean of its class. For unit vectors x around the shrunk centre, an
unbiased estimate of the squared distance to the mean of class k is

    |x - mu_k|² = 1 - 2 x·m_k + |m_k|² - v / n_k,

with m_k the mean of the n_k remaining rows of class k and v the variance within classes, all from
cosines. Without the last term a row would be farther from its own class, which is smaller by one
row, than from others. With r the error rate relative to that of a guess, and s the mean number of
labelled rows per class, joint answers have the weight

    1 / (1 + (s r² / D)²).

It is one without errors, and falls faster with more labels, which leave less to learn from other
rows. The form and D were chosen on held-out classes of training sets and on synthetic tables
(docs/experiments.md).

With one row per class no row can be left out. Joint answers then have weight one, except for two
classes in few columns, as in tables: clusters there are seldom the two classes, and all answers
would be the same class. These answers are isolated.
"""

import torch
from torch import Tensor

from unitail.relational.geometry import MIN_LIMITED_WIDTH, Centre
from unitail.relational.relations import Frame

DOUBT = 2.0
"""D."""
MARGIN = 0.01
"""A row this much nearer to another class is an error, and one this much nearer to its own is none.
In between it is a fraction of an error, so that the weight is continuous."""
COPIES = 1e-12
"""Largest difference between the projections of copies, relative to the largest projection."""


def share_by_size(rows: int, ways: int, width: int) -> float | None:
    """Return the weight of joint answers where no row can be left out, else None."""
    if rows > ways:
        return None
    return float(ways > 2 or width >= MIN_LIMITED_WIDTH)


@torch.no_grad()
def joint_share(frame: Frame) -> Tensor:
    """Return the weight of joint answers, from a support that was read by itself: (B, 1, 1).

    Some class must have more than one row; for others see `share_by_size`.
    """
    n, ways = frame.labels.shape[1:]
    cosines = frame.geometry.compare_seen().cosines[Centre.DIRECTION][:, :n, :n]
    labels = frame.labels.to(cosines)
    counts = labels / _copies(frame.geometry.vectors[:, :n], labels)
    errors = errors_without_their_label(cosines, counts)
    relative = errors / (1 - 1 / ways)
    doubt = counts.sum(dim=(1, 2)) / ways * relative.square() / DOUBT
    return (1 / (1 + doubt.square())).view(-1, 1, 1)


def errors_without_their_label(cosines: Tensor, counts: Tensor) -> Tensor:
    """Return the share of rows that are nearer to another class than to the others of theirs: (B,).

    Cosines are (B, n, n). `counts` (B, n, K) is the weight of a row in its class: 1, or less if it
    has copies there, which are left out with it. A row that is the only one of its class does not
    count; if all are, there are no errors.
    """
    labels = (counts > 0).to(counts)
    sizes = counts.sum(dim=1, keepdim=True)  # (B, 1, K)
    lengths = cosines.diagonal(dim1=1, dim2=2).unsqueeze(2)
    sums = cosines @ counts  # x_i times the sum of class k, (B, n, K)
    squares = (counts * sums).sum(dim=1, keepdim=True)  # squared lengths of class sums, (B, 1, K)
    freedom = (sizes - 1).clamp_min(0).sum(dim=2, keepdim=True).clamp_min(1)
    around = (counts * lengths).sum(dim=1, keepdim=True) - squares / sizes.clamp_min(1)
    variance = (around.sum(dim=2, keepdim=True) / freedom).clamp_min(0)

    remaining = (sizes - labels).clamp_min(1)  # rows of class k without row i
    squares = squares - labels * (2 * sums - lengths)
    nearness = 2 * (sums - labels * lengths) / remaining
    nearness = nearness - squares / remaining.square() + variance / remaining
    own = (labels * nearness).sum(dim=2)
    other = nearness.masked_fill(labels.bool(), -torch.inf).amax(dim=2)
    wrong = ((other - own) / (2 * MARGIN) + 0.5).clamp(0, 1)  # (B, n)
    weights = (counts * (sizes > 1.5)).sum(dim=2)
    return (weights * wrong).sum(dim=1) / weights.sum(dim=1).clamp_min(1)


def _copies(vectors: Tensor, labels: Tensor) -> Tensor:
    """Count the copies of each row (B, n, d) in its class, with itself: (B, n, 1).

    Rows are compared by a projection that two different rows are unlikely to share.
    """
    numbers = torch.arange(1, vectors.shape[2] + 1, dtype=torch.float64, device=vectors.device)
    projections = vectors.double() @ numbers.sqrt().cos()  # (B, n)
    tolerance = COPIES * projections.abs().amax(dim=1).view(-1, 1, 1)
    same = (projections.unsqueeze(2) - projections.unsqueeze(1)).abs() <= tolerance
    return (same * (labels @ labels.mT)).sum(dim=2, keepdim=True)
