from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from helpers.known_learners import SolvesNothing, SureOfFirst, write_blobs
from unitail.benchmark.store import Stored, identity, part_path, read_part, write_part
from unitail.benchmark.suites import BenchTable
from unitail.evaluation.protocol import EvaluationProtocol
from unitail.evaluation.result import Scores
from unitail.evaluation.score import score_learners

PROTOCOL = EvaluationProtocol(shots=2, queries=3, episodes=7)


def _table(root: Path, **changes: int) -> BenchTable:
    bank = write_blobs(root, **changes)
    return BenchTable(group="blobs", bank=bank, table=bank)


def _part(table: BenchTable, path: Path) -> dict[str, Stored]:
    learners = {"sure": SureOfFirst(), "cannot": SolvesNothing()}
    found = score_learners(learners, table.table, PROTOCOL)
    stored = {name: Stored(f"print of {name}", each) for name, each in found.items()}
    write_part(path, identity(table, PROTOCOL), stored)
    return stored


def test_what_is_written_is_read(tmp_path: Path) -> None:
    table, path = _table(tmp_path), tmp_path / "parts" / "one.parquet"
    written = _part(table, path)
    read = read_part(path, identity(table, PROTOCOL))
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


def test_a_part_about_something_else_is_not_used(tmp_path: Path) -> None:
    table, path = _table(tmp_path / "a"), tmp_path / "one.parquet"
    _part(table, path)
    changed = _table(tmp_path / "b", seed=1)
    assert read_part(path, identity(changed, PROTOCOL)) == {}
    assert read_part(path, identity(table, replace(PROTOCOL, seed=1))) == {}
    assert read_part(path, identity(table, PROTOCOL)) != {}


@pytest.mark.parametrize("content", [b"", b"PAR1 something else"])
def test_a_part_that_cannot_be_read_is_not_used(tmp_path: Path, content: bytes) -> None:
    table, path = _table(tmp_path), tmp_path / "one.parquet"
    assert read_part(path, identity(table, PROTOCOL)) == {}
    path.write_bytes(content)
    assert read_part(path, identity(table, PROTOCOL)) == {}


def test_every_protocol_has_a_file_of_its_own(tmp_path: Path) -> None:
    table = _table(tmp_path)
    changes = [{}, {"shots": 1}, {"ways": 6}, {"queries": 4}, {"episodes": 8}, {"seed": 1}]
    paths = {part_path(tmp_path, table, replace(PROTOCOL, **change)) for change in changes}
    assert len(paths) == len(changes)
    assert tmp_path / "toy_blobs_5-way_2-shot_3_queries_7_episodes_seed_0.parquet" in paths
