"""A benchmark: all learners on all tables with all protocols, in parts that are never lost."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.benchmark.leakage import check_not_trained_on
from unitail.benchmark.learners import Candidate
from unitail.benchmark.store import Stored, identity, part_path, read_part, write_part
from unitail.benchmark.suites import BenchTable
from unitail.errors import UserError
from unitail.evaluation.episodes import class_sizes
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.result import Evaluation
from unitail.evaluation.score import score_learners
from unitail.files import disk_errors, lock
from unitail.progress import OnProgress

PARTS_FOLDER = "parts"
LOCK_FILE = ".lock"


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """What came of one table and one protocol."""

    table: BenchTable
    protocol: EvaluationProtocol
    """As it was asked for; what the table allowed of it is in the evaluations."""
    evaluations: Mapping[str, Evaluation]
    """By the names of the learners."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BenchRun:
    """Measures what no part in `folder` has yet, and keeps each part as soon as it is done.

    A part is used again if it is about the same rows and protocol; a learner in it, if it has the
    same fingerprint. Learners in the parts that are not asked for now are kept.
    """

    candidates: Sequence[Candidate]
    tables: Sequence[BenchTable]
    protocols: Sequence[EvaluationProtocol]
    folder: Path
    device: torch.device

    def __post_init__(self) -> None:
        for candidate in self.candidates:
            if candidate.run is not None:
                check_not_trained_on(candidate.run, self.tables)
        if not self._work():
            raise UserError(
                "no data set has enough rows",
                got=", ".join(protocol.name for protocol in self.protocols),
                allowed="shots that leave a row of two classes or more for queries",
                remedy="Ask for fewer shots.",
            )

    def too_small(self) -> list[str]:
        """Name the tables that have too few rows for a protocol, and are left out of it."""
        return [
            f"{table.name} ({protocol.name})"
            for table in self.tables
            for protocol in self.protocols
            if not protocol.allowed_by(class_sizes(table.table))
        ]

    def pending(self) -> int:
        """Count the episodes that learners have still to answer."""
        return sum(
            protocol.episodes * len(self._missing(self._read(table, protocol)))
            for table, protocol in self._work()
        )

    def run(self, on_progress: OnProgress | None = None) -> list[Part]:
        """Measure what is missing and return all parts; progress is counted in answers."""
        done, total = 0, self.pending()
        parts = []
        with _alone(self.folder / PARTS_FOLDER):
            for table, protocol in self._work():
                before = done

                def tell(answered: int, asked: int, before: int = before) -> None:
                    if on_progress is not None:
                        on_progress(before + answered, total)

                done += protocol.episodes * len(self._missing(self._read(table, protocol)))
                evaluations = self._complete(table, protocol, tell)
                parts.append(Part(table=table, protocol=protocol, evaluations=evaluations))
        return parts

    def _work(self) -> list[tuple[BenchTable, EvaluationProtocol]]:
        return [
            (table, protocol)
            for table in self.tables
            for protocol in self.protocols
            if protocol.allowed_by(class_sizes(table.table))
        ]

    def _complete(
        self, table: BenchTable, protocol: EvaluationProtocol, on_progress: OnProgress
    ) -> dict[str, Evaluation]:
        """Measure the learners that a part does not have, and write it."""
        stored = self._read(table, protocol)
        while missing := self._missing(stored):
            fresh = self._measure(missing, table, protocol, on_progress)
            stored = {**_with_episodes_of(fresh, stored), **fresh}
            write_part(self._path(table, protocol), identity(table, protocol), stored)
        return {each.name: stored[each.name].evaluation for each in self.candidates}

    def _measure(
        self,
        candidates: Sequence[Candidate],
        table: BenchTable,
        protocol: EvaluationProtocol,
        on_progress: OnProgress,
    ) -> dict[str, Stored]:
        learners = {each.name: each.learner for each in candidates}
        found = score_learners(
            learners, table.table, protocol, device=self.device, on_progress=on_progress
        )
        return {each.name: Stored(each.fingerprint, found[each.name]) for each in candidates}

    def _missing(self, stored: Mapping[str, Stored]) -> list[Candidate]:
        """List the learners that a part has not, or has with another fingerprint."""
        known = {name: each.fingerprint for name, each in stored.items()}
        return [each for each in self.candidates if known.get(each.name) != each.fingerprint]

    def _read(self, table: BenchTable, protocol: EvaluationProtocol) -> dict[str, Stored]:
        return read_part(self._path(table, protocol), identity(table, protocol))

    def _path(self, table: BenchTable, protocol: EvaluationProtocol) -> Path:
        return part_path(self.folder / PARTS_FOLDER, table, protocol)


def _with_episodes_of(
    fresh: Mapping[str, Stored], stored: Mapping[str, Stored]
) -> dict[str, Stored]:
    """Keep the stored results on the episodes of the fresh ones.

    Another version of torch may draw others, which cannot stand beside them.
    """
    drawn = next((_hashes(each) for each in fresh.values() if len(_hashes(each))), None)
    return {
        name: each
        for name, each in stored.items()
        if drawn is None or not len(_hashes(each)) or np.array_equal(_hashes(each), drawn)
    }


def _hashes(stored: Stored) -> NDArray[np.uint64]:
    return stored.evaluation.scores.hashes


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other benchmarks out of the folder of the parts, and the parts out of Git."""
    path = folder / LOCK_FILE
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".gitignore").write_text("*\n")
        file = path.open("w")
    with file:
        lock(path, file.fileno())
        yield
