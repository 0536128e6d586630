"""Rows per second against the number of workers.

Generated images are encoded with EfficientNet-Lite0, one thread per worker, by processes and by Ray
actors; every number of workers in turn, several times and each time in a different order, so that
other load on the machine affects all equally. Start-up is excluded: the first chunk of every worker
does not count, and none starts its second chunk before all have finished their first. Vectors are
predicted without a pool and with one.

With several workers, each gets less of the machine than a single one: cores share memory and
execution units, and other programs need their share. So a worker is also measured next to
companions: processes that encode the same images as background load, one for every other worker.
The simulation of several workers is based on that cost, not on the run of several workers.

    python bench/scale_out.py --out results/scale_out/measured.md

The cost of each stage of a chunk is written next to the page, as costs.json, for
bench/scale_simulator.py.
"""

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import torch
from measuring.companions import SIDE, at_work, companions, make_images
from measuring.page import Page
from scipy import stats

from unitail import TailClassifier
from unitail.engines.chunk_results import ChunkFolder
from unitail.engines.encoding import EncodeChunk
from unitail.engines.engine import Chunk, ChunkReport, Engine, Work
from unitail.engines.local import LocalEngine
from unitail.engines.rows import JobRows, open_rows
from unitail.engines.storage import Storage
from unitail.workflows.predict import answer_rows

ENCODER = "efficientnet-lite0"
WIDTH = 1280
"""Width of the vectors to predict."""
WAIT_SECONDS = 120.0
"""Timeout for the other workers to finish their first chunk."""


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--encoder", default=ENCODER, help="of images: a name, or FILE.py:NAME")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--engines", nargs="+", default=["local", "ray"])
    parser.add_argument("--chunks", type=int, default=4, help="for each worker")
    parser.add_argument("--chunk-rows", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=600, help="after which none is begun")
    parser.add_argument("--pool", type=int, default=1000)
    parser.add_argument("--answers", type=int, default=256, help="rows that are answered at once")
    args = parser.parse_args()
    page = Page(
        args.out,
        "Rows a second against workers",
        f"{os.cpu_count()} cores; one thread a worker.",
    )
    with tempfile.TemporaryDirectory() as folder:
        costs = measure_rates(page, args, Path(folder))
    costs["answers_cpu_second"] = measure_answers(page, args.answers, args.pool)
    args.out.with_name("costs.json").write_text(json.dumps(costs, indent=2) + "\n")


Kind = tuple[str, int, int]
"""An engine, its number of workers, and the companions running beside them."""


def measure_rates(page: Page, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Encode generated images with each engine and number of workers, in turn."""
    turns = take_turns(args, folder)
    page.text(
        "## Images encoded a second",
        f"{Path(args.encoder).name}, made JPEG files of {SIDE} x {SIDE} pixels, chunks of"
        f" {args.chunk_rows}; {args.chunks} chunks a worker in each of"
        f" {min(map(len, turns.values()))} turns."
        " Rates are means over turns with their 95 % intervals (Student's). Where others take the"
        " cores, seconds pass in which a worker does not run: the share of a core that workers had"
        " is beside them, and the images of a CPU second, with the interval over chunks, say what"
        " it does then. *Beside*: processes that encode for nobody meanwhile.",
    )
    page.table(["engine", "workers", "beside", "images / s", "share of a core", "images / CPU s"])
    costs: dict[str, Any] = {"chunk_rows": args.chunk_rows, "chunks": args.chunks}
    costs["runs"] = [tell_rate(page, args.chunk_rows, *each) for each in turns.items()]
    costs["start_seconds"] = {
        name: statistics.median(turn.start for kind in turns if kind[0] == name
                                for turn in turns[kind])
        for name in args.engines
    }  # fmt: skip
    costs["dispatch_seconds"] = dispatch_seconds(args.engines, max(args.workers))
    page.text(
        "Before every worker has done a chunk: "
        + ", ".join(f"{name} {taken:.1f} s" for name, taken in costs["start_seconds"].items())
        + ". CPU time to give a chunk away and hear of it: "
        + ", ".join(f"{n} {1000 * s:.1f} ms" for n, s in costs["dispatch_seconds"].items())
        + "."
    )
    return costs


@dataclass(frozen=True)
class Turn:
    """One run of some workers."""

    start: float
    """Seconds until every worker had finished a chunk."""
    rate: float
    """Rows per second from then on."""
    reports: Sequence[ChunkReport]
    """Reports of the chunks since then."""


def take_turns(args: argparse.Namespace, folder: Path) -> dict[Kind, list[Turn]]:
    """Run every kind several times, in a different order each time."""
    max_workers = max(args.workers)
    make_images(folder / "images", (1 + args.chunks) * max_workers * args.chunk_rows)
    for name in args.engines:
        engine_of(name, max_workers)  # a cluster of Ray has room for the most
    rows = open_rows([str(folder / "images")])
    beside = [(1, workers - 1) for workers in args.workers if workers > 1]
    turns: dict[Kind, list[Turn]] = {
        (name, workers, others): []
        for name in args.engines
        for workers, others in [*((each, 0) for each in args.workers), *beside]
    }
    with companions(max_workers - 1, folder / "images", args.encoder) as helpers:
        until = time.monotonic() + 60 * args.minutes
        for repeat in range(args.repeats):
            if repeat and time.monotonic() > until:
                break
            for kind in random.Random(repeat).sample(list(turns), len(turns)):
                name, workers, others = kind
                out = folder / f"{name} {workers} {others} {repeat}"
                with at_work(helpers[:others]):
                    turn = timed(engine_of(name, workers), workers, rows, out, args)
                turns[kind].append(turn)
    return turns


STAGES = ("read", "encode", "write", "wall", "cpu")


def tell_rate(page: Page, rows: int, kind: Kind, turns: Sequence[Turn]) -> dict[str, Any]:
    """Write the row of a kind of run; return its costs."""
    spent = [{stage: [one.seconds[stage] for one in turn.reports] for stage in STAGES}
             for turn in turns]  # fmt: skip
    means = [{stage: statistics.mean(each[stage]) for stage in STAGES} for each in spent]
    seconds = {stage: statistics.mean(each[stage] for each in means) for stage in STAGES}
    speeds = [rows / busy for each in spent for busy in each["cpu"]]
    rates = [turn.rate for turn in turns]
    share = seconds["cpu"] / seconds["wall"]
    page.row(*kind, mean_interval(rates), f"{share:.2f}", mean_interval(speeds))
    return {
        **dict(zip(("engine", "workers", "beside"), kind, strict=True)),
        "rates": rates,
        "shares": [each["cpu"] / each["wall"] for each in means],
        "cpu": [each["cpu"] for each in means],
        "seconds": seconds,
    }


def engine_of(name: str, workers: int) -> Engine:
    """Return the engine with this name."""
    if name == "local":
        return LocalEngine(workers)
    from unitail.engines.ray_cluster import RayEngine

    return RayEngine(workers)


def timed(engine: Engine, workers: int, rows: JobRows, out: Path, args: argparse.Namespace) -> Turn:
    """Encode some chunks; the first of each worker is a warm-up."""
    work = EncodeChunk(args.encoder, "cpu", rows.reading, ChunkFolder(Storage(out)))
    chunks = list(rows.stream.chunks(args.chunk_rows))[: (1 + args.chunks) * workers]
    began = time.perf_counter()
    reports = engine.map(Timed(work, workers, out), iter(chunks))
    for _ in range(workers):
        next(reports)
    first = time.perf_counter()
    counted = list(reports)
    rate = sum(each.rows for each in counted) / (time.perf_counter() - first)
    return Turn(first - began, rate, counted)


class Timed:
    """Single-threaded work that reports the seconds it took.

    A worker that has done its first chunk waits until all have: so nobody is still starting while
    chunks are counted, and each worker has one that does not count.
    """

    def __init__(self, work: Work, workers: int, place: Path) -> None:
        self.work, self.workers, self.place = work, workers, place
        self.waited = False

    def __call__(self, chunk: Chunk) -> ChunkReport:
        """Process a chunk and time it."""
        torch.set_num_threads(1)
        began, busy = time.perf_counter(), time.process_time()
        report = self.work(chunk)
        spent = {"wall": time.perf_counter() - began, "cpu": time.process_time() - busy}
        if not self.waited:
            self._wait()
        return replace(report, seconds={**report.seconds, **spent})

    def _wait(self) -> None:
        """Wait until every worker has done a chunk."""
        self.place.with_name(f"{self.place.name} up {os.getpid()}").touch()
        until = time.monotonic() + WAIT_SECONDS
        while len(list(self.place.parent.glob(f"{self.place.name} up *"))) < self.workers:
            if time.monotonic() > until:
                raise RuntimeError(f"not all of {self.workers} workers have started")
            time.sleep(0.005)
        self.waited = True


class Nothing:
    """Work that does nothing."""

    def __call__(self, chunk: Chunk) -> ChunkReport:
        """Report at once."""
        return ChunkReport(index=chunk.index, rows=0)


def dispatch_seconds(engines: Sequence[str], workers: int, chunks: int = 200) -> dict[str, float]:
    """Return the CPU seconds of this process to dispatch a chunk and receive its report."""
    taken = {}
    for name in engines:
        reports = engine_of(name, workers).map(Nothing(), empty_chunks(chunks))
        next(reports)  # by now they are up
        began = time.process_time()
        remaining = len(list(reports))
        taken[name] = (time.process_time() - began) / remaining
    return taken


def empty_chunks(count: int) -> Iterator[Chunk]:
    """Make chunks of 256 names of files."""
    names = [f"/a/folder/of/many/files/{number:08}.jpg" for number in range(256)]
    for index in range(count):
        yield Chunk(index, 256 * index, pyarrow.table({"file": names}))


def mean_interval(values: Sequence[float]) -> str:
    """Format a mean with its interval."""
    if len(values) < 2:
        return f"{values[0]:.1f}"
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5
    return f"{np.mean(values):.1f} ± {half:.1f}"


def measure_answers(page: Page, rows: int, max_pool: int, repeats: int = 5) -> dict[str, float]:
    """Predict vectors as wide as an encoder's, without a pool and with the largest."""
    page.text(
        "## Vectors answered a CPU second",
        f"{WIDTH} numbers, 10 classes of 5 examples, {rows:,} rows in a call; one thread."
        f" Mean over {repeats} calls with its 95 % interval.",
    )
    page.table(["pool", "rows / CPU s"])
    generator, rate_of = np.random.default_rng(0), {}
    labels = np.repeat(np.arange(10), 5)
    examples = generator.normal(size=(50, WIDTH)) + 0.3 * np.eye(10, WIDTH)[labels] * WIDTH**0.5
    queries = generator.normal(size=(rows, WIDTH)).astype(np.float32)
    torch.set_num_threads(1)
    for pool in (0, max_pool):
        unlabelled = generator.normal(size=(pool, WIDTH)) if pool else None
        classifier = TailClassifier(device="cpu").fit(examples, labels, pool=unlabelled)
        answer_rows(classifier, queries, 0.9, 3)  # what is computed once
        rates = []
        for _ in range(repeats):
            began = time.process_time()
            answer_rows(classifier, queries, 0.9, 3)
            rates.append(rows / (time.process_time() - began))
        page.row(f"{pool:,}", mean_interval(rates))
        rate_of[str(pool)] = statistics.mean(rates)
    return rate_of


if __name__ == "__main__":
    main()
