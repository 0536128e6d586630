"""What holds now, in memory: classes and labels as the store last told of them, and answers."""

import math
import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unitail.studio.catalogue import Catalogue
from unitail.studio.changes import ASIDE, ClassRow, LabelRow, Snapshot

NONE = -1
"""In place of a class where there is no answer."""
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Labelled:
    """The labelled items that answers rest on."""

    revision: int
    places: tuple[int, ...]
    class_ids: tuple[int, ...]
    aside: frozenset[int]
    """Items that belong to no class."""

    @property
    def support(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What answers depend on."""
        return self.places, self.class_ids


class Labels:
    """What is said of the items of a catalogue; threads may share it."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._lock = threading.Lock()
        self._classes: dict[int, ClassRow] = {}
        self._labels: dict[int, LabelRow] = {}
        self._elsewhere: dict[str, LabelRow] = {}
        self.revision = -1

    def take(self, snapshot: Snapshot) -> None:
        """Learn what has changed."""
        with self._lock:
            self._classes.update({row.id: row for row in snapshot.classes})
            for row in snapshot.labels:
                place = self._catalogue.places.get(row.item)
                if place is None:
                    self._elsewhere[row.item] = row
                else:
                    self._labels[place] = row
            self.revision = snapshot.revision

    def snapshot(self) -> Snapshot:
        """Return all that is known of classes, and of items that are there."""
        with self._lock:
            rows = tuple(self._classes.values()), tuple(self._labels.values())
            return Snapshot(self.revision, *rows)

    def find_back(self) -> Snapshot:
        """Return, and keep by place, the labels of items that are there now and were not."""
        with self._lock:
            places = self._catalogue.places
            back = [row for row in self._elsewhere.values() if row.item in places]
            for row in back:
                del self._elsewhere[row.item]
                self._labels[places[row.item]] = row
            return Snapshot(self.revision, labels=tuple(back))

    def classes(self) -> list[ClassRow]:
        """Return the classes that there are, in the order in which they were made."""
        with self._lock:
            rows = [row for row in self._classes.values() if not row.deleted]
        return sorted(rows, key=lambda row: row.id)

    def rows(self) -> dict[int, LabelRow]:
        """Return the rows of all items that somebody ever labelled, by place."""
        with self._lock:
            return dict(self._labels)

    def row(self, place: int) -> LabelRow:
        """Return what is said of an item."""
        with self._lock:
            return self._labels.get(place) or LabelRow(self._catalogue.keys[place], None)

    def labelled(self) -> Labelled:
        """Return what answers rest on."""
        with self._lock:
            alive = {row.id for row in self._classes.values() if not row.deleted}
            pairs = sorted(
                (place, row.class_id)
                for place, row in self._labels.items()
                if row.class_id is not None and row.class_id in alive
            )
            aside = frozenset(place for place, row in self._labels.items() if row.class_id == ASIDE)
            places = tuple(place for place, _ in pairs)
            return Labelled(self.revision, places, tuple(each for _, each in pairs), aside)

    def missing(self) -> list[LabelRow]:
        """Return what is said of items that are not there any more, in the order of their keys."""
        with self._lock:
            rows = [row for row in self._elsewhere.values() if row.class_id is not None]
        return sorted(rows, key=lambda row: row.item)


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
