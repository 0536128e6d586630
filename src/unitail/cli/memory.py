"""How a command ends when memory runs out: one sentence and exit code 2, in whatever thread.

Python and the libraries below it raise many errors when memory runs out, some of them unrelated at
first sight: a half-finished import, a call that fails without a reason. A thread that runs out of
memory may die before it can notify the thread that waits for it, which would then wait for ever.
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
"""Parts of the messages of errors that are raised when memory runs out."""
SPARE = 2**27
"""Bytes that must be free; with less, any error is taken to be caused by a lack of memory."""
POOLS = "concurrent.futures"
"""The logger where thread pools report why a thread died."""
REFUSED = 2
"""Exit code of an error that the caller can fix."""


def is_about_memory(error: BaseException | None) -> bool:
    """Return whether an error, or one before it, says that memory ran out.

    Torch and the dynamic loader have no exception type for this, so messages are compared.
    """
    while error is not None:
        if isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY):
            return True
        error = error.__context__
    return False


def is_scarce() -> bool:
    """Return whether `SPARE` bytes cannot be allocated; they are never written to."""
    try:
        bytes(SPARE)
    except MemoryError:
        return True
    return False


def no_memory(message: str = "") -> UserError:
    """Return the error for a user when memory runs out."""
    return UserError(
        "out of memory",
        got=excerpt(message) or "no free memory",
        allowed="as much as this machine, or the limit on this process, has left",
        remedy="Process fewer or smaller items at a time, or provide more memory.",
    )


PLAIN = f"unitail: {no_memory()}\n".encode()
"""The message, formatted in advance: without memory, nothing can be formatted."""


def print_no_memory(error: BaseException) -> None:
    """Print that memory ran out, with the error's own message if there is memory for that."""
    try:
        traceback.clear_frames(error.__traceback__)  # frees what they hold
        sys.stderr.write(f"unitail: {no_memory(str(error))}\n")
        sys.stderr.flush()
    except MemoryError:
        os.write(2, PLAIN)


@contextmanager
def threads_end_the_command() -> Iterator[None]:
    """End the process at once when a thread dies because memory ran out.

    Errors raised by the work of a thread reach the thread that waits for it, as usual. This is
    for threads that die before or after their work, which would otherwise go unnoticed.
    """

    def end(error: BaseException | None) -> None:
        if is_about_memory(error) or (error is not None and is_scarce()):
            os.write(2, PLAIN)
            os._exit(REFUSED)

    def in_thread(args: threading.ExceptHookArgs) -> None:
        end(args.exc_value)
        default[0](args)

    def unraisable(args: Any) -> None:  # noqa: ANN401 - its type has no name
        if "thread" in str(args.err_msg):  # the thread did not even start
            end(args.exc_value)
        if not is_about_memory(args.exc_value):  # these are reported once, by the caller
            default[1](args)

    def in_pool(record: logging.LogRecord) -> bool:
        end(record.exc_info[1] if record.exc_info else None)
        return True

    default, pools = (threading.excepthook, sys.unraisablehook), logging.getLogger(POOLS)
    threading.excepthook, sys.unraisablehook = in_thread, unraisable
    pools.addFilter(in_pool)
    try:
        yield
    finally:
        threading.excepthook, sys.unraisablehook = default
        pools.removeFilter(in_pool)
