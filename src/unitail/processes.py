"""The processes that share some work: one alone, or those that a launcher started."""

import os
from datetime import timedelta
from typing import Any, Self

from unitail.extras import optional

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
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        return cls(optional("accelerate", extra="train").PartialState(cpu=cpu, timeout=TIMEOUT))

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
