import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest

from unitail.benchmark import workers as workers_module
from unitail.benchmark.setup import BenchSetup
from unitail.benchmark.suite_file import changed_suite, read_suite
from unitail.benchmark.workers import run_in_processes
from unitail.errors import UserError


def _smoke(folder: Path, out: str, **changes: object) -> BenchSetup:
    facts = {"episodes": 4, "queries": 3, "learners": ["proto_head_paper"], **changes}
    return BenchSetup(
        suite=changed_suite(read_suite("smoke"), facts),
        banks=folder / "none",
        runs=folder / "runs",
        folder=folder / out,
        device="cpu",
    )


@pytest.mark.slow
def test_two_processes_measure_what_one_does(tmp_path: Path) -> None:
    progress: list[tuple[int, int]] = []
    setup = _smoke(tmp_path, "two")
    run_in_processes(setup, 2, lambda done, total: progress.append((done, total)))
    run, _ = setup.open()
    assert run.pending() == 0
    assert progress[-1] == (24, 24)
    for two, one in zip(run.run(), _smoke(tmp_path, "one").open()[0].run(), strict=True):
        mine, other = (each.evaluations["proto_head_paper"].scores for each in (two, one))
        assert np.array_equal(mine.hashes, other.hashes)
        assert np.array_equal(mine.accuracy, other.accuracy)


def test_a_process_that_ends_early_is_reported() -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=os._exit, args=(code,)) for code in (0, 7)]
    for worker in workers:
        worker.start()
    with pytest.raises(UserError, match=r"ended early: got exit code 7 of process 2; allowed"):
        workers_module._watch(workers, context.Queue(), None)
