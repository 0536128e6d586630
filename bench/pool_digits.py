"""Effect of a pool of unlabelled rows, compared with isolated and joint predictions.

    python bench/pool_digits.py --out results/pool.md

scikit-learn's digits: some labelled rows of each class, 100 queries, and a pool of other rows from
the same distribution as the queries. Nothing was chosen or trained on them.
"""

import argparse
from pathlib import Path

import numpy as np
from measuring.page import Page
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from unitail.estimator.classifier import TailClassifier
from unitail.framework.statistics import MeanInterval

QUERIES = 100
POOLS = (100, 800)
ISOLATED = "isolated"
Scores = dict[str, float]


def measure(
    features: NDArray[np.float64], labels: NDArray[np.int64], shots: int, seed: int
) -> Scores:
    """Return the accuracy of each method, in %."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    labelled = np.concatenate([order[labels[order] == k][:shots] for k in np.unique(labels)])
    unlabelled = rng.permutation(np.setdiff1d(order, labelled))
    queries, pool = unlabelled[:QUERIES], unlabelled[QUERIES:]

    def accuracy(visibility: str, rows: int = 0) -> float:
        classifier = TailClassifier(visibility=visibility, device="cpu", random_state=0)
        options = {"pool": features[pool[:rows]]} if rows else {}
        classifier.fit(features[labelled], labels[labelled], **options)
        return float(100 * np.mean(classifier.predict(features[queries]) == labels[queries]))

    return {
        ISOLATED: accuracy("isolated"),
        **{f"pool of {rows}": accuracy("isolated", rows) for rows in POOLS},
        "joint": accuracy("joint"),
    }


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    features, labels = load_digits(return_X_y=True)
    page = Page(
        args.out,
        "A pool of unlabelled rows",
        f"Digits, 10 classes, {QUERIES} queries, {args.draws} draws of rows; accuracy in % and the"
        " paired difference to isolated answers, mean ± half width of the 95 % interval over draws."
        " Only joint answers depend on what else is asked.",
    )
    page.table(["labels a class", "answers", "accuracy", "minus isolated"])
    for shots in args.shots:
        scores = [measure(features, labels, shots, seed) for seed in range(args.draws)]
        for way in scores[0]:
            own = [each[way] for each in scores]
            gains = [each[way] - each[ISOLATED] for each in scores]
            page.row(shots, way, f"{MeanInterval.of(own):.1f}", f"{MeanInterval.of(gains):.1f}")


if __name__ == "__main__":
    main()
