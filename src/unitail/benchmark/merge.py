"""Merge results measured on other machines, after checking that the episodes are the same."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unitail.benchmark.run import STORE_FOLDER, BenchRun
from unitail.benchmark.store import ResultStore, StoredEvaluation
from unitail.benchmark.suites import BenchTable
from unitail.errors import UserError
from unitail.evaluation.episodes import FixedEpisodes
from unitail.evaluation.protocol import EvaluationProtocol

REMEDY = "Measure again there with the same banks, suite and version of torch, or leave it out."


def merge_results(run: BenchRun, folders: Sequence[Path]) -> int:
    """Merge results of the same tables and protocols from other folders; return how many files.

    Learners already present stay unchanged. The hashes of the episodes must match those that this
    machine draws; otherwise the results are not comparable, and are refused.
    """
    merged = 0
    for folder in folders:
        other = ResultStore(folder / STORE_FOLDER)
        shared = [
            (table, protocol)
            for table, protocol in run.work()
            if other.path(table, protocol).exists()
        ]
        if not shared:
            raise UserError(
                f"{folder} holds no results of this benchmark",
                got="no file of the same data sets and protocols",
                allowed=f"a folder of results with {STORE_FOLDER}/ in it",
                remedy="Name the --out folder of the same suite, measured elsewhere.",
            )
        with run.store.alone():
            for table, protocol in shared:
                _merge_file(run.store, other, table, protocol)
        merged += len(shared)
    return merged


def _merge_file(
    own: ResultStore, other: ResultStore, table: BenchTable, protocol: EvaluationProtocol
) -> None:
    theirs = other.read(table, protocol)
    if not theirs:
        raise UserError(
            f"results in {other.path(table, protocol)} do not belong to this benchmark",
            got="other rows, classes or settings",
            allowed=f"{table.name}, {protocol.name}, of the same bank",
            remedy=REMEDY,
        )
    _check_hashes(theirs, table, protocol, other.folder)
    mine = own.read(table, protocol)
    own.write(table, protocol, {**theirs, **mine})


def _check_hashes(
    theirs: dict[str, StoredEvaluation],
    table: BenchTable,
    protocol: EvaluationProtocol,
    folder: Path,
) -> None:
    """Check that all learners answered the same episodes, and that they match those drawn here."""
    answered = {
        name: each.evaluation.scores.hashes
        for name, each in theirs.items()
        if len(each.evaluation.scores.hashes)
    }
    drawn = FixedEpisodes.of(table.table, protocol).batch(0).hashes if answered else np.array([])
    first = next(iter(answered.values()), drawn)
    for name, hashes in answered.items():
        if not np.array_equal(hashes, first) or not np.array_equal(hashes[: len(drawn)], drawn):
            raise UserError(
                f"{name} in {folder} answered other episodes of {table.name} than are drawn here",
                got=f"hash {hashes[0]:016x}",
                allowed=f"{drawn[0]:016x}",
                remedy=REMEDY,
            )
