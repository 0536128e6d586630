"""Commands that run out of memory, in the main thread or in others."""

from pathlib import Path

import pytest

from helpers.forks import finish, fork
from unitail.cli.memory import PLAIN, is_scarce, no_memory

COMMAND = """
import concurrent.futures, resource, threading
from concurrent.futures.thread import ThreadPoolExecutor, _WorkItem
from pathlib import Path
from unitail.cli import main

def fail(*args, **options):
    raise MemoryError

def limit(mib):
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    bytes = pages * resource.getpagesize() + mib * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (bytes, bytes))

def app():
    {work}

main.app = app
main.main()
"""
WAITS = {
    "before its work": "threading.Thread._set_ident = fail; threading.Thread(target=fail).start()",
    "in it": "threading.Thread(target=fail).start(); threading.Event().wait()",
    "in a pool": "_WorkItem.run = fail; ThreadPoolExecutor().submit(print).result()",
}


@pytest.mark.parametrize("when", WAITS)
def test_a_thread_that_dies_for_want_of_memory_ends_the_command(when: str, tmp_path: Path) -> None:
    """Without this the command waits for ever for what the thread was to do."""
    output = tmp_path / "output"
    assert finish(fork(COMMAND.format(work=WAITS[when]), output=output)) == 2
    assert output.read_bytes() == PLAIN


def test_other_errors_of_threads_are_reported_as_usual(tmp_path: Path) -> None:
    output = tmp_path / "output"
    work = "thread = threading.Thread(target=int, args=['x']); thread.start(); thread.join()"
    assert finish(fork(COMMAND.format(work=work), output=output)) == 0
    assert "ValueError: invalid literal for int()" in output.read_text()


def test_an_odd_error_is_about_memory_if_there_is_hardly_any(tmp_path: Path) -> None:
    """As where Python's own code fails to say why, in the middle of an import."""
    output, odd = tmp_path / "output", 'raise SystemError("error return without exception set")'
    assert finish(fork(COMMAND.format(work=f"limit(64); {odd}"), output=output)) == 2
    assert output.read_text() == f"unitail: {no_memory('error return without exception set')}\n"
    assert finish(fork(COMMAND.format(work=f"limit(512); {odd}"), output=output)) == 70
    assert "Traceback" in output.read_text()
    assert not is_scarce()


def test_the_sentence_is_ready_where_none_can_be_made(tmp_path: Path) -> None:
    output = tmp_path / "output"
    work = "import sys; sys.stderr.write = fail; raise MemoryError('9 GB')"
    assert finish(fork(COMMAND.format(work=work), output=output)) == 2
    assert output.read_bytes() == PLAIN
