"""The processes that share some work: one alone, or those that a launcher started."""

import multiprocessing
import os
import threading
from datetime import timedelta
from multiprocessing.context import BaseContext
from typing import Any, Self

import torch

from unitail.devices import has_accelerator
from unitail.errors import InvalidConfig, optional

FORKED = "forkserver"
TIMEOUT = timedelta(days=7)
"""How long a process waits for the others, which may have slower devices."""


class ProcessGroup:
    """One process among all that share the work."""

    def __init__(self, state: Any = None) -> None:  # noqa: ANN401 - accelerate has no types here
        self._state = state
        """What accelerate knows of the processes; None if this one is alone."""

    @classmethod
    def join(cls, *, cpu: bool) -> Self:
        """Join the processes that torchrun or `accelerate launch` started, if one of them did.

        Without `cpu` each gets a GPU of its own, where there are any.
        """
        if launched() == 1:
            return cls()
        for name in ("RANK", "LOCAL_RANK"):
            _number(name, "0")  # in a sentence, where accelerate would end in a traceback
        accelerate = optional("accelerate", extra="train")
        return cls(accelerate.PartialState(cpu=cpu or not has_accelerator(), timeout=TIMEOUT))

    @property
    def index(self) -> int:
        """The number of this process, from 0."""
        return 0 if self._state is None else int(self._state.process_index)

    @property
    def count(self) -> int:
        """The number of processes."""
        return 1 if self._state is None else int(self._state.num_processes)

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and speaks."""
        return self.index == 0

    def wait(self) -> None:
        """Wait for all others to come as far."""
        if self._state is not None:
            self._state.wait_for_everyone()

    def leave(self) -> None:
        """Part from the others, after the last word: else a group may abort while Python ends."""
        if self._state is not None:
            self._state.destroy_process_group()


def ready_to_fork(*modules: str) -> BaseContext:
    """Return how processes are started: forked from one that has imported all, where that is."""
    if FORKED not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context(FORKED)
    context.set_forkserver_preload(list(modules))
    return context


def threads_of_each(count: int) -> int:
    """Share the cores among this many processes; none gets more than OMP_NUM_THREADS says.

    Sums are taken in another order by more threads, so their last bits differ.
    """
    return max(1, min(torch.get_num_threads(), (os.cpu_count() or 1) // count))


def end_with_parent() -> None:
    """Let this process end with the one that started it, even if that was killed.

    Else it would go on working for nobody, and hold the locks of what it writes.
    """
    parent = multiprocessing.parent_process()

    def watch() -> None:
        assert parent is not None
        parent.join()
        os._exit(1)

    if parent is not None:
        threading.Thread(target=watch, daemon=True, name="watch the parent").start()


def launched() -> int:
    """Return how many processes a launcher started, this one among them."""
    return _number("WORLD_SIZE", "1")


def _number(name: str, usual: str) -> int:
    """Read a variable that launchers set."""
    value = os.environ.get(name, usual)
    if not value.isdecimal():
        raise InvalidConfig(
            f"the environment variable {name} is not a number of processes",
            got=repr(value),
            allowed="what torchrun sets",
            remedy="Start with torchrun, or remove the variable.",
        )
    return int(value)


def require_alone(command: str) -> None:
    """Refuse to let each process of a launcher do all of the work of a command."""
    if launched() > 1:
        raise InvalidConfig(
            f"`unitail {command}` does not share its work with processes of a launcher",
            got=f"{launched()} processes",
            allowed="one process",
            remedy=f"Run `unitail {command} ... --workers {launched()}`, without torchrun.",
        )
