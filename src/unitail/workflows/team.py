"""The processes that encode together: one, or those that a launcher started."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from unitail.extras import optional

PATIENCE = timedelta(days=7)
"""How long a process waits for the others, which may have slower devices."""


def _go_on() -> None:
    """Wait for nobody."""


@dataclass(frozen=True)
class Team:
    """A process among all that share the work."""

    index: int = 0
    """Its number, from 0."""
    count: int = 1
    wait: Callable[[], None] = _go_on
    """Waits for all others to come as far."""


def find_team(*, cpu: bool) -> Team:
    """Join the processes that torchrun or `accelerate launch` started, if one of them did.

    Without `cpu` each gets a GPU of its own, where there are any.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Team()
    state = optional("accelerate", extra="train").PartialState(cpu=cpu, timeout=PATIENCE)
    return Team(int(state.process_index), int(state.num_processes), state.wait_for_everyone)
