from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from helpers.known_learners import SolvesNothing, SureOfFirst, write_blobs
from unitail.benchmark.store import ResultStore, StoredEvaluation
from unitail.benchmark.suites import BenchTable
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.result import Scores
from unitail.evaluation.score import score_learners

PROTOCOL = EvaluationProtocol(shots=2, queries=3, episodes=7)


def _table(root: Path, **changes: int) -> BenchTable:
    bank = write_blobs(root, **changes)
    return BenchTable(group="blobs", bank=bank, table=bank)


def _store(table: BenchTable, folder: Path) -> tuple[ResultStore, dict[str, StoredEvaluation]]:
    learners = {"sure": SureOfFirst(), "cannot": SolvesNothing()}
    evaluations = score_learners(learners, table.table, PROTOCOL)
    stored = {
        name: StoredEvaluation(f"print of {name}", each) for name, each in evaluations.items()
    }
    store = ResultStore(folder)
    store.write(table, PROTOCOL, stored)
    return store, stored


def test_what_is_written_is_read(tmp_path: Path) -> None:
    table = _table(tmp_path)
    store, written = _store(table, tmp_path / "parts")
    read = store.read(table, PROTOCOL)
    assert list(read) == ["sure", "cannot"]
    for name, stored in read.items():
        mine, other = stored.evaluation, written[name].evaluation
        assert stored.fingerprint == f"print of {name}"
        assert (mine.outcome, mine.reason, mine.device) == (other.outcome, other.reason, "cpu")
        assert (mine.source, mine.protocol) == (other.source, other.protocol)
        assert np.array_equal(mine.calibration.counts, other.calibration.counts)
        for each in fields(Scores):
            first, second = getattr(mine.scores, each.name), getattr(other.scores, each.name)
            assert np.array_equal(first, second, equal_nan=True)
            assert first.dtype == second.dtype


def test_a_file_about_something_else_is_not_used(tmp_path: Path) -> None:
    table = _table(tmp_path / "a")
    store, _ = _store(table, tmp_path)
    changed, other = _table(tmp_path / "b", seed=1), replace(PROTOCOL, concentration=2.0)
    assert store.path(changed, PROTOCOL) == store.path(table, other) == store.path(table, PROTOCOL)
    assert store.read(changed, PROTOCOL) == {}
    assert store.read(table, other) == {}
    assert store.read(table, PROTOCOL) != {}


@pytest.mark.parametrize("content", [b"", b"PAR1 something else"])
def test_a_file_that_cannot_be_read_is_not_used(tmp_path: Path, content: bytes) -> None:
    table, store = _table(tmp_path), ResultStore(tmp_path)
    assert store.read(table, PROTOCOL) == {}
    store.path(table, PROTOCOL).write_bytes(content)
    assert store.read(table, PROTOCOL) == {}


def test_every_protocol_has_a_file_of_its_own(tmp_path: Path) -> None:
    table = _table(tmp_path)
    changes = [{}, {"shots": 1}, {"ways": 6}, {"queries": 4}, {"episodes": 8}, {"seed": 1}]
    paths = {ResultStore(tmp_path).path(table, replace(PROTOCOL, **each)) for each in changes}
    assert len(paths) == len(changes)
    assert tmp_path / "toy_blobs_5-way_2-shot_3_queries_7_episodes_seed_0.parquet" in paths
