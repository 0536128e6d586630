"""Time of a fit and 50 predictions, compared with scikit-learn's classifiers in one run.

    python bench/latency.py --out results/latency.md

Random Gaussian classes, 1280 wide. Learners run alternately, so that other load on the machine
affects them equally; so do other versions of this package, each in its own process (`--beside
0.3=FOLDER`, with the folder of their checkout). Medians of several calls after a warm-up; ratios
are relative to logistic regression on centred unit features and to other versions, from the same
turns: their geometric mean, with its 95 % interval. Importing is timed in fresh interpreters, after
torch and scikit-learn.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

SHAPES = ("5x1", "5x5", "20x5", "100x5")
"""Ways and shots."""
WIDTH, QUERIES, MORE = 1280, 50, 1000
OURS, USUAL = "unitail", "LogisticRegression"
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
Ask = Callable[[str], list[float]]
"""Map a shape to milliseconds of a fit with 50 predictions, and of one more prediction."""


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


def ours() -> Any:  # noqa: ANN401
    """Return a fresh classifier of whichever version is on the path."""
    from unitail import TailClassifier

    return TailClassifier(device="cpu")


LEARNERS: dict[str, Callable[[], Any]] = {
    OURS: ours,
    USUAL: lambda: make_pipeline(
        StandardScaler(with_std=False), Normalizer(), LogisticRegression(C=10, max_iter=1000)
    ),
    "NearestCentroid": NearestCentroid,
}


class Learner:
    """A learner that runs when it is its turn."""

    def __init__(self, name: str) -> None:
        self.make, self.tasks = LEARNERS[name], dict[str, Any]()

    def __call__(self, shape: str) -> list[float]:
        """Run once, after a warm-up."""
        if shape not in self.tasks:
            self.tasks[shape] = task(*map(int, shape.split("x")))
            self._time(*self.tasks[shape])
        return self._time(*self.tasks[shape])

    def _time(
        self, support: Array, labels: NDArray[np.int64], queries: Array, more: Array
    ) -> list[float]:
        start = time.perf_counter()
        fitted = self.make().fit(support, labels)
        fitted.predict(queries)
        together = time.perf_counter()
        fitted.predict(more)
        return [1e3 * (together - start), 1e3 * (time.perf_counter() - together) / MORE]


@contextmanager
def other_version(folder: Path, threads: int) -> Iterator[Ask]:
    """Start this script with another version of the package, to alternate with."""
    command = [sys.executable, __file__, "--threads", str(threads), "--answer"]
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), PYTHONPATH=str(folder / "src"))
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, text=True, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def ask(shape: str) -> list[float]:
            print(shape, file=asked, flush=True)
            return [float(each) for each in answers.readline().split()]

        yield ask


def measure(learners: dict[str, Ask], shape: str, repeats: int) -> dict[str, NDArray[np.float64]]:
    """Run learners alternately; return the times of each, (repeats, 2)."""
    turns = np.array([[ask(shape) for ask in learners.values()] for _ in range(repeats)])
    return {name: turns[:, place] for place, name in enumerate(learners)}


def ratio(times: NDArray[np.float64], others: NDArray[np.float64]) -> str:
    """Format ratios of fits and of first predictions from the same turns."""
    from unitail.framework.statistics import MeanInterval

    logarithms = MeanInterval.of(np.log(times[:, 0] / others[:, 0]))
    mean, low, high = np.exp([logarithms.mean, logarithms.low, logarithms.high])
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def import_milliseconds(repeats: int) -> list[float]:
    """Return median times to import torch, scikit-learn and unitail in a fresh interpreter."""
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
    parser.add_argument("--beside", nargs="*", default=[], help="other versions, NAME=FOLDER")
    parser.add_argument("--answer", action="store_true", help="take turns with another process")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.answer:
        answer = Learner(OURS)
        for shape in sys.stdin:
            print(*answer(shape.strip()), flush=True)
        return
    from measuring.page import Page  # with this package as it is; another version need not have it

    beside = {name: Path(folder) for name, folder in (each.split("=", 1) for each in args.beside)}
    page = Page(
        args.out,
        "Latency on a CPU",
        f"Milliseconds for a fit and {QUERIES} predictions, width {WIDTH}; median of"
        f" {args.repeats} turns; in brackets the ratio to LogisticRegression, after the slash the"
        f" time of one more prediction among {MORE}. Ratios: geometric means over turns, 95 %"
        f" intervals. {platform.processor() or platform.machine()},"
        f" {args.threads} threads, torch {torch.__version__}, scikit-learn {sklearn.__version__}.",
        **beside,
    )
    with ExitStack() as versions:
        learners: dict[str, Ask] = {name: Learner(name) for name in LEARNERS}
        for name, folder in beside.items():
            learners[name] = versions.enter_context(other_version(folder, args.threads))
        compared = [USUAL, *beside]
        page.table(["task", *learners, *(f"unitail / {name}" for name in compared)])
        for shape in args.shapes:
            times = measure(learners, shape, args.repeats)
            usual = float(np.median(times[USUAL][:, 0]))
            medians = [np.median(each, axis=0) for each in times.values()]
            cells = [f"{ms:.1f} ({ms / usual:.2f}) / {each:.3f}" for ms, each in medians]
            ratios = [ratio(times[OURS], times[name]) for name in compared]
            page.row("{}-way {}-shot".format(*shape.split("x")), *cells, *ratios)
    base, sklearn_base, own = import_milliseconds(args.imports)
    page.text(
        f"Import: torch {base:.0f} ms, scikit-learn's `BaseEstimator` {sklearn_base:.0f} ms more,"
        f" `from unitail import TailClassifier` {own:.0f} ms on top of both."
    )


if __name__ == "__main__":
    main()
