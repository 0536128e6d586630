"""How long a fit and 50 predictions take, beside scikit-learn's classifiers, in one run.

    python bench/latency.py --out results/latency.md

Random Gaussian classes, 1280 wide. Median of several calls after a warm-up; ratios are to logistic
regression on centred unit features. Importing is timed in fresh interpreters, after torch and
scikit-learn.
"""

import argparse
import functools
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from measuring import Page, seconds
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from unitail.estimator.classifier import TailClassifier

SHAPES = ("5x1", "5x5", "20x5", "100x5")
"""Ways and shots."""
WIDTH, QUERIES, MORE = 1280, 50, 1000
IMPORTS = """
from time import perf_counter
start = perf_counter()
import torch
after_torch = perf_counter()
import sklearn.base
after_sklearn = perf_counter()
from unitail import TailClassifier
print(after_torch - start, after_sklearn - after_torch, perf_counter() - after_sklearn)
"""
Array = NDArray[np.float32]


def task(ways: int, shots: int, seed: int = 0) -> tuple[Array, NDArray[np.int64], Array, Array]:
    """Return a support, its labels, 50 queries and many more."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(ways, WIDTH))
    labels = np.repeat(np.arange(ways), shots)

    def noisy(classes: NDArray[np.int64]) -> Array:
        noise = 3 * rng.normal(size=(len(classes), WIDTH))
        return (means[classes] + noise).astype(np.float32)

    asked = rng.integers(ways, size=QUERIES + MORE)
    queries = noisy(asked)
    return noisy(labels), labels, queries[:QUERIES], queries[QUERIES:]


def learners() -> dict[str, Callable[[], Any]]:
    """Return fresh classifiers by name."""
    return {
        "unitail": lambda: TailClassifier(device="cpu"),
        "LogisticRegression": lambda: make_pipeline(
            StandardScaler(with_std=False), Normalizer(), LogisticRegression(C=10, max_iter=1000)
        ),
        "NearestCentroid": NearestCentroid,
    }


def measure(ways: int, shots: int, repeats: int) -> dict[str, tuple[float, float]]:
    """Return milliseconds of each learner: fit and 50 answers, and one more answer among many."""
    support, labels, queries, more = task(ways, shots)
    times = {}
    for name, make in learners().items():

        def work(make: Callable[[], Any] = make) -> object:
            return make().fit(support, labels).predict(queries)

        fitted = make().fit(support, labels)
        together = seconds(work, repeats)
        each = seconds(functools.partial(fitted.predict, more), repeats) / MORE
        times[name] = (1e3 * together, 1e3 * each)
    return times


def import_milliseconds(repeats: int) -> list[float]:
    """Return the median times to import torch, scikit-learn, then us, in a fresh interpreter."""
    runs = [
        subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
        for _ in range(repeats)
    ]
    times = [[1e3 * float(each) for each in run.stdout.split()] for run in runs]
    return [statistics.median(each) for each in zip(*times, strict=True)]


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, help="of tasks, WAYSxSHOTS")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--imports", type=int, default=5, help="how often imports are timed")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    page = Page(
        args.out,
        "Latency on a CPU",
        f"Milliseconds for a fit and {QUERIES} predictions, width {WIDTH}; median of"
        f" {args.repeats}; in brackets the ratio to LogisticRegression, after the slash the time"
        f" of one more prediction among {MORE}. {platform.processor() or platform.machine()},"
        f" {args.threads} threads, torch {torch.__version__}, scikit-learn {sklearn.__version__}.",
    )
    page.table(["task", *learners()])
    for ways, shots in (map(int, shape.split("x")) for shape in args.shapes):
        times = measure(ways, shots, args.repeats)
        usual = times["LogisticRegression"][0]
        cells = [f"{ms:.1f} ({ms / usual:.2f}) / {each:.3f}" for ms, each in times.values()]
        page.row(f"{ways}-way {shots}-shot", *cells)
    base, sklearn_base, ours = import_milliseconds(args.imports)
    page.text(
        f"Import: torch {base:.0f} ms, scikit-learn's `BaseEstimator` {sklearn_base:.0f} ms more,"
        f" `from unitail import TailClassifier` {ours:.0f} ms on top of both."
    )


if __name__ == "__main__":
    main()
