"""Work in forked processes, under limits.

A new interpreter takes seconds to import torch. So everything is imported once, and each case runs
in a fork of that process, with limits on its time and on the memory it may add.
"""

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import torch

GIB = 2**30
SECONDS = 30
"""Limit of CPU seconds after which a case counts as hanging."""
PATIENCE = 10
"""Wall-clock limit per CPU second, since other processes may use the cores."""
STDOUT, STDERR = "stdout.txt", "stderr.txt"


@dataclass(frozen=True)
class Outcome:
    """How a process ended."""

    code: int
    """Exit code; negative for the signal that ended it."""
    seconds: float
    peak: int
    """Peak memory in bytes, including that of the parent process it was forked from."""
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Started:
    """A forked process and the files of its output."""

    pid: int
    log: Path
    since: float


def forked(
    work: Callable[[], object],
    log: Path,
    *,
    folder: Path | None = None,
    seconds: float = SECONDS,
    memory: int | None = 3 * GIB,
    prepare: Callable[[], None] = lambda: None,
) -> Outcome:
    """Run work in a fork to its end, with its output in files in `log`."""
    return wait(start(work, log, folder=folder, seconds=seconds, memory=memory, prepare=prepare))


def start(
    work: Callable[[], object],
    log: Path,
    *,
    folder: Path | None = None,
    seconds: float = SECONDS,
    memory: int | None = 3 * GIB,
    prepare: Callable[[], None] = lambda: None,
) -> Started:
    """Start work in a fork; `prepare` is called there after the limits are set."""
    log.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    since = time.monotonic()
    pid = os.fork()
    if pid:
        return Started(pid, log, since)
    code = 99
    try:
        _redirect(log)
        if folder is not None:
            os.chdir(folder)
        if memory is not None:
            limit = _mapped() + memory
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE * seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (ceil(seconds), ceil(seconds) + 1))
        prepare()
        code = _exit_code(work)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def wait(process: Started) -> Outcome:
    """Wait for a process to end."""
    _, status, usage = os.wait4(process.pid, 0)
    return ended(process, status, usage)


def ended(process: Started, status: int, usage: resource.struct_rusage) -> Outcome:
    """Return the outcome of a process from its wait status."""
    return Outcome(
        code=os.waitstatus_to_exitcode(status),
        seconds=time.monotonic() - process.since,
        peak=usage.ru_maxrss * 1024,
        stdout=_read(process.log / STDOUT),
        stderr=_read(process.log / STDERR),
    )


def _read(path: Path) -> str:
    """Read the output of a process; empty if it was killed before writing any."""
    return path.read_text(errors="replace") if path.exists() else ""


def command(*arguments: object) -> Callable[[], object]:
    """Return the work of the `unitail` command with these arguments."""
    from unitail.cli.main import main

    def run() -> None:
        sys.argv = ["unitail", *(os.fsdecode(str(argument)) for argument in arguments)]
        main()

    return run


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return the contents of files below a folder, by name; folders have none."""
    return {
        os.fsdecode(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def _exit_code(work: Callable[[], object]) -> int:
    try:
        work()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 70
    return 0


def _redirect(log: Path) -> None:
    for name, number in ((STDOUT, 1), (STDERR, 2)):
        file = os.open(log / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(file, number)
        os.close(file)
    sys.stdout = os.fdopen(1, "w", closefd=False, encoding="utf-8")
    sys.stderr = os.fdopen(
        2, "w", closefd=False, encoding="utf-8", errors="backslashreplace", buffering=1
    )
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)


def _mapped() -> int:
    """Return the bytes of address space in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


torch.set_num_threads(1)  # a fork has none of its parent's threads
