r"""How far joint answers are to be trusted beside isolated ones.

Unlabelled rows help where classes are where rows lie together, and mislead where they are not, as
the sentiment of texts about everything. Labelled rows tell which it is: leave each out, and see
whether it lies nearest to the mean of its class. For unit vectors x around the shrunk centre,

    |x - mu_k|² = 1 - 2 x·m_k + |m_k|² - s² / n_k    without bias,

with m_k the mean of the n_k rows of class k that are left and s² the variance within classes, all
of it from cosines. Without the last term a row would lie farther from its own class, which has lost
it, than from others. With r the share of errors in units of that of a guess, and s labelled rows of
a class, on average, a joint answer has the share

    1 / (1 + (s r² / D)²),

so that it is one without errors, and falls the faster the more labels there are, which leave less
to be learned from other rows. The form and D are chosen on held-out classes of training sets and on
made-up tables (docs/experiments.md).

With one row of each class there is none to leave out. Joint answers stand then, but for two classes
in few columns, as tables have them: what lies together there is seldom one of two classes, and
answers all fall to one of them. They are isolated ones.
"""

import torch
from torch import Tensor

from unitail.relational.geometry import MIN_LIMITED_WIDTH, Centre
from unitail.relational.relations import Frame

DOUBT = 2.0
"""D."""
MARGIN = 0.01
"""A row this much nearer to another class is an error, one this much nearer to its own is none, and
in between it is in part: the share is continuous."""
COPIES = 1e-12
"""How far marks of copies may be apart, in units of the largest."""


def never_yields(rows: int, ways: int, width: int) -> bool:
    """Tell whether joint answers stand, whatever labelled rows say."""
    return rows == ways and (ways > 2 or width >= MIN_LIMITED_WIDTH)


@torch.no_grad()
def joint_share(frame: Frame) -> Tensor:
    """Ask the labelled rows of a support that was read by itself: (B, 1, 1)."""
    n, ways = frame.labels.shape[1:]
    if n == ways:
        width = frame.geometry.vectors.shape[2]
        share = float(never_yields(n, ways, width))
        return frame.labels.new_full((len(frame.labels), 1, 1), share)
    cosines = frame.geometry.compare_seen().cosines[Centre.DIRECTION][:, :n, :n]
    labels = frame.labels.to(cosines)
    counts = labels / _copies(frame.geometry.vectors[:, :n], labels)
    errors = errors_without_their_label(cosines, counts)
    relative = errors / (1 - 1 / ways)
    doubt = counts.sum(dim=(1, 2)) / ways * relative.square() / DOUBT
    return (1 / (1 + doubt.square())).view(-1, 1, 1)


def errors_without_their_label(cosines: Tensor, counts: Tensor) -> Tensor:
    """Return the share of rows that lie nearer to another class than to the rest of theirs, (B,).

    Cosines are (B, n, n); counts (B, n, K) say how much a row counts in its class: 1, or less if it
    has copies there, which are left out with it. A row that is the only one of its class says
    nothing; if all are, there are no errors.
    """
    labels = (counts > 0).to(counts)
    sizes = counts.sum(dim=1, keepdim=True)  # (B, 1, K)
    lengths = cosines.diagonal(dim1=1, dim2=2).unsqueeze(2)
    sums = cosines @ counts  # x_i times the sum of class k, (B, n, K)
    squares = (counts * sums).sum(dim=1, keepdim=True)  # of the sums of classes, (B, 1, K)
    freedom = (sizes - 1).clamp_min(0).sum(dim=2, keepdim=True).clamp_min(1)
    around = (counts * lengths).sum(dim=1, keepdim=True) - squares / sizes.clamp_min(1)
    variance = (around.sum(dim=2, keepdim=True) / freedom).clamp_min(0)

    left = (sizes - labels).clamp_min(1)
    squares = squares - labels * (2 * sums - lengths)
    nearness = 2 * (sums - labels * lengths) / left - squares / left.square() + variance / left
    own = (labels * nearness).sum(dim=2)
    other = nearness.masked_fill(labels.bool(), -torch.inf).amax(dim=2)
    wrong = ((other - own) / (2 * MARGIN) + 0.5).clamp(0, 1)  # (B, n)
    says = (counts * (sizes > 1.5)).sum(dim=2)
    return (says * wrong).sum(dim=1) / says.sum(dim=1).clamp_min(1)


def _copies(vectors: Tensor, labels: Tensor) -> Tensor:
    """Count the rows of the same class that are the same as each of (B, n, d): (B, n, 1).

    They are told by a product that no two different rows are likely to share.
    """
    places = torch.arange(1, vectors.shape[2] + 1, dtype=torch.float64, device=vectors.device)
    marks = vectors.double() @ places.sqrt().cos()  # (B, n)
    near = COPIES * marks.abs().amax(dim=1).view(-1, 1, 1)
    same = (marks.unsqueeze(2) - marks.unsqueeze(1)).abs() <= near
    return (same * (labels @ labels.mT)).sum(dim=2, keepdim=True)
