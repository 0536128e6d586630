"""Check that a kill (SIGKILL) costs only the work since the last save.

    python bench/reliability/kills.py --kills 200 --workers 2 --out results/reliability/kills.md

Each job runs repeatedly in a fork and is killed: half of the time at a random moment, half of the
time right before one of its calls that write, rename or remove something, so that saves are hit. A
restarted job must resume, and its final result must be bitwise equal to that of an undisturbed run.
"""

import argparse
import os
import random
import signal
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from campaign.forks import Outcome, Started, forked, start, tree, wait
from campaign.killed_jobs import Job, bank, bench, fit, predict, training
from campaign.page import Page
from campaign.seed_inputs import Seeds, preload
from campaign.shards import Shard, Workers

from unitail.encoders.cache import FILE, FeatureCache

CALLS = ("fsync", "replace", "rename", "unlink", "mkdir", "rmdir", "open")
SIGKILL = -int(signal.SIGKILL)
COMMANDS = ("train", "predict", "fit", "bench")
SHARD_SIZE = 10
"""Number of kills after which a job runs to its end."""
COUNTS = ("killed", "in a call", "finished")
Kill = Callable[[int, random.Random, Path], dict[str, Any]]
"""Kills something a number of times in a folder, and returns counts."""


def watch_calls(before: Callable[[int], None]) -> None:
    """Call `before` with a count, from 1, before every call that changes files."""
    calls = 0

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:  # noqa: ANN401
            nonlocal calls
            calls += 1
            before(calls)
            return real(*args, **options)

        return call

    for name in CALLS:
        setattr(os, name, watched(getattr(os, name)))


def kill_before(number: int) -> Callable[[], None]:
    """Return a hook that kills the process before the call with this number."""

    def kill(call: int) -> None:
        if call == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return lambda: watch_calls(kill)


def run_undisturbed(job: Job, place: Path) -> None:
    """Run a job once; return its number of such calls and its duration."""
    calls = [0]

    def counted() -> None:
        watch_calls(lambda number: calls.__setitem__(0, number))
        try:
            job.work()
        finally:
            (place / "calls").write_text(str(calls[0]))

    (place / "reference").mkdir(parents=True)
    outcome = forked(counted, place / "log", folder=place / "reference", seconds=300, memory=None)
    assert outcome.code == 0, outcome
    (place / "seconds").write_text(str(outcome.seconds))


def kill_job(
    job: Job, reference: Path, kills: int, generator: random.Random, place: Path
) -> dict[str, Any]:
    """Kill a job a number of times, let it finish, and return the counts."""
    calls = int((reference / "calls").read_text())
    seconds = float((reference / "seconds").read_text())
    wanted = job.result(reference / "reference")
    counts: Counter[str] = Counter()
    faults: list[str] = []
    folder = _fresh(place, counts)
    share = 1.0 if not job.resumes else 0.6
    while counts["killed"] < kills:
        by_call = generator.random() < 0.5
        if by_call:
            prepare = kill_before(1 + generator.randrange(max(1, int(share * calls))))
            process = start(job.work, place / "log", folder=folder, prepare=prepare, memory=None,
                            seconds=300)  # fmt: skip
        else:
            process = start(job.work, place / "log", folder=folder, memory=None, seconds=300)
            _sleep_and_kill(process, generator.uniform(0, share * seconds))
        outcome = wait(process)
        counts["killed"] += outcome.code == SIGKILL
        counts["in a call"] += outcome.code == SIGKILL and by_call
        faults += _faults(job, folder, outcome, wanted)
        if outcome.code == 0:
            counts["finished"] += 1
            folder = _fresh(place, counts)
    outcome = forked(job.work, place / "log", folder=folder, memory=None, seconds=300)
    faults += _faults(job, folder, outcome, wanted)
    counts["finished"] += 1
    return {**counts, "faults": faults}


def _faults(job: Job, folder: Path, outcome: Outcome, wanted: object) -> list[str]:
    """Return what is wrong after a run; empty if nothing is."""
    wrong = job.check(folder)
    if outcome.code == 0:
        unfinished = [
            name for name in tree(folder) if name.endswith((".new", ".old", ".part", ".gone"))
        ]
        wrong = wrong or (f"unfinished: {unfinished}" if unfinished else "")
        wrong = wrong or ("" if job.result(folder) == wanted else "another result")
    elif outcome.code != SIGKILL:
        wrong = wrong or f"exit code {outcome.code}: {outcome.stderr[-500:]}"
    return [wrong] if wrong else []


def _fresh(place: Path, counts: Counter[str]) -> Path:
    folder = place / f"run{counts['finished']}"
    folder.mkdir()
    return folder


def _sleep_and_kill(process: Started, seconds: float) -> None:
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGKILL)


def vector_of(key: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return the vector that belongs to a key."""
    return np.random.default_rng(key).normal(size=32).astype(np.float32)


def use_cache(folder: Path, seed: int) -> None:
    """Look up and store vectors in an endless loop; a wrong one ends the process."""
    cache, generator = FeatureCache(folder), random.Random(seed)
    while True:
        keys = {f"key {number}": number for number in generator.sample(range(400), 20)}
        for key, vector in cache.get_many("encoder", keys).items():
            if not np.array_equal(vector, vector_of(keys[key])):
                raise SystemExit(3)
        cache.put_many("encoder", {key: vector_of(number) for key, number in keys.items()})
        if cache.trouble is not None:
            print(cache.trouble)
            raise SystemExit(4)


def kill_cache(kills: int, generator: random.Random, root: Path) -> dict[str, Any]:
    """Let two processes use one cache, and kill one of them again and again."""
    folder = root / "cache"
    ends = []
    living = [start(partial(use_cache, folder, 0), root / "0", memory=None, seconds=600)]
    for number in range(1, kills + 1):
        work = partial(use_cache, folder, number)
        other = start(work, root / str(number), memory=None, seconds=600)
        living.append(other)
        time.sleep(generator.uniform(0, 0.1))
        victim = living.pop(generator.randrange(len(living)))
        os.kill(victim.pid, signal.SIGKILL)
        ends.append(wait(victim))
    for process in living:
        os.kill(process.pid, signal.SIGKILL)
        ends.append(wait(process))
    faults = [f"{end.code} {end.stdout}{end.stderr}" for end in ends if end.code != SIGKILL]
    with sqlite3.connect(folder / FILE) as connection:
        integrity = connection.execute("PRAGMA integrity_check").fetchone()[0]
    faults += [f"integrity: {integrity}"] if integrity != "ok" else []
    names = [f"key {number}" for number in range(400)]
    vectors = FeatureCache(folder).get_many("encoder", names)
    faults += [key for key in vectors if not np.array_equal(vectors[key], vector_of(int(key[4:])))]
    return {"killed": kills, "finished": len(vectors), "faults": faults}


def shards_of(name: str, kills: int, seed: int, kill: Kill) -> list[Shard]:
    """Split a row into shards of some kills, each with its own seed."""

    def shard(first: int) -> Shard:
        count = min(SHARD_SIZE, kills - first)
        generator = random.Random(f"{seed} {name} {first}")
        return Shard(f"{name} {first}", lambda place: kill(count, generator, place))

    return [shard(first) for first in range(0, kills, SHARD_SIZE)]


def main() -> None:
    """Kill all jobs, and write a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--workers", type=int, default=1, help="jobs that run at once")
    parser.add_argument("--minutes", type=float, default=600, help="after which none is begun")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    preload()
    for module in ("accelerate", "torch._dynamo", *(f"unitail.cli.{each}" for each in COMMANDS)):
        import_module(module)  # once, for all forks
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        os.environ["UNITAIL_CACHE"] = f"{name}/own-cache"
        seeds = Seeds.make(root / "seeds", "tables", "banks")
        rows = rows_of(seeds, root, args.only)
        settings = {"kills": args.kills, "seed": args.seed, "only": args.only}
        workers = Workers(
            root, args.workers, args.out.with_suffix(".jsonl"), settings, args.minutes
        )
        shards = {name: shards_of(name, args.kills, args.seed, kill) for name, kill in rows.items()}
        done = workers.run([shard for each in shards.values() for shard in each])
    page = Page(args.out, "Kills", f"Every job was to be killed {args.kills} times.")
    page.table(["job", "kills", "of them before a call that changes files", "finished", "faults"])
    faults = 0
    for name, each in shards.items():
        records = [done[shard.name] for shard in each if shard.name in done]
        counts = {key: sum(record.get(key, 0) for record in records) for key in COUNTS}
        own = [fault for record in records for fault in record["faults"]]
        page.row(name, *counts.values(), len(own))
        for fault in own:
            print(name, fault, flush=True)
        faults += len(own)
    page.text(
        "*Finished*: runs that came to their end between kills; for the cache, vectors that it"
        f" held in the end, of 400 for every {SHARD_SIZE} kills. *Faults*: an error on resuming,"
        " something half-written under its final name, or another result than that of the run"
        " that nobody killed."
    )
    if len(done) == sum(map(len, shards.values())):
        workers.finish()
    raise SystemExit(1 if faults else 0)


def rows_of(seeds: Seeds, root: Path, only: Sequence[str]) -> dict[str, Kill]:
    """Return a function that kills each job, after an undisturbed run."""
    jobs = [training(), bank(), predict(seeds), fit(seeds), bench(seeds)]
    rows: dict[str, Kill] = {}
    for job in jobs:
        if not only or job.name in only:
            reference = root / "references" / job.name
            run_undisturbed(job, reference)
            rows[job.name] = partial(kill_job, job, reference)
    if not only or "cache" in only:
        rows["feature cache, two processes"] = kill_cache
    return rows


if __name__ == "__main__":
    main()
