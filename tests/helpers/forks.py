"""Processes of their own that start at once: forked from one that has imported everything.

A new interpreter needs seconds to import torch. What is tested here is a command that is killed,
that meets a limit, or that works beside others; that an interpreter starts is tested elsewhere.
"""

import multiprocessing
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Self

import torch

COMMAND = "from unitail.cli.main import main; main()"
"""The `unitail` command, as code."""
KILLED_AFTER_A_RESULT = f"""
import os, signal
from unitail.benchmark.store import ResultStore
whole = ResultStore.write
def half(*arguments):
    whole(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
ResultStore.write = half
{COMMAND}
"""
"""The command, killed as soon as it has written the first file of a benchmark."""
RUN_SCRIPT = """
import runpy, sys
from pathlib import Path
from typing import Self
sys.argv = sys.argv[1:]
sys.path.insert(0, str(Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
TIMEOUT = 600
_SERVER = multiprocessing.get_context("forkserver")
_COMMANDS = [f"unitail.cli.{name}" for name in ("main", "predict", "train", "encode", "bench")]
_LATER = ["accelerate", "torch._dynamo", "torch.distributed.fsdp"]  # imported by what they run
_SERVER.set_forkserver_preload([*_COMMANDS, *_LATER])


def fork(
    code: str, *arguments: object, output: Path, variables: Mapping[str, object] | None = None
) -> ForkServerProcess:
    """Start Python code with its arguments; its output goes to a file."""
    plain = {name: str(value) for name, value in (variables or {}).items()}
    process = _SERVER.Process(target=_run, args=(code, [*map(str, arguments)], output, plain))
    process.start()
    return process


def finish(process: ForkServerProcess) -> int:
    """Wait for a process to end, and return its exit code: less than zero is a signal."""
    process.join(TIMEOUT)
    if process.exitcode is None:
        process.kill()
        raise AssertionError("a process did not come to its end")
    return process.exitcode


def line_of(output: Path, process: ForkServerProcess, pattern: str) -> re.Match[str]:
    """Wait until a process has written a line that matches, and return the match."""
    end = time.monotonic() + TIMEOUT
    while True:
        ended = not process.is_alive() or time.monotonic() > end
        said = output.read_text() if output.exists() else ""
        whole = said[: said.rfind("\n") + 1]
        if match := re.search(pattern, whole):
            return match
        assert not ended, said
        time.sleep(0.02)


def run_forked(command: Sequence[object], **_: object) -> subprocess.CompletedProcess[str]:
    """Run Python code or a script as `subprocess.run` does; stdout and stderr are one output."""
    _, *rest = map(str, command)
    code, arguments = (rest[1], rest[2:]) if rest[0] == "-c" else (RUN_SCRIPT, rest)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output"
        done = finish(fork(code, *arguments, output=output))
        return subprocess.CompletedProcess(rest, done, stdout=output.read_text())


class ForkedPopen:
    """A script that is talked to, as with `subprocess.Popen` and two pipes of text."""

    def __init__(self, command: Sequence[object], *, env: Mapping[str, str], **_: object) -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        for name in ("stdin", "output"):
            os.mkfifo(folder / name)
        code = f"import sys; sys.stdin = open(sys.argv.pop(1)){RUN_SCRIPT}"
        arguments = [folder / "stdin", *command[1:]]
        self._process = fork(code, *arguments, output=folder / "output", variables=env)
        self.stdout = (folder / "output").open()
        self.stdin = (folder / "stdin").open("w")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdin.close()
        assert finish(self._process) == 0
        self.stdout.close()
        self._folder.cleanup()


def fork_group(
    code: str, *arguments: object, output: Path, variables: Mapping[str, object] | None = None
) -> str:
    """Run code in two processes as torchrun would start them; return all that they say.

    A group of gloo processes may abort after its work is done: judge by files.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    group = {"WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **(variables or {})}
    processes = [
        fork(
            code,
            *arguments,
            output=output.with_suffix(f".{rank}"),
            variables={**group, "RANK": rank, "LOCAL_RANK": rank},
        )
        for rank in range(2)
    ]
    for process in processes:
        finish(process)
    return "".join(output.with_suffix(f".{rank}").read_text() for rank in range(2))


def _run(code: str, arguments: list[str], output: Path, variables: Mapping[str, str]) -> None:
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.environ.update(variables)
    torch.set_num_threads(1)
    sys.argv = ["unitail", *arguments]
    exec(code, {"__name__": "__main__"})
