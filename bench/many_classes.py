"""Cost of many classes compared with logistic regression, and accuracy lost by shortlists.

    python bench/many_classes.py --banks BANKS --out results/many_classes

Cost: Gaussian classes with two labels each, in CPU seconds and wall-clock seconds; and against the
number of rows, with ten classes. Accuracy and log loss: classes and labels drawn from banks, or
from several banks joined to one (`--joined A+B`), predicted in pairs of rows by the whole model,
with shortlists, and with fewer regressions, as used for very many classes with few labels
(`unitail.relational.large`). Results are stored in a file of rows, so the command can be
interrupted and resumed; rows of another default model are ignored.
"""

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from measuring.banks import chosen_banks
from measuring.page import Page
from measuring.row_files import add_rows, read_rows
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from threadpoolctl import threadpool_limits

from unitail.banks.bank import FeatureBank
from unitail.estimator.classifier import TailClassifier
from unitail.framework.statistics import MeanInterval
from unitail.learners.fingerprints import default_stamp

WIDTH, SHOTS, ASKED, CLASSES = 384, 2, 100, 10
QUERIES, MAX_QUERIES = 4, 400
"""Largest number of queries per class and in total."""
LIMITS = (
    "estimator.fitted.MAX_PAIRED_WAYS",
    "relational.large.shortlist.MAX_UNLISTED_WAYS",
    "relational.large.first_answer.SPARSE_WAYS",
    "relational.large.first_answer.SPARSE_ROWS",
)
ALWAYS, NEVER = 0, 10**9
WAYS_TO_ANSWER = {
    "whole": (NEVER, NEVER, NEVER, 6),
    "shortlists": (ALWAYS, ALWAYS, NEVER, 6),
    "fewer": (ALWAYS, ALWAYS, ALWAYS, 10**9),
}
"""Number of classes beyond which pairs end, shortlists begin and regressions get fewer."""
Array = NDArray[Any]
Row = dict[str, Any]


def gaussian(rows: int, ways: int) -> tuple[Array, Array, Array]:
    """Draw classes, labelled rows and queries."""
    rng = np.random.default_rng(0)
    means, labels = rng.normal(size=(ways, WIDTH)), np.arange(rows) % ways
    features = means[labels] + 1.5 * rng.normal(size=(rows, WIDTH))
    queries = means[np.arange(ASKED) % ways] + 1.5 * rng.normal(size=(ASKED, WIDTH))
    return features.astype(np.float32), labels, queries.astype(np.float32)


def taken(classifier: Any, features: Array, labels: Array, queries: Array) -> tuple[float, float]:  # noqa: ANN401
    """Fit and predict; return CPU seconds and wall-clock seconds."""
    cpu, clock = time.process_time(), time.perf_counter()
    classifier.fit(features, labels).predict(queries)
    return time.process_time() - cpu, time.perf_counter() - clock


def unit(rows: Array) -> Array:
    """Scale rows to length 1, as logistic regression uses them here."""
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def cost(rows: int, ways: int) -> Row:
    """Measure both; logistic regression with all threads and with one, whichever is faster."""
    features, labels, queries = gaussian(rows, ways)
    linear, each = LogisticRegression(C=100, max_iter=1000), {}
    for threads in {1, torch.get_num_threads()}:
        with threadpool_limits(threads):
            each[threads] = taken(linear, unit(features), labels, unit(queries))
    ours = TailClassifier(device="cpu", random_state=0, scale="none")
    fastest = min(each, key=lambda threads: each[threads][1])
    own = taken(ours, features, labels, queries)
    return {"linear": each[fastest], "threads": fastest, "unitail": own}


def draw(
    banks: list[FeatureBank], ways: int, shots: int, seed: int
) -> tuple[Array, Array, Array, Array]:
    """Draw rows, labels, queries and their labels from the pooled classes of all banks."""
    rng = np.random.default_rng([seed, shots])
    large = [np.flatnonzero(bank.class_sizes >= shots + QUERIES) for bank in banks]
    pairs = [(bank, each) for bank, own in zip(banks, large, strict=True) for each in own]
    learn, ask = [], []
    chosen = rng.permutation(len(pairs))[:ways]
    for bank, each in (pairs[place] for place in chosen):
        rows = rng.permutation(np.flatnonzero(bank.class_indices == each))[: shots + QUERIES]
        vectors = np.stack([np.asarray(bank.features[row], np.float32) for row in rows])
        learn.append(vectors[:shots])
        ask.append(vectors[shots:])
    count = len(chosen)
    subset = rng.permutation(count * QUERIES)[:MAX_QUERIES]
    queries, truth = np.concatenate(ask)[subset], np.repeat(np.arange(count), QUERIES)[subset]
    return np.concatenate(learn), np.repeat(np.arange(count), shots), queries, truth


def accuracies(features: Array, labels: Array, queries: Array, truth: Array) -> Row:
    """Return accuracy (%), log loss and share of changed predictions of each method."""
    answers = {}
    for name, values in WAYS_TO_ANSWER.items():
        with ExitStack() as limits:
            for limit, value in zip(LIMITS, values, strict=True):
                limits.enter_context(mock.patch(f"unitail.{limit}", value))
            max_support = None if name == "whole" else 4000
            ours = TailClassifier(
                device="cpu", random_state=0, scale="none", max_support=max_support
            )
            answers[name] = ours.fit(features, labels).predict_log_proba(queries)
    linear = make_pipeline(
        StandardScaler(with_std=False), Normalizer(), LogisticRegression(C=10, max_iter=1000)
    )
    answers["linear"] = linear.fit(features, labels).predict_log_proba(queries)
    first = {name: each.argmax(axis=1) for name, each in answers.items()}
    own = np.arange(len(truth)), truth
    return {
        "classes": int(labels.max()) + 1,
        "right": {name: float(100 * np.mean(each == truth)) for name, each in first.items()},
        "loss": {name: float(-np.mean(each[own])) for name, each in answers.items()},
        "other": {
            name: float(100 * np.mean(each != first["whole"])) for name, each in first.items()
        },
    }


def measure(args: argparse.Namespace, banks: dict[str, list[FeatureBank]]) -> Iterator[None]:
    """Measure what is not in the file of rows yet, one row at a time."""
    model = default_stamp()
    stored = {row["key"] for row in read_rows(args.out, model)}
    sizes = [(SHOTS * ways, ways) for ways in args.classes]
    sizes += [(rows, CLASSES) for rows in args.rows]
    tasks: dict[str, Any] = {}
    for repeat in range(args.repeats):
        tasks |= {f"cost {rows}x{ways} {repeat}": (cost, rows, ways) for rows, ways in sizes}
    for seed in range(max(args.draws, args.joined_draws)):
        for name, each in banks.items():
            joined = len(each) > 1
            ways = args.joined_ways if joined else args.ways
            for shots in args.shots if seed < (args.joined_draws if joined else args.draws) else ():
                task = (lambda *drawn: accuracies(*draw(*drawn)), each, ways, shots, seed)
                tasks[f"accuracy {name} {ways}x{shots} {seed}"] = task
    if any(key.startswith("cost") and key not in stored for key in tasks):
        taken(TailClassifier(device="cpu", random_state=0), *gaussian(20, 2))  # what is lazy
    for key, (work, *values) in tasks.items():
        if key not in stored:
            row = {"key": key, "model": model, **work(*values)}
            print(json.dumps(row), flush=True)
            with add_rows(args.out / "rows_many.jsonl") as file:
                file.write(json.dumps(row) + "\n")
            yield


def cost_table(page: Page, rows: list[Row], sizes: list[tuple[int, int]]) -> dict[str, list[float]]:
    """Write medians over repeats; the ratio is the median of ratios."""
    header = ["classes", "rows", "LogisticRegression, s", "unitail, s", "ratio"]
    page.table([*header, "by the clock, s", "s", "ratio"])
    medians: dict[str, list[float]] = {"LogisticRegression": [], "unitail": []}
    for count, ways in sizes:
        own = [row for row in rows if row["key"].startswith(f"cost {count}x{ways} ")]
        if not own:
            continue
        cells = []
        for clock in (0, 1):
            both = np.array([[row[name][clock] for name in ("linear", "unitail")] for row in own])
            first, second = np.median(both, axis=0)
            ratio = np.median(both[:, 1] / both[:, 0])
            cells += [f"{first:.2f}", f"{second:.2f}", f"{ratio:.1f}"]
            if clock:
                medians["LogisticRegression"].append(first)
                medians["unitail"].append(second)
        page.row(ways, f"{count:,}", *cells)
    return medians


def accuracy_table(page: Page, rows: list[Row], of: str, places: int) -> None:
    """Compare the methods on the same draws, by accuracy or log loss."""
    header = ["banks", "classes", "labels a class", "draws", "logistic regression", "whole model"]
    page.table([*header, "shortlists minus whole", "other answers", "fewer minus whole", "other"])
    tasks = dict.fromkeys(row["key"].rsplit(" ", 1)[0] for row in rows if of in row)
    together: dict[str, list[Row]] = {}
    for task in tasks:
        own = [row for row in rows if row["key"].rsplit(" ", 1)[0] == task]
        _, name, size = task.split(" ")
        together.setdefault(size, []).extend(own)
        page.row(name, *compared(own, size, of, places))
    for size, own in together.items():
        if len({row["key"].split(" ")[1] for row in own}) > 1:
            page.row("all of these", *compared(own, size, of, places))


def compared(own: list[Row], size: str, of: str, places: int) -> list[Any]:
    """Return the cells of one row of that table."""
    means = [np.mean([row[of][way] for row in own]) for way in ("linear", "whole")]
    cells = [f"{mean:.{places}f}" for mean in means]
    for way in ("shortlists", "fewer"):
        apart = np.array([row[of][way] - row[of]["whole"] for row in own])
        cells.append(f"{MeanInterval.of(apart) if len(apart) > 1 else apart[0]:.{places + 1}f}")
        cells.append(f"{np.mean([row['other'][way] for row in own]):.1f} %")
    return [own[0]["classes"], size.split("x")[1], len(own), *cells]


def plot(path: Path, panels: dict[str, tuple[list[int], dict[str, list[float]]]]) -> None:
    """Plot the cost against classes and rows."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator, StrMethodFormatter

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True)
    for axis, (name, (sizes, medians)) in zip(axes, panels.items(), strict=True):
        for learner, seconds in medians.items():
            axis.loglog(sizes[: len(seconds)], seconds, "o-", label=learner)
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axis.xaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set(xlabel=name)
        axis.grid(alpha=0.3)
        axis.legend()
    axes[0].set(ylabel="seconds, fit and 100 answers")
    figure.savefig(path, dpi=120)


def write_page(args: argparse.Namespace) -> None:
    """Write the page from the file of rows."""
    rows = read_rows(args.out, default_stamp())
    chosen = any("threads" in row for row in rows)
    alone = " (logistic regression with one where that is faster)" if chosen else ""
    page = Page(
        args.out / "README.md",
        "Many classes",
        f"A fit and {ASKED} answers, {WIDTH} columns: seconds of CPU, then of the clock with"
        f" {torch.get_num_threads()} threads at most{alone}, medians over {args.repeats} repeats or"
        f" fewer. Accuracy in % on up to {MAX_QUERIES} queries a draw; what is lost with the half"
        " width of its 95 % interval over draws.",
        BANKS=args.banks or Path("BANKS"),
    )
    if args.classes or args.rows:
        cost_pages(page, args, rows)
    if args.banks:
        page.text("Accuracy, %, with shortlists and with fewer regressions, too:")
        accuracy_table(page, rows, "right", 1)
        page.text("Log loss, alike:")
        accuracy_table(page, rows, "loss", 2)


def cost_pages(page: Page, args: argparse.Namespace, rows: list[Row]) -> None:
    """Write and plot the costs."""
    by_classes = cost_table(page, rows, [(SHOTS * ways, ways) for ways in args.classes])
    page.text(f"{CLASSES} classes, more and more rows; beyond 1,000 none are related in pairs:")
    by_rows = cost_table(page, rows, [(count, CLASSES) for count in args.rows])
    panels = {"classes, two labels each": (args.classes, by_classes)}
    panels["rows, ten classes"] = (args.rows, by_rows)
    plot(args.out / "cost.png", panels)
    page.text("![cost](cost.png)")


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--banks", type=Path)
    parser.add_argument("--only", nargs="*", default=["*"], help="patterns ENCODER/DATASET")
    parser.add_argument("--joined", nargs="*", default=[], help="ENCODER/DATASET+DATASET+...")
    parser.add_argument("--ways", type=int, default=100)
    parser.add_argument("--joined-ways", type=int, default=500)
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 2, 5])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--joined-draws", type=int, default=3)
    parser.add_argument("--classes", type=int, nargs="*", default=[20, 50, 100, 200, 500, 1000])
    parser.add_argument("--rows", type=int, nargs="*", default=[500, 2000, 8000, 32_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--seconds", type=float, default=900, help="stop after this many; run it again to resume"
    )
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    banks: dict[str, list[FeatureBank]] = {}
    if args.banks and args.only:
        banks = {name: [bank] for name, bank in chosen_banks(parser, args.banks, args.only).items()}
    if args.banks:
        for name in args.joined:
            encoder, _, sets = name.partition("/")
            own = [f"{encoder}/{each}" for each in sets.split("+")]
            banks[name] = list(chosen_banks(parser, args.banks, own).values())
    end = time.monotonic() + args.seconds
    for _ in measure(args, banks):
        if time.monotonic() > end:
            break
    write_page(args)


if __name__ == "__main__":
    main()
