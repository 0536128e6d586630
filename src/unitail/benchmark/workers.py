"""Run a benchmark in several processes of one machine, each measuring some of the tables."""

from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from queue import Empty

import torch

from unitail.benchmark.setup import BenchSetup
from unitail.errors import UserError
from unitail.processes import end_with_parent, ready_to_fork, threads_of_each
from unitail.progress import OnProgress

POLL_SECONDS = 0.5
Report = tuple[int, int, int]
"""Index of a worker, its number of answers, and its total."""


def run_in_processes(setup: BenchSetup, count: int, on_progress: OnProgress | None = None) -> None:
    """Measure what is missing in several processes; the store then holds the results.

    They are the same as from a single process, since episodes do not depend on processes.
    """
    context = ready_to_fork(__name__)
    reports: Queue[Report] = context.Queue()
    workers = [
        context.Process(  # type: ignore[attr-defined]
            target=_work, args=(setup, index, count, reports), daemon=True
        )
        for index in range(count)
    ]
    for worker in workers:
        worker.start()
    try:
        _watch(workers, reports, on_progress)
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _watch(
    workers: Sequence[BaseProcess],
    reports: "Queue[Report]",
    on_progress: OnProgress | None,
) -> None:
    done: dict[int, tuple[int, int]] = {}
    while any(worker.is_alive() for worker in workers) or not reports.empty():
        try:
            index, answers, total = reports.get(timeout=POLL_SECONDS)
        except Empty:
            continue
        done[index] = (answers, total)
        if on_progress is not None:
            sums = [sum(each) for each in zip(*done.values(), strict=True)]
            on_progress(sums[0], sums[1])
    failed = [index for index, worker in enumerate(workers) if worker.exitcode]
    if failed:
        raise UserError(
            "a process of the benchmark ended early",
            got=f"exit code {workers[failed[0]].exitcode} of process {failed[0] + 1}",
            allowed="processes that finish",
            remedy="Its message is above; the same command resumes, also with --processes 1.",
        )


def _work(setup: BenchSetup, index: int, count: int, reports: "Queue[Report]") -> None:
    """Measure one shard."""
    end_with_parent()
    torch.set_num_threads(threads_of_each(count))
    run, _ = setup.open((index, count))
    reports.put((index, 0, run.pending()))
    run.run(lambda done, total: reports.put((index, done, total)))
