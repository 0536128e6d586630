"""The latest answer of each item."""

import math
import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NONE = -1
"""In place of a class where there is no answer."""

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Answered:
    """The answers of some items."""

    turn: int
    """Counts up whenever the labels that they rest on change."""
    places: Places
    versions: Places
    """Of the vectors that were asked."""
    class_ids: NDArray[np.int64]
    """The two most probable classes of each item, (n, 2); `NONE` if there is none."""
    probabilities: NDArray[np.float64]
    """(n, 2)."""
    novelty: NDArray[np.float64] | None = None
    """Is known later than the rest."""


class LatestAnswers:
    """The latest answer of each item; threads may share it."""

    def __init__(self, size: int) -> None:
        self._lock = threading.Lock()
        self._turns = np.full(size, NONE, dtype=np.int64)
        self._versions = np.full(size, NONE, dtype=np.int64)
        self._class_ids = np.full((size, 2), NONE, dtype=np.int64)
        self._probabilities = np.zeros((size, 2))
        self._novelty = np.zeros(size)
        self._has_novelty = np.zeros(size, dtype=bool)
        """Whether it is that of the vector and turn that were answered."""

    def grow(self, size: int) -> None:
        """Make room for items that are new."""
        with self._lock:
            more = size - len(self._turns)
            self._turns = np.pad(self._turns, (0, more), constant_values=NONE)
            self._versions = np.pad(self._versions, (0, more), constant_values=NONE)
            self._class_ids = np.pad(self._class_ids, ((0, more), (0, 0)), constant_values=NONE)
            self._probabilities = np.pad(self._probabilities, ((0, more), (0, 0)))
            self._novelty = np.pad(self._novelty, (0, more))
            self._has_novelty = np.pad(self._has_novelty, (0, more))

    def put(self, answered: Answered) -> None:
        """Take answers in."""
        with self._lock:
            self._turns[answered.places] = answered.turn
            self._versions[answered.places] = answered.versions
            self._class_ids[answered.places] = answered.class_ids
            self._probabilities[answered.places] = answered.probabilities
            self._has_novelty[answered.places] = answered.novelty is not None
            if answered.novelty is not None:
                self._novelty[answered.places] = answered.novelty

    def put_novelty(self, places: Places, novelty: NDArray[np.float64]) -> None:
        """Add how novel items are to their answers."""
        with self._lock:
            self._novelty[places] = novelty
            self._has_novelty[places] = True

    def without_novelty(self, places: Places) -> Places:
        """Return those of the places whose answers have no novelty yet."""
        with self._lock:
            chosen: Places = places[~self._has_novelty[places]]
            return chosen

    def stale(self, places: Places, versions: Places, turn: int) -> Places:
        """Return those of the places that have no answer of this turn to this vector."""
        with self._lock:
            old = (self._turns[places] != turn) | (self._versions[places] != versions)
            chosen: Places = places[old]
            return chosen

    def at(self, places: Places) -> Answered:
        """Return the answers at some places."""
        with self._lock:
            turn = int(self._turns[places].min()) if len(places) else NONE
            return Answered(
                turn,
                places,
                self._versions[places],
                self._class_ids[places],
                self._probabilities[places],
                self._novelty[places],
            )


def in_chunks(places: Places, most: int, threads: int) -> list[Places]:
    """Cut places into chunks of equal size, `most` at most, and as many for each thread."""
    count = math.ceil(len(places) / most)
    count += -count % threads if count > 1 else 0
    return np.array_split(places, count) if count else []
