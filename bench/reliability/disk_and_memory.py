"""Run jobs with a full disk, a folder without write access, or too little memory.

    python bench/reliability/disk_and_memory.py --out results/reliability/disk_and_memory.md

Every job runs next to the outputs of an earlier run, under a limit: a small file system that is
full except for some bytes (where mounting is permitted), a limit on the size of files (which fails
like a quota), a read-only disk or folder, or a limit on memory. It must finish, or refuse in one
sentence with exit code 2 and leave existing files unchanged.
"""

import argparse
import os
import resource
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from campaign.forks import Outcome, command, forked, tree
from campaign.page import Page
from campaign.seed_inputs import RECIPE, Seeds, preload

ROOM = (0, 4, 12, 40, 100, 300)
"""KiB left on a full disk, or allowed per file."""
MEMORY = (8, 32, 64, 128, 256, 512)
"""MiB that a process may add."""


@dataclass(frozen=True)
class Job:
    """A command and the names it writes."""

    name: str
    arguments: tuple[object, ...]
    writes: str


def jobs(seeds: Seeds, folder: Path) -> list[Job]:
    """Return commands that replace or continue what is in a folder."""
    table = seeds.folder / "table.csv"
    recipe = folder.parent / "recipe.toml"
    recipe.write_text(RECIPE)
    return [
        Job("predict --out", ("predict", table, table, "--out", folder / "out.csv"), "out.csv"),
        Job("predict --report", ("predict", table, table, "--report", folder / "p.html"), "p.html"),
        Job("fit --save", ("fit", table, "--save", folder / "saved"), "saved"),
        Job("train", ("train", recipe, "--out", folder / "run", "--cpu"), "run"),
        Job("encode", ("encode", seeds.folder / "sounds", "--out", folder / "bank"), "bank"),
        Job("bank import", ("bank", "import", seeds.folder / "coded", "--out", folder / "b"), "b"),
        Job("evaluate --out", ("evaluate", table, "--splits", 2, "--out", folder / "c"), "c"),
    ]


def judge(outcome: Outcome, before: dict[str, bytes | None], folder: Path, job: Job) -> str:
    """Return "finished", "refused", or what is wrong."""
    messages = [line for line in outcome.stderr.splitlines() if line.startswith("unitail: ")]
    if outcome.code == 0:
        return "finished"
    if outcome.code == 1 and outcome.stderr.startswith("OpenBLAS error: Memory allocation"):
        messages, outcome = (
            [outcome.stderr],
            replace(outcome, code=2),
        )  # that library ends the process
    if outcome.code != 2 or "Traceback" in outcome.stderr or len(messages) != 1:
        return f"exit code {outcome.code}: {outcome.stderr[-300:]}"
    after = tree(folder)
    changed = [name for name, content in before.items() if after.get(name) != content]
    if changed:
        return f"changed: {changed[:3]}"
    new = [name for name in after if name not in before]
    odd = [name for name in new if not _may_stay(name, job)]
    return f"left behind: {odd[:3]}" if odd else "refused"


def _may_stay(name: str, job: Job) -> bool:
    """Return whether a file may remain: what a job resumes from, or complete outputs."""
    first = name.split("/")[0]
    goes_on = {"train": "run", "encode": ".bank.part", "bank import": "b", "evaluate --out": "c"}
    return name == "filler" or first == goes_on.get(job.name)


def old_state(seeds: Seeds, folder: Path) -> None:
    """Write the state of an earlier run."""
    (folder / "out.csv").write_text("old answers\n")
    (folder / "p.html").write_text("old page\n")
    shutil.copytree(seeds.folder / "classifiers" / "table", folder / "saved")


def run(
    job: Job, seeds: Seeds, folder: Path, log: Path, prepare: Callable[[], None],
    memory: int | None = None,
) -> str:  # fmt: skip
    """Run a job under a limit, and judge it."""
    before = tree(folder)
    outcome = forked(command(*job.arguments), log, folder=log.parent, prepare=prepare,
                     memory=memory, seconds=120)  # fmt: skip
    return judge(outcome, before, folder, job)


def can_mount(folder: Path) -> bool:
    """Return whether a small file system can be mounted."""
    folder.mkdir()
    return mount(folder, 100) and not subprocess.run(["umount", folder], check=False).returncode


def mount(folder: Path, kib: int) -> bool:
    """Mount a file system of this size."""
    options = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)]
    return subprocess.run(options, capture_output=True, check=False).returncode == 0


def full_disk(job: Job, seeds: Seeds, folder: Path, log: Path, steps: int) -> Counter[str]:
    """Fill a small file system, leaving some room."""
    results: Counter[str] = Counter()
    for room in ROOM[:steps]:
        folder.mkdir()
        assert mount(folder, 2000)
        try:
            old_state(seeds, folder)
            with (folder / "filler").open("wb", buffering=0) as filler:
                try:
                    while filler.write(bytes(4096)):
                        pass
                except OSError:
                    pass
                size = filler.tell()
                filler.truncate(max(0, size - room * 1024))
            results[run(job, seeds, folder, log, lambda: None)] += 1
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)
            shutil.rmtree(folder)
    return results


def quota(job: Job, seeds: Seeds, folder: Path, log: Path, steps: int) -> Counter[str]:
    """Limit the size of files, which fails in the middle of a write as a quota does."""
    results: Counter[str] = Counter()
    for room in ROOM[1 : steps + 1]:  # the log of what is said is a file, too

        def limit(room: int = room) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room * 1024, room * 1024))

        folder.mkdir()
        old_state(seeds, folder)
        results[run(job, seeds, folder, log, limit)] += 1
        shutil.rmtree(folder)
    return results


def read_only(job: Job, seeds: Seeds, folder: Path, log: Path, steps: int) -> Counter[str]:
    """Run in a read-only file system."""
    folder.mkdir()
    assert mount(folder, 2000)
    try:
        old_state(seeds, folder)
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        return Counter([run(job, seeds, folder, log, lambda: None)])
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
        shutil.rmtree(folder)


def closed(job: Job, seeds: Seeds, folder: Path, log: Path, steps: int) -> Counter[str]:
    """Run in folders without write permission, if mounting is not possible; not as root."""
    folder.mkdir()
    old_state(seeds, folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    result = run(job, seeds, folder, log, lambda: None)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    shutil.rmtree(folder)
    return Counter([result])


def little_memory(job: Job, seeds: Seeds, folder: Path, log: Path, steps: int) -> Counter[str]:
    """Limit the memory that a process may add."""
    results: Counter[str] = Counter()
    for mib in MEMORY[:steps]:
        folder.mkdir()
        old_state(seeds, folder)
        results[run(job, seeds, folder, log, lambda: None, mib * 2**20)] += 1
        shutil.rmtree(folder)
    return results


def main() -> None:
    """Run all jobs under all limits, and write a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="jobs")
    parser.add_argument("--steps", type=int, default=len(ROOM), help="of each limit")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    preload("log-mel")
    page = Page(args.out, "Disk and memory", "Every job under every limit.")
    page.table(["limit", "job", "runs", "finished", "refused in one sentence", "faults"])
    faults = 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        os.environ["UNITAIL_CACHE"] = f"{name}/cache"
        seeds = Seeds.make(root / "seeds")
        mounted = {"a disk with 0 to 300 KiB left": full_disk, "a read-only disk": read_only}
        limits = {
            **(mounted if can_mount(root / "probe") else {}),
            **({"a closed folder": closed} if os.getuid() else {}),
            "files of 4 to 300 KiB": quota,
            "8 to 512 MiB of memory": little_memory,
        }
        for limit, under in limits.items():
            for job in jobs(seeds, root / "place"):
                if args.only and job.name not in args.only:
                    continue
                results = under(job, seeds, root / "place", root / "log", args.steps)
                wrong = {
                    each: n for each, n in results.items() if each not in ("finished", "refused")
                }
                for each, number in wrong.items():
                    print(limit, job.name, number, each, flush=True)
                faults += sum(wrong.values())
                page.row(limit, job.name, results.total(), results["finished"], results["refused"],
                         sum(wrong.values()))  # fmt: skip
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
