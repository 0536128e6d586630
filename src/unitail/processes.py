"""Where work runs: on a device; in one process, or in those that a launcher started."""

import multiprocessing
import os
import threading
from datetime import timedelta
from multiprocessing.context import BaseContext
from typing import Any, Self

import torch

from unitail.errors import InvalidConfig, optional

FORKED = "forkserver"
TIMEOUT = timedelta(days=7)
"""How long a process waits for the others, whose devices may be slower."""


class ProcessGroup:
    """One process among all that share the work."""

    def __init__(self, state: Any = None) -> None:  # noqa: ANN401 - accelerate has no types here
        self._state = state
        """Accelerate's state; None if this process is the only one."""

    @classmethod
    def join(cls, *, cpu: bool) -> Self:
        """Join the processes that torchrun or `accelerate launch` started, if there are any.

        Unless `cpu` is set, each process gets its own GPU, where there are GPUs.
        """
        if launched() == 1:
            return cls()
        for name in ("RANK", "LOCAL_RANK"):
            _number(name, "0")  # raises a readable error, where accelerate shows a traceback
        accelerate = optional("accelerate", extra="train")
        return cls(accelerate.PartialState(cpu=cpu or not has_accelerator(), timeout=TIMEOUT))

    @property
    def index(self) -> int:
        """The index of this process, from 0."""
        return 0 if self._state is None else int(self._state.process_index)

    @property
    def count(self) -> int:
        """The number of processes."""
        return 1 if self._state is None else int(self._state.num_processes)

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints messages."""
        return self.index == 0

    def wait(self) -> None:
        """Wait until all processes have reached this call."""
        if self._state is not None:
            self._state.wait_for_everyone()

    def leave(self) -> None:
        """Leave the group, as the last step; otherwise it may abort while Python shuts down."""
        if self._state is not None:
            self._state.destroy_process_group()


def ready_to_fork(*modules: str) -> BaseContext:
    """Return a multiprocessing context; where possible, a fork server that has the modules."""
    if FORKED not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context(FORKED)
    context.set_forkserver_preload(list(modules))
    return context


def threads_of_each(count: int) -> int:
    """Return the number of threads for each of `count` processes, at most OMP_NUM_THREADS.

    The number of threads changes the order of summation, so the last bits of results may differ.
    """
    return max(1, min(torch.get_num_threads(), (os.cpu_count() or 1) // count))


def end_with_parent() -> None:
    """Make this process exit when its parent does, even if the parent is killed.

    Otherwise it would keep working without a purpose, and hold the locks on its output.
    """
    parent = multiprocessing.parent_process()

    def watch() -> None:
        assert parent is not None
        parent.join()
        os._exit(1)

    if parent is not None:
        threading.Thread(target=watch, daemon=True, name="watch the parent").start()


def launched() -> int:
    """Return the number of processes that a launcher started, including this one."""
    return _number("WORLD_SIZE", "1")


def _number(name: str, default: str) -> int:
    """Return the value of an environment variable that launchers set."""
    value = os.environ.get(name, default)
    if not value.isdecimal():
        raise InvalidConfig(
            f"the environment variable {name} is not a number of processes",
            got=repr(value),
            allowed="what torchrun sets",
            remedy="Start with torchrun, or remove the variable.",
        )
    return int(value)


def choose_device(name: object) -> torch.device:
    """Return the device called `name`; "auto" is a CUDA device if there is one, else the CPU."""
    cuda = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if cuda else "cpu")
    try:
        device = torch.device(name)  # type: ignore[call-overload]
        torch.empty(0, device=device).cpu()  # fails where there is no such device, or no values
    except (RuntimeError, TypeError, AssertionError) as error:
        raise InvalidConfig(
            "device is unknown",
            got=repr(name),
            allowed=f"auto, cpu{', cuda' if cuda else ''} or another device of this machine",
            remedy="Name another device, or none.",
        ) from error
    return device  # type: ignore[no-any-return]


def has_accelerator() -> bool:
    """Return whether each process can use a device of its own; Apple's MPS devices do not count.

    Without such devices, accelerate has to be told to use the CPU; otherwise every process runs as
    if it were the only one.
    """
    device = torch.accelerator.current_accelerator(check_available=True)
    return device is not None and device.type != "mps"
