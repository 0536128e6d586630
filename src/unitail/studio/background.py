"""Thread settings: lower priority for background work, and fewer cores for threads that share."""

import os
import sys
import threading

import torch
from threadpoolctl import threadpool_limits

from unitail.processes import threads_of_each

NICENESS = 10
"""Nice value of a background thread; the others have 0."""


def lower_priority() -> None:
    """Lower the priority of this thread and of those it starts; does nothing except on Linux.

    Linux schedules threads one by one; elsewhere this would slow down the whole process.
    """
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def share_cores() -> None:
    """Let this thread use half of the cores, since two threads answer at the same time.

    If each used all of them, both would wait for each other.
    """
    torch.set_num_threads(threads_of_each(2))


def share_cores_in_background() -> None:
    """Lower the priority of this thread, and let it use half of the cores."""
    lower_priority()
    share_cores()


def limit_numpy_threads() -> threadpool_limits:
    """Limit numpy to one thread in this process; return the object that restores the old limit.

    Its threads keep spinning for a tenth of a second after each product, at the priority of the
    process, in case there is another one: they would take cores from the threads that answer.
    """
    return threadpool_limits(1, user_api="blas")
