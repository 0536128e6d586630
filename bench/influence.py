"""Check `TailClassifier.influence` against leave-one-out, and `column_influence` against SHAP.

    python bench/influence.py --banks BANKS --only 'minilm/banking77' --out results/influence.md
    python bench/influence.py --columns --out results/column_influence.md

Rows: the ground truth is leave-one-out. Every labelled row is removed, the classifier is refitted,
and the change of the score (log p(answer) minus the mean over classes) is compared with `influence`
by Spearman's rank correlation over the rows of a support, one value per query. The baseline is
cosine similarity, positive for rows of the predicted class and negative for others. Columns: small
tables that come with scikit-learn, compared with the KernelExplainer of the package shap, with the
same labelled rows as background.
"""

import argparse
import importlib
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measuring.page import Page
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from unitail.banks.bank import FeatureBank, bank_matches, named_banks
from unitail.estimator.classifier import TailClassifier
from unitail.framework.statistics import MeanInterval

QUERIES = 5
WAYS = 5
BACKGROUND = 16
TABLES = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}
Floats = NDArray[np.float64]


def draw(bank: FeatureBank, shots: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Draw labelled rows, their labels, and queries of the same classes."""
    large = np.flatnonzero(bank.class_sizes >= shots + 1)
    rows, query_rows = [], []
    for each in rng.permutation(large)[:WAYS]:
        order = rng.permutation(np.flatnonzero(bank.class_indices == each))
        rows.append(order[:shots])
        query_rows.append(order[shots])
    features = np.asarray(bank.features[np.concatenate(rows)], dtype=np.float32)
    queries = np.asarray(bank.features[np.array(query_rows)], dtype=np.float32)
    return features, np.repeat(np.arange(len(rows)), shots), queries[:QUERIES]


def scores(log_proba: Floats, labels: NDArray[np.int64]) -> Floats:
    """Return the log-probabilities of the labels minus the mean over classes."""
    return np.asarray(log_proba[np.arange(len(labels)), labels] - log_proba.mean(axis=1))


def measure(
    features: NDArray[Any], labels: NDArray[np.int64], queries: NDArray[Any]
) -> dict[str, float]:
    """Compare the influence of each row with the change that leaving it out makes."""
    classifier = TailClassifier(device="cpu", random_state=0).fit(features, labels)
    start = time.perf_counter()
    influences = classifier.influence(queries)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    truth = np.empty_like(influences.values)
    for place in range(len(labels)):
        remaining = np.delete(np.arange(len(labels)), place)
        other = TailClassifier(device="cpu", random_state=0, scale=str(scale(classifier)))
        other.fit(features[remaining], labels[remaining])
        truth[:, place] = influences.score - scores(
            other.predict_log_proba(queries), influences.labels
        )
    leaving = time.perf_counter() - start
    centred = features - features.mean(axis=0)
    asked = queries - features.mean(axis=0)
    cosines = (asked @ centred.T) / np.outer(
        np.linalg.norm(asked, axis=1), np.linalg.norm(centred, axis=1)
    )
    signed = cosines * np.where(labels[None] == influences.labels[:, None], 1, -1)
    first = truth.argmax(axis=1)
    return {
        "influence": float(correlations(influences.values, truth).mean()),
        "signed cosines": float(correlations(signed, truth).mean()),
        "first in top 3": float(
            np.mean([f in t for f, t in zip(first, influences.top(3), strict=True)])
        ),
        "first in top 3, cosines": float(
            np.mean([f in t for f, t in zip(first, np.argsort(-signed)[:, :3], strict=True)])
        ),
        "ms a query": 1e3 * seconds / len(queries),
        "ms a query, leaving out": 1e3 * leaving / len(queries),
    }


def scale(classifier: TailClassifier) -> str:
    """Return the scale that a classifier chose, to use it for other classifiers."""
    return str(classifier.fitted_.settings.scale)


def correlations(influences: Floats, truth: Floats) -> Floats:
    """Return the rank correlation of each query."""
    return np.array([spearmanr(*pair).statistic for pair in zip(influences, truth, strict=True)])


def rows_page(args: argparse.Namespace) -> None:
    """Measure rows on banks."""
    banks = {
        name: FeatureBank.open(path)
        for name, path in named_banks(args.banks).items()
        if any(bank_matches(name, pattern) for pattern in args.only)
    }
    page = Page(
        args.out,
        "Which labelled rows an answer rests on",
        f"{WAYS} classes, {QUERIES} queries a draw, {args.draws} draws; mean with the half width of"
        " its 95 % interval over draws. Rank correlation over the labelled rows with what leaving"
        " each of them out changes; how often the row that matters most is among the first three"
        " that are named, in %.",
        BANKS=args.banks,
    )
    header = ["bank", "labels a class", "influence", "signed cosines", "first in top 3", "cosines"]
    page.table([*header, "ms a query", "leaving out, ms"])
    for name, bank in banks.items():
        for shots in args.shots:
            rngs = [np.random.default_rng([seed, shots]) for seed in range(args.draws)]
            each = [measure(*draw(bank, shots, rng)) for rng in rngs]
            page.row(name, shots, *row(each))


def row(each: Sequence[dict[str, float]]) -> list[str]:
    """Format means and intervals."""
    columns = {key: np.array([one[key] for one in each]) for key in each[0]}
    shares = [100 * columns[key] for key in ("first in top 3", "first in top 3, cosines")]
    return [
        f"{MeanInterval.of(columns['influence']):.2f}",
        f"{MeanInterval.of(columns['signed cosines']):.2f}",
        *(f"{MeanInterval.of(share):.0f}" for share in shares),
        f"{np.median(columns['ms a query']):.0f}",
        f"{np.median(columns['ms a query, leaving out']):.0f}",
    ]


def import_shap() -> Any:  # noqa: ANN401 - a module
    """Import shap, hiding the local module `coverage`, which shap would otherwise import."""
    sys.modules.setdefault("coverage", None)  # type: ignore[arg-type]
    try:
        return importlib.import_module("shap")
    except ImportError:
        sys.exit("The comparison needs shap, which no extra of unitail brings: pip install shap")


def columns_page(args: argparse.Namespace) -> None:
    """Measure column influences on tables."""
    shap = import_shap()

    page = Page(
        args.out,
        "Which columns an answer rests on",
        f"20 labels a class, {args.queries} queries a draw, {args.draws} draws; `column_influence`"
        f" beside shap {shap.__version__}'s KernelExplainer of the same score, which has"
        f" {BACKGROUND} labelled rows as background; both as they are without settings. Rank"
        " correlation over columns, and the share of queries of which both name the same column"
        " first; mean with the half width of the 95 % interval over queries; milliseconds of CPU"
        " for a query.",
    )
    page.table(["table", "columns", "rank correlation", "same first, %", "ms", "shap, ms"])
    for name in args.tables:
        features, labels = TABLES[name](return_X_y=True)
        rngs = [np.random.default_rng(seed) for seed in range(args.draws)]
        each = [compare(features, labels, args.queries, rng) for rng in rngs]
        alike, same = (np.concatenate([one[i] for one in each]) for i in (0, 1))
        page.row(
            name,
            features.shape[1],
            f"{MeanInterval.of(alike):.2f}",
            f"{MeanInterval.of(100 * same):.0f}",
            f"{1e3 * np.mean([one[2] for one in each]) / args.queries:.0f}",
            f"{1e3 * np.mean([one[3] for one in each]) / args.queries:.0f}",
        )


def compare(
    features: NDArray[Any], labels: NDArray[np.int64], count: int, rng: np.random.Generator
) -> tuple[Floats, Floats, float, float]:
    """Run both methods on the same queries; return correlations, agreement of the top, seconds."""
    shap = import_shap()

    order = rng.permutation(len(labels))
    labelled = np.concatenate([order[labels[order] == k][:20] for k in np.unique(labels)])
    queried = order[~np.isin(order, labelled)][:count]
    classifier = TailClassifier(device="cpu", random_state=0).fit(
        features[labelled], labels[labelled]
    )
    start = time.process_time()
    explanation = classifier.column_influence(features[queried])
    our_seconds = time.process_time() - start
    background = features[rng.permutation(labelled)[:BACKGROUND]]
    shap_values = np.empty_like(explanation.values)
    start = time.process_time()
    for place, (row_, label) in enumerate(zip(features[queried], explanation.labels, strict=True)):
        which = np.flatnonzero(classifier.classes_ == label)

        def score(rows: NDArray[Any], which: NDArray[np.int64] = which) -> Floats:
            return scores(classifier.predict_log_proba(rows), np.repeat(which, len(rows)))

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            explainer = shap.KernelExplainer(score, background)
            shap_values[place] = explainer.shap_values(row_, silent=True)
    own_first = explanation.values.argmax(axis=1) == shap_values.argmax(axis=1)
    return (
        correlations(explanation.values, shap_values),
        own_first,
        our_seconds,
        time.process_time() - start,
    )


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--banks", type=Path)
    parser.add_argument("--only", nargs="*", default=["*"], help="patterns ENCODER/DATASET")
    parser.add_argument("--shots", type=int, nargs="+", default=[5])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--queries", type=int, default=QUERIES, help="of a table, in a draw")
    parser.add_argument("--columns", action="store_true", help="columns of tables, beside shap")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if args.columns:
        columns_page(args)
    else:
        rows_page(args)


if __name__ == "__main__":
    main()
