import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.works import Die, Note, Refuse, chunks_of, noted, workers
from unitail.engines.engine import Chunk, ChunkReport
from unitail.engines.local import LocalEngine
from unitail.errors import InvalidInput, UserError


@pytest.mark.parametrize("count", [1, 2])
def test_every_chunk_is_done_once(count: int, tmp_path: Path) -> None:
    reports = list(LocalEngine(count).map(Note(tmp_path), chunks_of(9)))
    assert sorted(report.index for report in reports) == list(range(9))
    assert noted(tmp_path) == list(range(27))
    assert len(workers(tmp_path)) <= count


def test_chunks_are_taken_as_workers_become_free(tmp_path: Path) -> None:
    taken: list[int] = []

    def watched() -> object:
        for chunk in chunks_of(20):
            taken.append(chunk.index)
            yield chunk

    reports = LocalEngine(2).map(Note(tmp_path), watched())  # type: ignore[arg-type]
    next(reports)
    assert len(taken) <= 4  # not all 20, which may be more than fit into memory
    assert len(list(reports)) == 19


def test_a_worker_that_is_killed_costs_nothing(tmp_path: Path) -> None:
    work = Die(Note(tmp_path), tmp_path, at=3, times=2)
    reports = list(LocalEngine(2).map(work, chunks_of(8)))
    assert sorted(report.index for report in reports) == list(range(8))
    assert noted(tmp_path) == list(range(24))


def test_a_worker_that_is_killed_while_rows_are_read_costs_nothing(tmp_path: Path) -> None:
    def slow() -> Iterator[Chunk]:
        for chunk in chunks_of(6):
            if chunk.index == 1:  # the first chunk's worker dies before this one is there
                while not list(tmp_path.glob("death*")):
                    time.sleep(0.01)
                time.sleep(0.5)
            yield chunk

    work = Die(Note(tmp_path), tmp_path, at=0, times=1)
    reports = list(LocalEngine(2).map(work, slow()))
    assert sorted(report.index for report in reports) == list(range(6))
    assert noted(tmp_path) == list(range(18))


def test_rows_that_kill_every_worker_are_named(tmp_path: Path) -> None:
    work = Die(Note(tmp_path), tmp_path, at=1, times=9)
    with pytest.raises(UserError, match=r"3 workers that died on rows 4 to 6; .* run again"):
        list(LocalEngine(2).map(work, chunks_of(4)))
    assert len(list(tmp_path.glob("death*"))) == 3


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_of_the_work_comes_back_as_it_was(count: int, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="this chunk is wrong: got 2; allowed: others"):
        list(LocalEngine(count).map(Refuse(Note(tmp_path), at=2), chunks_of(4)))


def test_one_worker_is_this_process() -> None:
    def work(chunk: Chunk) -> ChunkReport:  # which could not be sent to another
        return ChunkReport(index=chunk.index, rows=len(chunk))

    assert [each.rows for each in LocalEngine().map(work, chunks_of(2))] == [3, 3]
