"""Run a benchmark: all learners on all tables and protocols, resumable after every result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.benchmark.leakage import check_not_trained_on
from unitail.benchmark.learners import BenchLearner
from unitail.benchmark.store import ResultStore, StoredEvaluation, TableResult
from unitail.benchmark.suites import BenchTable
from unitail.errors import UserError
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.result import Evaluation
from unitail.evaluation.score import score_learners
from unitail.progress import OnProgress

STORE_FOLDER = "parts"


@dataclass(frozen=True, kw_only=True, eq=False)
class BenchRun:
    """Measures what is not stored in `folder` yet, and stores each learner's result at once.

    A stored file is reused if its rows and protocol are the same, and a learner's result in it if
    the fingerprint is the same. Stored results of other learners are kept.
    """

    learners: Sequence[BenchLearner]
    tables: Sequence[BenchTable]
    protocols: Sequence[EvaluationProtocol]
    folder: Path
    device: torch.device
    shard: tuple[int, int] = (0, 1)
    """(index, count): the shard of the work to do; all shards write to the same store."""

    def __post_init__(self) -> None:
        for each in self.learners:
            record = each.record()
            if record is not None:
                check_not_trained_on(record, self.tables, name=each.name)
        if not self.work() and self.shard == (0, 1):
            raise UserError(
                "no data set has enough rows",
                got=", ".join(protocol.name for protocol in self.protocols),
                allowed="shots that leave a row of two classes or more for queries",
                remedy="Ask for fewer shots.",
            )

    def too_small(self) -> list[str]:
        """List the tables left out of a protocol because they have too few rows."""
        return [
            f"{table.name} ({protocol.name})"
            for table in self.tables
            for protocol in self.protocols
            if not table.allows(protocol)
        ]

    def notes(self) -> list[str]:
        """Return notes on tables that were left out or whose interval is not meaningful."""
        small = self.too_small()
        notes = [f"Left out because they have too few rows: {', '.join(small)}."] if small else []
        fixed = [
            f"{table.name} ({protocol.name})"
            for table in self.tables
            for protocol in self.protocols
            if table.has_one_support(protocol)
        ]
        if fixed:
            notes.append(
                "All rows are examples in every episode, so the interval does not reflect"
                f" the choice of examples: {', '.join(fixed)}."
            )
        return notes

    def pending(self) -> int:
        """Count the missing answers: episodes times learners."""
        return sum(self._pending(table, protocol) for table, protocol in self.work())

    def run(self, on_progress: OnProgress | None = None) -> list[TableResult]:
        """Measure what is missing and return all results; progress counts answers."""
        work = self.work()
        pending = [self._pending(table, protocol) for table, protocol in work]
        results = []
        with self.store.alone(self.shard):
            for (table, protocol), before in zip(work, accumulate([0, *pending]), strict=False):
                report = _counted_from(before, sum(pending), on_progress)
                evaluations = self._complete(table, protocol, report)
                results.append(TableResult(table=table, protocol=protocol, evaluations=evaluations))
        return results

    @property
    def store(self) -> ResultStore:
        """The store of the results."""
        return ResultStore(self.folder / STORE_FOLDER)

    def work(self) -> list[tuple[BenchTable, EvaluationProtocol]]:
        """List the tables and protocols of this shard."""
        index, count = self.shard
        work = [
            (table, protocol)
            for table in self.tables
            for protocol in self.protocols
            if table.allows(protocol)
        ]
        return work[index::count]

    def _pending(self, table: BenchTable, protocol: EvaluationProtocol) -> int:
        return protocol.episodes * len(self._missing(self.store.read(table, protocol)))

    def _missing(self, stored: Mapping[str, StoredEvaluation]) -> list[BenchLearner]:
        """List the learners without a stored result under their current fingerprint."""
        fingerprints = {name: each.fingerprint for name, each in stored.items()}
        return [each for each in self.learners if fingerprints.get(each.name) != each.fingerprint]

    def _complete(
        self, table: BenchTable, protocol: EvaluationProtocol, on_progress: OnProgress | None
    ) -> dict[str, Evaluation]:
        """Measure the missing learners one by one, storing each at once; return all evaluations."""
        stored, done = self.store.read(table, protocol), 0
        while missing := self._missing(stored):
            learner = missing[0]
            evaluation = score_learners(
                {learner.name: learner.learner},
                table.table,
                protocol,
                device=self.device,
                on_progress=_counted_from(done, 0, on_progress),  # `run` adds the total
            )[learner.name]
            fresh = {learner.name: StoredEvaluation(learner.fingerprint, evaluation)}
            stored = {**_on_the_same_episodes(stored, fresh), **fresh}
            self.store.write(table, protocol, stored)
            done += protocol.episodes
        return {learner.name: stored[learner.name].evaluation for learner in self.learners}


def _counted_from(before: int, total: int, on_progress: OnProgress | None) -> OnProgress | None:
    """Offset progress by the answers done before, and report the total of the whole run."""
    if on_progress is None:
        return None
    return lambda done, _: on_progress(before + done, total)


def _on_the_same_episodes(
    stored: Mapping[str, StoredEvaluation], fresh: Mapping[str, StoredEvaluation]
) -> dict[str, StoredEvaluation]:
    """Drop stored results that are not on the same episodes as the fresh ones.

    Another version of torch may draw different episodes, whose results are not comparable.
    """
    drawn = next((_hashes(each) for each in fresh.values() if len(_hashes(each))), None)
    return {
        name: each
        for name, each in stored.items()
        if drawn is None or not len(_hashes(each)) or np.array_equal(_hashes(each), drawn)
    }


def _hashes(stored: StoredEvaluation) -> NDArray[np.uint64]:
    return stored.evaluation.scores.hashes
