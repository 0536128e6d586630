"""Many classes: what they cost beside logistic regression, and what shortlists beyond 100 lose.

    python bench/many_classes.py --banks BANKS --out results/many_classes

Cost: Gaussian classes, two labels of each, in seconds of CPU, which do not depend on what else the
machine does; and against rows, ten classes. Accuracy: classes and labels drawn from banks, answered
in pairs of rows by the whole model, and as more than 100 classes are, and more than 300 with few
labels (`unitail.relational.large`).
"""

import argparse
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from measuring import Page
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from unitail.banks.bank import FeatureBank, bank_matches, named_banks
from unitail.estimator.classifier import TailClassifier
from unitail.framework.statistics import MeanInterval

WIDTH, SHOTS, ASKED, CLASSES = 384, 2, 100, 10
QUERIES = 4
"""Of each class."""
LARGE = "unitail.relational.large"
Array = NDArray[Any]


def gaussian(rows: int, ways: int) -> tuple[Array, Array, Array]:
    """Draw classes, labelled rows and queries."""
    rng = np.random.default_rng(0)
    means, labels = rng.normal(size=(ways, WIDTH)), np.arange(rows) % ways
    features = means[labels] + 1.5 * rng.normal(size=(rows, WIDTH))
    queries = means[np.arange(ASKED) % ways] + 1.5 * rng.normal(size=(ASKED, WIDTH))
    return features.astype(np.float32), labels, queries.astype(np.float32)


def cpu_seconds(classifier: Any, features: Array, labels: Array, queries: Array) -> float:  # noqa: ANN401
    """Fit and predict."""
    start = time.process_time()
    classifier.fit(features, labels).predict(queries)
    return time.process_time() - start


def unit(rows: Array) -> Array:
    """Bring rows to length 1, as logistic regression has them here."""
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def cost(page: Page, name: str, sizes: list[tuple[int, int]]) -> dict[str, list[float]]:
    """Measure both for sizes (rows, classes)."""
    page.table([name, "rows", "LogisticRegression, s", "unitail, s", "ratio"])
    warm = gaussian(20, 2)
    cpu_seconds(TailClassifier(device="cpu", random_state=0), *warm)
    taken: dict[str, list[float]] = {"LogisticRegression": [], "unitail": []}
    for rows, ways in sizes:
        features, labels, queries = gaussian(rows, ways)
        linear = LogisticRegression(C=100, max_iter=1000)
        first = cpu_seconds(linear, unit(features), labels, unit(queries))
        ours = TailClassifier(device="cpu", random_state=0, scale="none")
        second = cpu_seconds(ours, features, labels, queries)
        taken["LogisticRegression"].append(first)
        taken["unitail"].append(second)
        page.row(ways, f"{rows:,}", f"{first:.2f}", f"{second:.2f}", f"{second / first:.1f}")
    return taken


def accuracy(bank: FeatureBank, ways: int, shots: int, seed: int) -> tuple[float, ...]:
    """Return the accuracy, in %, of the whole model, and as of more than 100 and 300 classes."""
    rng = np.random.default_rng([seed, shots])
    large = np.flatnonzero(bank.class_sizes >= shots + QUERIES)
    known, asked = [], []
    for each in rng.permutation(large)[:ways]:
        rows = rng.permutation(np.flatnonzero(bank.class_indices == each))
        known.append(rows[:shots])
        asked.append(rows[shots : shots + QUERIES])
    learn, ask = np.concatenate(known), np.concatenate(asked)
    features, labels = np.asarray(bank.features[learn], np.float32), bank.class_indices[learn]
    queries, truth = np.asarray(bank.features[ask], np.float32), bank.class_indices[ask]

    def right(many: int, few: int) -> float:
        limits = (
            "unitail.relational.large.shortlist.MANY_WAYS",
            "unitail.relational.large.first_answer.FEW_WAYS",
        )
        with mock.patch(limits[0], many), mock.patch(limits[1], few):
            classifier = TailClassifier(device="cpu", random_state=0, scale="none")
            answers = classifier.fit(features, labels).predict(queries)
        return float(100 * np.mean(answers == truth))

    return right(10**9, 10**9), right(0, 10**9), right(0, 0)


def plot(path: Path, panels: dict[str, tuple[list[int], dict[str, list[float]]]]) -> None:
    """Draw the cost against classes and rows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, len(panels))
    for axis, (name, (sizes, taken)) in zip(axes, panels.items(), strict=True):
        for learner, seconds in taken.items():
            axis.loglog(sizes, seconds, "o-", label=learner)
        axis.set(xlabel=name, ylabel="seconds of CPU, fit and 100 answers")
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(path, dpi=120)


def accuracy_table(page: Page, args: argparse.Namespace) -> None:
    """Compare both ways on the same draws."""
    header = ["bank", "classes", "labels a class", "whole", "shortlists", "difference"]
    page.table([*header, "and fewer regressions", "difference"])
    for name, path in named_banks(args.banks).items():
        if not any(bank_matches(name, pattern) for pattern in args.only):
            continue
        bank = FeatureBank.open(path)
        for shots in args.shots:
            pairs = [accuracy(bank, args.ways, shots, seed) for seed in range(args.draws)]
            whole, *short = (np.array(each) for each in zip(*pairs, strict=True))
            cells = [f"{np.mean(whole):.1f}"]
            for each in short:
                cells += [f"{np.mean(each):.1f}", f"{MeanInterval.of(each - whole):.2f}"]
            page.row(name, args.ways, shots, *cells)


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--banks", type=Path)
    parser.add_argument("--only", nargs="*", default=["*"], help="patterns ENCODER/DATASET")
    parser.add_argument("--ways", type=int, default=100)
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 2, 5])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--classes", type=int, nargs="+", default=[50, 100, 200, 500, 1000])
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 2000, 8000, 32_000])
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    page = Page(
        args.out / "README.md",
        "Many classes",
        f"Seconds of CPU for a fit and {ASKED} answers, {WIDTH} columns; accuracy in % on {QUERIES}"
        f" queries of each class, mean over {args.draws} draws, difference with the half width of"
        " its 95 % interval.",
        BANKS=args.banks or Path("BANKS"),
    )
    by_classes = cost(page, "classes", [(SHOTS * ways, ways) for ways in args.classes])
    page.text(f"{CLASSES} classes, more and more rows; beyond 4,000 none are related in pairs:")
    by_rows = cost(page, "classes", [(rows, CLASSES) for rows in args.rows])
    panels = {"classes, two labels each": (args.classes, by_classes)}
    panels["rows, ten classes"] = (args.rows, by_rows)
    plot(args.out / "cost.png", panels)
    page.text("![cost](cost.png)")
    if args.banks:
        page.text("What shortlists (beyond 100 classes) lose, and fewer regressions (beyond 300):")
        accuracy_table(page, args)


if __name__ == "__main__":
    main()
