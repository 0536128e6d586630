"""What to label next: items that are doubtful, unlike each other, and like many other items.

Items are clustered into as many groups as suggestions are wanted (k-means on directions from the
mean), each weighted by its doubt, and the item nearest to each centre is suggested. So of many
doubtful items that are all alike only one is suggested, and an outlier counts as a single item.
Before there are answers, all weights are equal. bench/label_next.py compares this with other rules.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.float32]
Places = NDArray[np.int64]

MAX_CANDIDATES = 2000
"""Largest number of items to cluster: the most doubtful, or random ones without answers."""
TRIALS = 8
"""Draws for each initial centre; the one with the smallest remaining inertia is taken."""
ROUNDS = 10
"""Iterations of k-means."""


def suggest(
    vectors: Rows,
    doubt: Floats | None,
    labelled: Rows,
    count: int,
    *,
    seed: int = 0,
) -> Places:
    """Choose `count` of the vectors (n, d) to label next, the most useful first.

    `doubt` is between 0 and 1 for each vector, or None if there are no answers; `labelled` holds
    the vectors (m, d) that already have a label.
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
    rows, labelled_rows = both[: len(chosen)], both[len(chosen) :]
    centres = _initial_centres(rows, labelled_rows, weights, count, generator)
    centres, groups = _run_k_means(rows, weights, centres)
    result: Places = chosen[_nearest_to_centres(rows, weights, centres, groups, count)]
    return result


def doubts(probabilities: Floats) -> Floats:
    """Return the doubt of answers from their two best probabilities (n, 2): 1 is a tie."""
    return 1 - (probabilities[:, 0] - probabilities[:, 1])


def _candidates(number: int, doubt: Floats | None, generator: np.random.Generator) -> Places:
    if number <= MAX_CANDIDATES:
        return np.arange(number)
    if doubt is None:
        return np.sort(generator.permutation(number)[:MAX_CANDIDATES])
    return np.sort(np.argsort(-doubt, kind="stable")[:MAX_CANDIDATES])


def _initial_centres(
    rows: Rows, labelled: Rows, weights: Floats, count: int, generator: np.random.Generator
) -> Rows:
    """Draw initial centres far from each other and from the labelled rows (k-means++)."""
    distances = np.full(len(rows), np.inf)
    for start in range(0, len(labelled), 256):
        chunk = labelled[start : start + 256]
        distances = np.minimum(distances, (2 - 2 * rows @ chunk.T).min(axis=1))
    distances = np.where(np.isinf(distances), 2.0, np.clip(distances, 0, None))
    chosen: list[int] = []
    for _ in range(count):
        share = weights * distances
        share[chosen] = 0
        if share.sum() <= 0:
            share = np.ones(len(rows))
            share[chosen] = 0
        trials = generator.choice(len(rows), TRIALS, p=share / share.sum())
        remaining = np.minimum(distances[:, None], np.clip(2 - 2 * rows @ rows[trials].T, 0, None))
        best = int((weights @ remaining).argmin())
        chosen.append(int(trials[best]))
        distances = remaining[:, best]
    return rows[chosen]


def _run_k_means(rows: Rows, weights: Floats, centres: Rows) -> tuple[Rows, Places]:
    """Iterate k-means: return the final centres, and the group of each row."""
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


def _nearest_to_centres(
    rows: Rows, weights: Floats, centres: Rows, groups: Places, count: int
) -> list[int]:
    """Return the row nearest to each centre, the heaviest group first, then the heaviest others."""
    masses = np.bincount(groups, weights, minlength=len(centres))
    chosen = []
    for group in np.argsort(-masses, kind="stable"):
        members = np.flatnonzero(groups == group)
        if len(members):
            distances = ((rows[members] - centres[group]) ** 2).sum(axis=1)
            chosen.append(int(members[distances.argmin()]))
    by_weight = np.argsort(-weights, kind="stable")
    return [*chosen, *by_weight[~np.isin(by_weight, chosen)].tolist()][:count]
