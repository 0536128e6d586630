"""Simulate many workers from the measured costs of one and two.

A job is simulated event by event: one process dispatches chunks one after the other, a file store
delivers them at a limited rate, and workers start, work, and occasionally die with their chunk.
Costs are those measured by bench/scale_out.py; assumed values are listed on the page.

    python bench/scale_simulator.py COSTS --out results/scale_out/simulated.md
"""

import argparse
import heapq
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from measuring.page import Page
from scipy import stats

HOUR = 3600.0
IMAGES = 1_000_000_000
IMAGE_BYTES = 100_000
"""Size of a file at an address: assumed."""
STORE_BYTES = 5e9
"""Bytes per second that an object store delivers to all workers together: assumed."""
DEATH_HOURS = 500.0
"""Mean hours between deaths of one worker, node failures included: assumed."""
GPU_RATE = 3000.0
"""Images a GPU encodes per second (bench/scale_gpu.py), given enough cores to decode: assumed."""
TOLERANCE = 0.15
"""Largest accepted relative error of a simulated rate."""
SPREAD = 0.1
"""Standard deviation of the seconds per chunk, relative to their mean."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job to simulate."""

    workers: int
    chunks: int
    chunk_rows: int
    chunk_seconds: float
    """Seconds per chunk of a worker with a core or a GPU to itself."""
    share: float = 1.0
    """Share of that core available to the worker."""
    dispatch_seconds: float = 0.0
    start_seconds: float = 0.0
    store_rows: float = float("inf")
    """Rows per second that the store delivers to all workers."""
    death_seconds: float = float("inf")
    """Mean seconds between deaths of one worker."""
    seed: int = 0


@dataclass(frozen=True)
class Played:
    """Result of a simulated job."""

    finished: Sequence[float]
    """Completion times of the chunks, in order."""
    deaths: int

    def rate(self, job: Job) -> float:
        """Return the rows per second after the first chunk of each worker."""
        began = self.finished[job.workers - 1]
        rows = (len(self.finished) - job.workers) * job.chunk_rows
        return rows / (self.finished[-1] - began)


def play(job: Job) -> Played:
    """Assign every chunk to the worker that is free first."""
    generator = np.random.default_rng(job.seed)
    free = [(job.start_seconds, worker) for worker in range(job.workers)]
    heapq.heapify(free)
    sharing = store = 0.0
    finished, waiting, deaths = list[float](), job.chunks, 0
    while waiting:
        ready, worker = heapq.heappop(free)
        sharing = max(sharing, ready) + job.dispatch_seconds
        store = max(store, sharing) + job.chunk_rows / job.store_rows
        spent = job.chunk_seconds / job.share * max(0.1, generator.normal(1, SPREAD))
        dies = (
            generator.exponential(job.death_seconds) if np.isfinite(job.death_seconds) else np.inf
        )
        if dies < spent:
            deaths += 1
            heapq.heappush(free, (store + dies + job.start_seconds, worker))
            continue
        waiting -= 1
        finished.append(store + spent)
        heapq.heappush(free, (store + spent, worker))
    return Played(sorted(finished), deaths)


def main() -> None:
    """Validate the simulator on measured runs, then simulate more workers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("costs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--workers", type=int, nargs="+", default=[8, 16, 32, 64, 128, 256, 512, 1024]
    )
    parser.add_argument("--chunks", type=int, default=40, help="for each worker")
    args = parser.parse_args()
    costs = json.loads(args.costs.read_text())
    page = Page(
        args.out,
        "Many workers, simulated",
        "From what one and two did.",
        COSTS=args.costs,
    )
    page.text(
        "## Measured and foretold",
        "The run of one worker, played from the costs of its chunks; and runs of several, foretold"
        " from one that works beside processes that encode for nobody: what a chunk costs in CPU"
        " seconds while the other cores are at work, and the share of a core that others leave,"
        " are known from there, and nothing is fitted to the runs that are foretold. Ratios are of"
        " means over turns, with their 95 % intervals from the ratio of each turn (Student's)."
        " Beside it, the same with the share of a core that the run itself had (*cores given*).",
    )
    page.table(["engine", "workers", "images / s", "foretold", "ratio", "cores given", "ratio",
                "images / CPU s", "foretold", "ratio"])  # fmt: skip
    rows = foretold(costs)
    for row in rows:
        page.row(*map(str, row))
    for place, how in ((4, ""), (6, " with the cores given")):
        far = [f"{r[0]}, {r[1]} workers" for r in rows if abs(r[place].mean - 1) > TOLERANCE]
        page.text(f"Beyond {TOLERANCE:.0%}{how}: {'; '.join(far) or 'none'}.")
    project(page, args, costs)


@dataclass(frozen=True)
class Ratio:
    """Ratio of simulated to measured rate."""

    mean: float
    half: float | None
    """Half width of its interval, if there are several turns."""

    @classmethod
    def of(cls, simulated: Sequence[float], measured: Sequence[float]) -> "Ratio":
        """Compare means over turns; the interval is over the turns' ratios."""
        turns = np.log(np.divide(simulated, measured))
        mean = float(np.mean(simulated) / np.mean(measured))
        if len(turns) < 2:
            return cls(mean, None)
        error = np.std(turns, ddof=1) / len(turns) ** 0.5
        return cls(mean, mean * float(stats.t.ppf(0.975, len(turns) - 1) * error))

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if self.half is None else f"{self.mean:.2f} ± {self.half:.2f}"


def foretold(costs: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Simulate the measured runs from the costs of one worker beside companions."""
    alone = {(run["engine"], run["beside"]): run for run in costs["runs"] if run["workers"] == 1}
    rows = []
    for run in costs["runs"]:
        workers, engine = run["workers"], run["engine"]
        if run["beside"] or (engine, workers - 1) not in alone:
            continue
        one = alone[engine, workers - 1]
        job = Job(
            workers=workers,
            chunks=workers * costs["chunks"],
            chunk_rows=costs["chunk_rows"],
            chunk_seconds=0.0,
            dispatch_seconds=costs["dispatch_seconds"][engine],
        )
        blind, given = (
            [_mean_rate(job, *turn) for turn in zip(one["cpu"], shares, strict=True)]
            for shares in (one["shares"], run["shares"])
        )
        busy, simulated = (np.divide(costs["chunk_rows"], each["cpu"]) for each in (run, one))
        rows.append((
            engine, workers, f"{np.mean(run['rates']):.1f}",
            f"{np.mean(blind):.1f}", Ratio.of(blind, run["rates"]),
            f"{np.mean(given):.1f}", Ratio.of(given, run["rates"]),
            f"{np.mean(busy):.1f}", f"{np.mean(simulated):.1f}", Ratio.of(simulated, busy),
        ))  # fmt: skip
    return rows


def _mean_rate(job: Job, chunk_seconds: float, share: float, plays: int = 20) -> float:
    """Return the mean rate of a turn: workers begin together, and the last chunk ends it."""
    turn = replace(job, chunk_seconds=chunk_seconds, share=share)
    ends = [play(replace(turn, seed=seed)).finished[-1] for seed in range(plays)]
    return float(np.mean([turn.chunks * turn.chunk_rows / end for end in ends]))


def project(page: Page, args: argparse.Namespace, costs: Mapping[str, Any]) -> None:
    """Simulate more workers than were measured, with CPUs and with GPUs."""
    engine = costs["runs"][-1]["engine"]
    ones = [run for run in costs["runs"] if run["workers"] == 1 and run["engine"] == engine]
    run = max(ones, key=lambda each: int(each["beside"]))  # as all cores of a machine are at work
    each = run["seconds"]["cpu"] / costs["chunk_rows"]
    kinds = (
        ("CPU cores, chunks of 256", each, 256),
        ("GPUs, chunks of 256", 1 / GPU_RATE, 256),
        ("GPUs, chunks of 4,096", 1 / GPU_RATE, 4096),
    )
    page.text(
        f"## {args.workers[0]} to {args.workers[-1]:,} workers",
        f"Engine {engine}; {args.chunks} chunks a worker. Measured: {1 / each:.1f} images of a CPU"
        f" second, {1000 * costs['dispatch_seconds'][engine]:.1f} CPU ms to give a chunk away,"
        f" {costs['start_seconds'][engine]:.0f} s to start, {GPU_RATE:,.0f} images a second of a"
        f" GPU. Assumed: files of {IMAGE_BYTES / 1000:.0f} KB from a store that gives"
        f" {STORE_BYTES / 1e9:.0f} GB/s to all, cores enough to decode for GPUs, a worker that dies"
        f" every {DEATH_HOURS:.0f} hours. Efficiency is the rate by that of as many workers who"
        " wait for nobody.",
    )
    page.table(["workers are", "workers", "images / s", "efficiency", "hours for 1 billion"])
    for name, seconds, chunk_rows in kinds:
        for workers in args.workers:
            job = Job(
                workers=workers,
                chunks=workers * args.chunks,
                chunk_rows=chunk_rows,
                chunk_seconds=seconds * chunk_rows,
                dispatch_seconds=costs["dispatch_seconds"][engine],
                start_seconds=costs["start_seconds"][engine],
                store_rows=STORE_BYTES / IMAGE_BYTES,
                death_seconds=DEATH_HOURS * HOUR,
            )
            rate = play(job).rate(job)
            ideal = workers / seconds
            page.row(
                name, f"{workers:,}", f"{rate:,.0f}", f"{rate / ideal:.2f}",
                f"{IMAGES / rate / HOUR:,.1f}",
            )  # fmt: skip


if __name__ == "__main__":
    main()
