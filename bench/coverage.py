"""Coverage and size of TailClassifier's prediction sets, and quality of its novelty scores.

    python bench/coverage.py --banks BANKS --out results/coverage.md

Sets: 5-way episodes; the share of queries whose true class is in the set, next to the requested
coverage, and the mean size of a set. Novelty: the support has 5 classes, and queries come from
these and 5 others (or fewer, in data sets with fewer than ten classes); the area under the ROC
curve of each episode, with the highest probability as the baseline score.
"""

import argparse
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from multiprocessing.pool import Pool
from pathlib import Path

import numpy as np
import torch
from measuring.banks import chosen_tables
from measuring.page import Page
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from unitail.benchmark.suites import BenchTable
from unitail.estimator.classifier import TailClassifier
from unitail.evaluation.episodes import FixedEpisodes
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.framework.statistics import MeanInterval
from unitail.wording import markdown_table

COVERAGES = (0.8, 0.9, 0.95)
SET_SHOTS, NOVELTY_SHOTS = (2, 5, 10), (1, 5)
WAYS, QUERIES = 5, 10
TELLERS = ("novelty", "highest probability")
ALL = "all data sets"
Array = NDArray[np.float64]
Values = dict[BenchTable, dict[str, Array]]
"""Values of each episode, by data set and measure."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Examples of one episode; classes from `known` on are not in the support."""

    features: NDArray[np.float32]
    classes: NDArray[np.int64]
    queries: NDArray[np.float32]
    truth: NDArray[np.int64]
    known: int

    def fitted(self) -> TailClassifier:
        """Fit on the known classes."""
        shown = self.classes < self.known
        classifier = TailClassifier(device="cpu", random_state=0)
        return classifier.fit(self.features[shown], self.classes[shown])


@dataclass(frozen=True)
class Kind:
    """A kind of measurement."""

    name: str
    shots: int
    ways: int
    """Number of classes in an episode, known and novel, if the data set has that many."""
    measure: Callable[[Rows], Mapping[str, float]]

    def known(self, ways: int) -> int:
        """Return how many of an episode's classes are known; at least one is novel."""
        return ways if self.ways == WAYS else min(WAYS, ways - 1)

    def episodes(self, of: BenchTable, count: int) -> FixedEpisodes | None:
        """Return the episodes of a data set; None if it has too few classes or rows."""
        protocol = EvaluationProtocol(
            ways=self.ways, shots=self.shots, queries=QUERIES, episodes=count
        )
        if not of.allows(protocol):
            return None
        episodes = FixedEpisodes.of(of.table, protocol)
        return episodes if self.known(episodes.protocol.ways) >= 2 else None


def set_measures(rows: Rows) -> dict[str, float]:
    """Measure the prediction sets of one episode."""
    classifier = rows.fitted()
    measures = {}
    for asked in COVERAGES:
        sets = classifier.predict_set(rows.queries, coverage=asked)
        measures[f"covered {asked}"] = 100 * float(sets[np.arange(len(sets)), rows.truth].mean())
        measures[f"size {asked}"] = float(sets.sum(axis=1).mean())
    return measures


def novelty_measures(rows: Rows) -> dict[str, float]:
    """Measure how well novel queries of one episode are detected."""
    classifier, novel = rows.fitted(), rows.truth >= rows.known
    doubt = -classifier.predict_proba(rows.queries).max(axis=1)
    return {
        TELLERS[0]: float(roc_auc_score(novel, classifier.novelty(rows.queries))),
        TELLERS[1]: float(roc_auc_score(novel, doubt)),
    }


SETS = [Kind("sets", shots, WAYS, set_measures) for shots in SET_SHOTS]
NOVELTY = [Kind("novelty", shots, 2 * WAYS, novelty_measures) for shots in NOVELTY_SHOTS]


def each_episode(kind: Kind, episodes: FixedEpisodes) -> Iterator[Rows]:
    """Split batches into episodes."""
    known = kind.known(episodes.protocol.ways)
    for batch in episodes.batches():
        support, query = batch.episode.support, batch.episode.query
        assert query.class_indices is not None, "test episodes have labelled queries"
        parts = (support.features, support.class_indices, query.features, query.class_indices)
        for shown, classes, queries, truth in zip(*(part.numpy() for part in parts), strict=True):
            yield Rows(shown, classes, queries, truth, known)


def measure_one(kind: Kind, count: int, each: BenchTable) -> dict[str, Array]:
    """Measure a data set; an empty dictionary if it has too few classes or rows."""
    torch.set_num_threads(1)  # the matrices are small
    episodes = kind.episodes(each, count)
    if episodes is None:
        return {}
    start = time.process_time()
    values = [kind.measure(rows) for rows in each_episode(kind, episodes)]
    spent = (time.process_time() - start) / len(values)
    what = f"{kind.name}, {kind.shots}-shot, {each.name}"
    print(f"{what}: {1000 * spent:.0f} ms an episode", flush=True)
    return {name: np.array([value[name] for value in values]) for name in values[0]}


def measure(kind: Kind, tables: Sequence[BenchTable], count: int, workers: Pool | None) -> Values:
    """Measure all data sets that have enough classes and rows."""
    work = partial(measure_one, kind, count)
    results = workers.map(work, tables, chunksize=1) if workers else list(map(work, tables))
    return {each: values for each, values in zip(tables, results, strict=True) if values}


def mean(results: Values, name: str, group: str, digits: int) -> str:
    """Average a measure over the data sets of a group, with an interval over episodes.

    Its half width is that of a mean of independent means, the root of the sum of the squares.
    """
    intervals = [
        MeanInterval.of(each[name]) for which, each in results.items() if _in(which, group)
    ]
    if not intervals:
        return "none"
    spread = np.sqrt(sum(each.half_width**2 for each in intervals)) / len(intervals)
    return f"{np.mean([each.mean for each in intervals]):.{digits}f} ± {spread:.{digits}f}"


def names_of(measured: Mapping[int, Values]) -> tuple[list[str], list[BenchTable]]:
    """Return the groups (all data sets first) and the data sets."""
    tables = dict.fromkeys(each for results in measured.values() for each in results)
    return [ALL, *dict.fromkeys(each.group for each in tables)], list(tables)


def set_tables(measured: Mapping[int, Values]) -> list[str]:
    """Write the tables on prediction sets: groups, then data sets."""
    groups, tables = names_of(measured)
    shapes = [(shots, coverage) for shots in measured for coverage in COVERAGES]
    rows = [
        [
            f"{shots}, {coverage:.0%}",
            *(set_cell(measured[shots], coverage, group) for group in groups),
        ]
        for shots, coverage in shapes
    ]
    own = [
        [each.name, *(_own_cell(measured[shots], each, coverage) for shots, coverage in shapes)]
        for each in tables
    ]
    return [
        "## Sets",
        "Covered in %; size of a set.",
        markdown_table(["shots, asked for", *groups], rows),
        "The same for each data set:",
        markdown_table(
            ["data set", *(f"{shots}-shot {coverage:.0%}" for shots, coverage in shapes)], own
        ),
    ]


def set_cell(results: Values, coverage: float, group: str) -> str:
    """Format the coverage and size of sets in a group."""
    covered = mean(results, f"covered {coverage}", group, 1)
    return f"{covered}; {mean(results, f'size {coverage}', group, 2)}"


def novelty_tables(measured: Mapping[int, Values]) -> list[str]:
    """Write the tables on novelty: groups, then data sets."""
    groups, tables = names_of(measured)
    rows = [
        [f"{shots}-shot, {name}", *(mean(results, name, group, 3) for group in groups)]
        for shots, results in measured.items()
        for name in TELLERS
    ]
    own = [
        [
            each.name,
            *(mean(_only(results, each), TELLERS[0], ALL, 3) for results in measured.values()),
        ]
        for each in tables
    ]
    return [
        "## Novelty: area under the ROC curve",
        markdown_table(["", *groups], rows),
        markdown_table([TELLERS[0], *(f"{shots}-shot" for shots in measured)], own),
    ]


def _only(results: Values, which: BenchTable) -> Values:
    return {each: values for each, values in results.items() if each is which}


def _own_cell(results: Values, each: BenchTable, coverage: float) -> str:
    if each not in results:
        return "none"
    own = results[each]
    return f"{own[f'covered {coverage}'].mean():.1f}; {own[f'size {coverage}'].mean():.2f}"


def _in(each: BenchTable, group: str) -> bool:
    return group in (ALL, each.group)


def main() -> None:
    """Measure and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--banks", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=["*"], help="patterns ENCODER/DATASET")
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    tables = chosen_tables(parser, args.banks, args.only)
    several = multiprocessing.get_context("spawn").Pool(args.workers) if args.workers > 1 else None
    with several or nullcontext() as pool:
        sets = {kind.shots: measure(kind, tables, args.episodes, pool) for kind in SETS}
        novelty = {kind.shots: measure(kind, tables, args.episodes, pool) for kind in NOVELTY}
    page = Page(
        args.out,
        "Coverage and novelty",
        f"{args.episodes} episodes of each of {len(tables)} feature tables, {QUERIES} queries of a"
        " class; mean ± half width of the 95 % interval, which is about episodes. All data sets"
        " of a group weigh the same.",
    )
    page.text(*set_tables(sets), *novelty_tables(novelty))


if __name__ == "__main__":
    main()
