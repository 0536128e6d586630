"""Work that may wait: threads that let all others go first."""

import os
import sys
import threading

NICENESS = 10
"""Of a thread that steps back; others have 0."""


def step_back() -> None:
    """Let this thread run only when others leave it time, where the system knows such threads.

    Those that it starts later do the same. On Linux a thread is scheduled by itself; elsewhere it
    would be the whole process, and nothing is done.
    """
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
