"""What to label next: items that are doubtful, unlike each other, and like many others.

Where there are answers, the items are put into as many groups as are wanted (k-means on directions
from the mean), each weighing as much as it is doubtful, and of each group the one next to its
centre is suggested. So a crowd of doubtful items that are all alike is asked about once, and an
item that is doubtful since it is like nothing else counts for one. Where there are none yet, all
items weigh the same. bench/label_next.py compares this with other choices.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.float32]
Places = NDArray[np.int64]

MAX_CANDIDATES = 2000
"""The most doubtful ones, or as many at random where there are no answers."""
TRIALS = 8
"""Draws for each first centre; the one that leaves least is taken."""
ROUNDS = 10
"""Of k-means."""


def suggest(
    vectors: Rows,
    doubt: Floats | None,
    labelled: Rows,
    count: int,
    *,
    seed: int = 0,
) -> Places:
    """Choose `count` of the vectors (n, d) to be labelled next, the one that says most first.

    `doubt` is 0 to 1 for each, None if nothing is answered; `labelled` are vectors (m, d) that
    have a label already.
    """
    count = min(count, len(vectors))
    if not count:
        return np.zeros(0, dtype=np.int64)
    generator = np.random.default_rng(seed)
    chosen = _candidates(len(vectors), doubt, generator)
    weights = np.ones(len(chosen)) if doubt is None else np.maximum(doubt[chosen], 1e-6)
    both = np.concatenate([vectors[chosen], labelled]).astype(np.float32)  # half the time of double
    both -= both.mean(axis=0, dtype=np.float64).astype(np.float32)
    both /= np.maximum(np.linalg.norm(both, axis=1, keepdims=True), 1e-12)
    rows, known = both[: len(chosen)], both[len(chosen) :]
    centres = _spread_out(rows, known, weights, count, generator)
    centres, groups = _grouped(rows, weights, centres)
    result: Places = chosen[_next_to_centres(rows, weights, centres, groups, count)]
    return result


def doubts(probabilities: Floats) -> Floats:
    """Return how doubtful answers are by their two best probabilities (n, 2): 1 is a tie."""
    return 1 - (probabilities[:, 0] - probabilities[:, 1])


def _candidates(number: int, doubt: Floats | None, generator: np.random.Generator) -> Places:
    if number <= MAX_CANDIDATES:
        return np.arange(number)
    if doubt is None:
        return np.sort(generator.permutation(number)[:MAX_CANDIDATES])
    return np.sort(np.argsort(-doubt, kind="stable")[:MAX_CANDIDATES])


def _spread_out(
    rows: Rows, known: Rows, weights: Floats, count: int, generator: np.random.Generator
) -> Rows:
    """Draw first centres that are far from each other and from what is labelled (k-means++)."""
    far = np.full(len(rows), np.inf)
    for start in range(0, len(known), 256):
        far = np.minimum(far, (2 - 2 * rows @ known[start : start + 256].T).min(axis=1))
    far = np.where(np.isinf(far), 2.0, np.clip(far, 0, None))
    chosen: list[int] = []
    for _ in range(count):
        share = weights * far
        share[chosen] = 0
        if share.sum() <= 0:
            share = np.ones(len(rows))
            share[chosen] = 0
        tried = generator.choice(len(rows), TRIALS, p=share / share.sum())
        left = np.minimum(far[:, None], np.clip(2 - 2 * rows @ rows[tried].T, 0, None))
        best = int((weights @ left).argmin())
        chosen.append(int(tried[best]))
        far = left[:, best]
    return rows[chosen]


def _grouped(rows: Rows, weights: Floats, centres: Rows) -> tuple[Rows, Places]:
    """Move centres to the weighted means of their groups, again and again."""
    groups = np.full(len(rows), -1, dtype=np.int64)
    for _ in range(ROUNDS):
        before = groups
        groups = (rows @ centres.T - 0.5 * (centres**2).sum(axis=1)).argmax(axis=1)
        if (groups == before).all():
            break
        shares = np.where(groups == np.arange(len(centres))[:, None], weights, 0)
        masses = shares.sum(axis=1, keepdims=True)
        means = (shares / np.maximum(masses, 1e-12)).astype(np.float32) @ rows
        centres = np.where(masses > 0, means, centres)
    return centres, groups


def _next_to_centres(
    rows: Rows, weights: Floats, centres: Rows, groups: Places, count: int
) -> list[int]:
    """Return one row of each group, the heaviest group first; then others, the heaviest first."""
    masses = np.bincount(groups, weights, minlength=len(centres))
    chosen = []
    for group in np.argsort(-masses, kind="stable"):
        members = np.flatnonzero(groups == group)
        if len(members):
            far = ((rows[members] - centres[group]) ** 2).sum(axis=1)
            chosen.append(int(members[far.argmin()]))
    others = np.argsort(-weights, kind="stable")
    return [*chosen, *others[~np.isin(others, chosen)].tolist()][:count]
