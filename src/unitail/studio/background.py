"""Threads beside each other: some let all others go first, some share the cores."""

import os
import sys
import threading

import torch

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
