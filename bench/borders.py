"""Measure how predictions change at the limits of large supports, compared with one more row.

    python bench/borders.py --out results/borders.md

Synthetic data: normal classes whose means are some standard deviations apart. Limits are lowered to
`--rows`, so that the same rows can be predicted on both sides: in pairs by the whole model (A), and
like supports beyond `max_support` (B); with inducing points and neighbours for Gaussian kernels,
like supports beyond 4,096 rows (C). Many classes: the whole model, with shortlists (D), and with
fewer regressions, as used for very many classes with few labels (E), though in fewer columns here.
All are compared with the change that one more labelled row makes within the whole model.
"""

import argparse
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from measuring.page import Page
from numpy.typing import NDArray

from unitail.estimator.classifier import TailClassifier
from unitail.framework.statistics import MeanInterval

WIDTH, CLASSES, ASKED = 20, 5, 200
Array = NDArray[Any]
WITHIN: Mapping[str, int] = {}
LARGE = "relational.large"
GAUSSIANS = f"{LARGE}.gaussians"
INDUCING = {f"{GAUSSIANS}.MAX_SOLVED": 0, f"{GAUSSIANS}.MAX_INDUCING": 2, f"{GAUSSIANS}.NEAR": 128}
"""Half of the rows are inducing points, the share that 4,097 rows have."""
SHORT = {"estimator.fitted.MAX_PAIRED_WAYS": 2, f"{LARGE}.shortlist.MAX_UNLISTED_WAYS": 2}
FEWER = {**SHORT, f"{LARGE}.first_answer.SPARSE_WAYS": 2, f"{LARGE}.first_answer.SPARSE_ROWS": 100}


@contextmanager
def limits(values: Mapping[str, int]) -> Iterator[None]:
    """Override limits of the large supports within a context."""
    with ExitStack() as stack:
        for name, value in values.items():
            stack.enter_context(mock.patch(f"unitail.{name}", value))
        yield


def draw(rows: int, ways: int, gap: float, seed: int) -> tuple[Array, Array, Array]:
    """Draw rows, labels and queries; the class means are about `gap` apart."""
    rng = np.random.default_rng([seed, rows, ways])
    means = rng.normal(size=(ways, WIDTH)) * gap / np.sqrt(2 * WIDTH)
    labels = np.arange(rows) % ways
    queries = means[np.arange(ASKED) % ways] + rng.normal(size=(ASKED, WIDTH))
    return means[labels] + rng.normal(size=(rows, WIDTH)), labels, queries


def answer(
    rows: Array, labels: Array, queries: Array, max_support: int | None, values: Mapping[str, int]
) -> Array:
    """Fit and predict under the given limits."""
    with limits(values):
        classifier = TailClassifier(
            max_support=max_support,
            random_state=0,
            scale="none",
            device="cpu",
            visibility="isolated",
        )
        return np.asarray(classifier.fit(rows, labels).predict_proba(queries))


def measure(rows: int, ways: int, gap: float, seed: int) -> dict[str, tuple[Array, Array]]:
    """Return pairs of predictions for each comparison."""
    features, labels, queries = draw(rows + 1, ways, gap, seed)
    reference = answer(features, labels, queries, None, WITHIN)
    less = answer(features[:-1], labels[:-1], queries, None, WITHIN)
    beyond = answer(features, labels, queries, ways, WITHIN)
    inducing = {**INDUCING, f"{GAUSSIANS}.MAX_INDUCING": rows // 2}
    sparse = answer(features, labels, queries, ways, inducing)
    order = np.random.default_rng(seed).permutation(rows + 1)
    shuffled = answer(features[order], labels[order], queries, ways, inducing)
    return {
        "one row more, in pairs": (less, reference),
        "in pairs, and beyond max_support": (reference, beyond),
        "the same, with inducing points": (reference, sparse),
        "another order, with inducing points": (sparse, shuffled),
    }


def many(ways: int, gap: float, seed: int) -> dict[str, tuple[Array, Array]]:
    """Return pairs of predictions for many classes with two labels each."""
    features, labels, queries = draw(2 * ways + 1, ways, gap, seed)
    reference = answer(features, labels, queries, None, WITHIN)
    less = answer(features[:-1], labels[:-1], queries, None, WITHIN)
    short, fewer = (answer(features, labels, queries, 4000, each) for each in (SHORT, FEWER))
    return {
        "one row more, in pairs": (less, reference),
        "in pairs, and shortlists": (reference, short),
        "shortlists, and fewer regressions": (short, fewer),
    }


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--ways", type=int, default=100, help="of the task of many classes")
    parser.add_argument("--gaps", type=float, nargs="+", default=[1.4, 2.8, 5.7])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    page = Page(
        args.out,
        "Borders of large supports",
        f"{CLASSES} normal classes in {WIDTH} columns, {args.rows} labelled rows, limits set to"
        f" that; {args.ways} classes of two labels; {ASKED} queries. How far probabilities differ:"
        f" on average and at most over queries and classes, and the share of most probable classes"
        f" that change; mean over {args.draws} draws with the half width of its 95 % interval.",
    )
    page.table(["means apart", "classes", "between", "mean", "at most", "other class, %"])
    for gap in args.gaps:
        rows = [measure(args.rows, CLASSES, gap, seed) for seed in range(args.draws)]
        classes = [many(args.ways, gap, seed) for seed in range(args.draws)]
        for ways, each in ((CLASSES, rows), (args.ways, classes)):
            for name in each[0]:
                apart = [np.abs(one[name][0] - one[name][1]) for one in each]
                turned = [
                    100 * np.mean(one[name][0].argmax(1) != one[name][1].argmax(1)) for one in each
                ]
                page.row(
                    gap,
                    ways,
                    name,
                    f"{MeanInterval.of([float(one.mean()) for one in apart]):.5f}",
                    f"{MeanInterval.of([float(one.max()) for one in apart]):.4f}",
                    f"{MeanInterval.of(turned):.1f}",
                )


if __name__ == "__main__":
    main()
