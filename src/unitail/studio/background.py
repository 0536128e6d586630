"""Threads beside each other: some let all others go first, some share the cores."""

import os
import sys
import threading

import torch
from threadpoolctl import threadpool_limits

from unitail.processes import threads_of_each

NICENESS = 10
"""Of a thread that steps back; others have 0."""


def step_back() -> None:
    """Let this thread run only when others leave it time, where the system knows such threads.

    Those that it starts later do the same. On Linux a thread is scheduled by itself; elsewhere it
    would be the whole process, and nothing is done.
    """
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def share_cores() -> None:
    """Let this thread compute with its share of the cores, where two answer side by side.

    With all of them each, both would wait for each other's.
    """
    torch.set_num_threads(threads_of_each(2))


def share_behind() -> None:
    """Do both: compute with a share of the cores, when others leave it time."""
    step_back()
    share_cores()


def calm_numpy() -> threadpool_limits:
    """Let numpy multiply in the thread that asks, in the whole process; return how to end that.

    Its own threads go on turning for a tenth of a second after each product, at the priority of
    the process, in case there is another: beside two threads that answer, they are a third.
    """
    return threadpool_limits(1, user_api="blas")
