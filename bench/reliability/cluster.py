"""Run commands on two Ray nodes while workers are killed and a node is removed.

    python bench/reliability/cluster.py --repeats 2 --out results/reliability/cluster.md

`unitail encode`, `unitail predict` and `unitail data prepare` run with `--engine ray` on two nodes
that are processes of this machine; sounds are read from a `file://` address, and one is broken.
After a random number of chunks, a worker is killed (SIGKILL), or the second node with all its
processes. Where mounting is permitted, the disk also fills up: the command must report it, and
resume when there is room again. The result must equal that of two local processes: every row once,
vectors and banks bitwise, probabilities to 1e-6.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ray
from campaign.forks import tree
from campaign.page import Page
from disk_and_memory import can_mount
from ray.cluster_utils import Cluster
from typer.testing import CliRunner

from unitail.cli.main import app
from unitail.engines.ray_cluster import QUIET, RayEngine
from unitail.errors import UserError

CLOSE = 1e-6
"""Largest accepted difference between two probabilities."""
CHUNK_ROWS = 3
ROOM: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
"""Resources of a node; its object store is as small as Ray allows."""


@dataclass(frozen=True)
class Command:
    """A command that distributes its work."""

    name: str
    arguments: tuple[str, ...]
    out: str
    """Name of its output in the folder given by its last option."""
    exit_code: int


def write_sounds(folder: Path, count: int) -> Path:
    """Write sounds of two classes, and one broken file."""
    import soundfile

    rng, clock = np.random.default_rng(0), np.arange(1600) / 16_000
    for place, label in enumerate(("hum", "hiss")):
        (folder / label).mkdir(parents=True)
        for number in range(count):
            wave = np.sin(2 * np.pi * rng.uniform(80, 160) * clock) * (1 - place)
            sound = 0.5 * wave + rng.normal(size=len(clock)) * (0.3 if place else 0.01)
            soundfile.write(folder / label / f"{number:03}.wav", sound.clip(-1, 1), 16_000)
    (folder / "hum" / "broken.wav").write_bytes(b"no sound")
    return folder


def commands(root: Path, count: int) -> list[Command]:
    """Return the three commands, without engine and output folder."""
    sounds = write_sounds(root / "genres", count)
    labelled = write_sounds(root / "known", 3)
    address = f"file://{sounds}"
    data = ("data", "prepare", "gtzan", "--root", str(root), "--any-version")
    return [
        Command("encode", ("encode", address, "--format", "parquet"), "", 1),
        Command("predict", ("predict", str(labelled), address), "", 1),
        Command("data prepare", data, "log-mel/gtzan", 1),
    ]


def run(command: Command, out: Path, *engine: object, refused: str = "") -> None:
    """Run a command; require its usual exit code, or an error with the given words."""
    place = f"file://{out}" if command.name != "data prepare" else str(out)
    options = ["--out", place, "--device", "cpu", "--chunk-rows", CHUNK_ROWS, *engine]
    result = CliRunner().invoke(app, [*command.arguments, *map(str, options)])
    if refused:  # the command as users call it makes exit code 2 of such an error
        assert isinstance(result.exception, UserError), (result.output, result.exception)
        assert refused in str(result.exception), result.exception
    else:
        assert result.exit_code == command.exit_code, (result.output, result.exception)


def result_of(command: Command, out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what must be bitwise equal, and the numbers that must be close."""
    if command.name == "data prepare":
        return dict(tree(out / command.out)), {}
    import pandas

    frame = pandas.read_parquet(out)
    names = list(frame["file"])
    close = [name for name in frame if "probability" in name or name == "novelty"]
    exact = frame.drop(columns=close)
    if "vector" in exact:
        exact["vector"] = [None if row is None else row.tobytes() for row in exact["vector"]]
    cells = exact.astype(object).where(exact.notna(), None).to_dict("list")
    cells = {name: [_hashable(cell) for cell in column] for name, column in cells.items()}
    return {"rows": names, **cells}, {name: frame[name].to_numpy(float) for name in close}


def _hashable(cell: object) -> object:
    return tuple(cell) if isinstance(cell, np.ndarray | list) else cell


def differences(
    wanted: tuple[dict[str, Any], dict[str, Any]], got: tuple[dict[str, Any], dict[str, Any]]
) -> tuple[int, int, float, list[str]]:
    """Count missing and duplicate rows; return the largest difference and other mismatches."""
    rows, own = (Counter(each[0].get("rows", ())) for each in (wanted, got))
    missing, twice = (rows - own).total(), (own - rows).total()
    odd = [name for name in wanted[0] if wanted[0][name] != got[0].get(name)]
    far = [float(np.nanmax(np.abs(wanted[1][n] - got[1][n]), initial=0)) for n in wanted[1]
           if wanted[1][n].shape == got[1][n].shape]  # fmt: skip
    return missing, twice, max(far, default=0.0), odd


@contextmanager
def after_chunks(place: Path, chunks: int, act: Callable[[], None]) -> Iterator[list[int]]:
    """Act as soon as some chunks are done; yield the number of chunks done then."""
    counts: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            done = sum(1 for _ in place.rglob("chunk-*.parquet"))
            if done >= chunks:
                act()
                counts.append(done)
                return
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield counts
    finally:
        over.set()
        watcher.join()


def fill_the_disk(command: Command, out: Path, *engine: object) -> int:
    """Run a command on a disk that is half as large as needed; then add room and resume.

    Returns how many chunks were there in between.
    """
    out.mkdir()
    mount(out, "size=64k")
    try:
        run(command, out, *engine, refused="No space left")
        done = sum(1 for _ in out.rglob("chunk-*.parquet"))
        mount(out, "remount,size=64m")
        run(command, out, *engine)
        shutil.copytree(out, f"{out} kept")
    finally:
        subprocess.run(["umount", "--lazy", out], check=True)  # workers may linger
    out.rmdir()
    Path(f"{out} kept").rename(out)
    return done


def mount(folder: Path, options: str) -> None:
    """Mount a file system in memory, or change its size."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)


def kill_a_worker() -> None:
    """Kill one of the workers started by this process's nodes."""
    workers = [pid for pid in _processes() if _title(pid).startswith("ray::_Worker")]
    ours = [pid for pid in workers if os.getpid() in _ancestors(pid)]
    os.kill(random.choice(ours), signal.SIGKILL)


def _processes() -> list[int]:
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return
        yield pid


class TwoNodes:
    """Two nodes on this machine, each with room for one worker."""

    def __enter__(self) -> "TwoNodes":
        """Start the nodes, and connect to them."""
        self._nodes = Cluster()
        self._nodes.add_node(**ROOM, include_dashboard=False)
        self._second: Any = None
        self.restore()
        RayEngine(1, address=self._nodes.address)
        self.engine = ("--engine", "ray", "--address", self._nodes.address, "--workers", 2)
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the nodes."""
        ray.shutdown()
        self._nodes.shutdown()  # type: ignore[no-untyped-call]

    def remove(self) -> None:
        """Remove the second node with everything that runs on it."""
        self._nodes.remove_node(self._second, allow_graceful=False)
        self._second = None

    def restore(self) -> None:
        """Start the second node again if it was removed."""
        if self._second is None:
            self._second = self._nodes.add_node(**ROOM)


def main() -> None:
    """Run all commands with and without disturbances, and write a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sounds", type=int, default=45, help="of each of two classes")
    parser.add_argument("--repeats", type=int, default=2, help="of each disturbance")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], help="commands")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    for name, value in QUIET.items():
        os.environ[name] = value
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")
    random.seed(args.seed)
    page = Page(args.out, "Two nodes of Ray", "Each command, undisturbed and not.")
    page.table(["command", "what happened", "after chunks", "of", "rows missing", "rows twice",
                "largest difference of a number", "other differences"])  # fmt: skip
    with tempfile.TemporaryDirectory() as name, TwoNodes() as nodes:
        os.environ["UNITAIL_CACHE_BYTES"] = "0"
        faults = sum(
            disturb(command, Path(name) / command.name, nodes, page, args)
            for command in commands(Path(name), args.sounds)
            if not args.only or command.name in args.only
        )
    page.text(f"Faults: {faults}.")
    raise SystemExit(1 if faults else 0)


def disturb(
    command: Command, place: Path, nodes: TwoNodes, page: Page, args: argparse.Namespace
) -> int:
    """Run a command on two nodes with and without disturbances; count faults."""
    run(command, place / "local", "--workers", 2)
    wanted, faults = result_of(command, place / "local"), 0
    chunks = -(-(2 * args.sounds + 1) // CHUNK_ROWS)
    acts = {"a worker was killed": kill_a_worker, "a node was removed": nodes.remove}
    full = ["the disk was full"] if can_mount(place / "probe") else []
    for number, what in enumerate(["nothing", *args.repeats * list(acts), *full]):
        out, counts = place / str(number), list[int]()
        if what in acts:
            when = random.randint(2, chunks * 2 // 3)
            with after_chunks(out, when, acts[what]) as counts:
                run(command, out, *nodes.engine)
        elif what in full:
            counts = [fill_the_disk(command, out, *nodes.engine)]
        else:
            run(command, out, *nodes.engine)
        nodes.restore()
        missing, twice, far, odd = differences(wanted, result_of(command, out))
        faults += bool(missing or twice or far > CLOSE or odd or (what in acts and not counts))
        page.row(command.name, what, counts[0] if counts else "-", chunks, missing, twice,
                 f"{far:.1e}" if far else "0", ", ".join(odd) or "none")  # fmt: skip
    return faults


if __name__ == "__main__":
    main()
