"""What a command does where memory ends: one sentence and exit code 2, whoever is hit by it.

Python and the libraries below it have many errors for want of memory, and some are not its own: an
import that half succeeds, a call that fails without saying why. A thread that gets no memory may
die before it can tell whoever waits for it, who would then wait for ever.
"""

import logging
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from unitail.errors import UserError
from unitail.wording import excerpt

NO_MEMORY = (
    "allocate memory",
    "out of memory",
    "bad_alloc",
    "can't start new thread",
    "failed to map segment",
)
"""What errors say where there is no more memory."""
SPARE = 2**27
"""Bytes that a process has to spare, else whatever goes wrong in it does so for want of memory."""
POOLS = "concurrent.futures"
"""The logger to which pools of threads tell how they die."""
REFUSED = 2
"""Exit code of an error that the caller can fix."""


def is_about_memory(error: BaseException | None) -> bool:
    """Tell whether memory was refused; torch and the loader of libraries have no type for it.

    An error of cleaning up after that counts, too.
    """
    while error is not None:
        if isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY):
            return True
        error = error.__context__
    return False


def is_scarce() -> bool:
    """Tell whether there is hardly any memory left; what is asked for here is never touched."""
    try:
        bytes(SPARE)
    except MemoryError:
        return True
    return False


def no_memory(said: str = "") -> UserError:
    """Return the error for a user."""
    return UserError(
        "the memory does not suffice",
        got=excerpt(said) or "no more of it",
        allowed="what this machine, or the limit on this process, leaves",
        remedy="Give fewer or smaller items at a time, or more memory.",
    )


PLAIN = f"unitail: {no_memory()}\n".encode()
"""Ready to be written: where memory has ended, there is none for a sentence."""


def say_no_memory(error: BaseException) -> None:
    """Say it, with what the error says if there is room for that."""
    try:
        traceback.clear_frames(error.__traceback__)  # and all that they hold
        sys.stderr.write(f"unitail: {no_memory(str(error))}\n")
        sys.stderr.flush()
    except MemoryError:
        os.write(2, PLAIN)


@contextmanager
def threads_end_the_command() -> Iterator[None]:
    """End this process, as if by a kill, where a thread dies for want of memory.

    What the work of a thread raises goes to whoever waits for it, as ever. This is about threads
    that die before or after their work, which nobody hears of.
    """

    def end(error: BaseException | None) -> None:
        if is_about_memory(error) or (error is not None and is_scarce()):
            os.write(2, PLAIN)
            os._exit(REFUSED)

    def in_thread(args: threading.ExceptHookArgs) -> None:
        end(args.exc_value)
        usual[0](args)

    def unraisable(args: Any) -> None:  # noqa: ANN401 - its type has no name
        if "thread" in str(args.err_msg):  # it did not even begin
            end(args.exc_value)
        if not is_about_memory(args.exc_value):  # else it is said once, by who asked for it
            usual[1](args)

    def in_pool(record: logging.LogRecord) -> bool:
        end(record.exc_info[1] if record.exc_info else None)
        return True

    usual, pools = (threading.excepthook, sys.unraisablehook), logging.getLogger(POOLS)
    threading.excepthook, sys.unraisablehook = in_thread, unraisable
    pools.addFilter(in_pool)
    try:
        yield
    finally:
        threading.excepthook, sys.unraisablehook = usual
        pools.removeFilter(in_pool)
