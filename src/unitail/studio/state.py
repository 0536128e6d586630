"""The current state in memory: classes and labels as last read from the store, and answers."""

import math
import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unitail.studio.catalogue import Catalogue
from unitail.studio.stored_rows import ASIDE, ClassRow, LabelRow, Snapshot

NONE = -1
"""Class id of an item without an answer."""
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Labelled:
    """The labelled items at a revision."""

    revision: int
    places: tuple[int, ...]
    class_ids: tuple[int, ...]
    aside: frozenset[int]
    """Places of items labelled as belonging to none of the classes."""
    origins: tuple[str, ...]
    """How the label of each of `places` came about; see `Origin`."""
    versions: tuple[int, ...]
    """Revision that gave each of these labels: the newest has the largest."""

    @property
    def support(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Places and class ids: all that answers depend on."""
        return self.places, self.class_ids


class Labels:
    """The current classes and labels of a catalogue's items; threads may share it."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._lock = threading.Lock()
        self._classes: dict[int, ClassRow] = {}
        self._labels: dict[int, LabelRow] = {}
        self._missing: dict[str, LabelRow] = {}
        self.revision = -1

    def update(self, snapshot: Snapshot) -> None:
        """Apply the changes of a snapshot."""
        with self._lock:
            self._classes.update({row.id: row for row in snapshot.classes})
            for row in snapshot.labels:
                place = self._catalogue.places.get(row.item)
                if place is None:
                    self._missing[row.item] = row
                else:
                    self._labels[place] = row
            self.revision = snapshot.revision

    def snapshot(self) -> Snapshot:
        """Return all classes, and the labels of all items in the catalogue."""
        with self._lock:
            rows = tuple(self._classes.values()), tuple(self._labels.values())
            return Snapshot(self.revision, *rows)

    def reattach(self) -> Snapshot:
        """Attach the labels of missing items that are now in the catalogue, and return them."""
        with self._lock:
            places = self._catalogue.places
            reattached = [row for row in self._missing.values() if row.item in places]
            for row in reattached:
                del self._missing[row.item]
                self._labels[places[row.item]] = row
            return Snapshot(self.revision, labels=tuple(reattached))

    def classes(self) -> list[ClassRow]:
        """Return the classes that are not deleted, in the order in which they were created."""
        with self._lock:
            rows = [row for row in self._classes.values() if not row.deleted]
        return sorted(rows, key=lambda row: row.id)

    def rows(self) -> dict[int, LabelRow]:
        """Return the label rows of all items that were ever labelled, by place."""
        with self._lock:
            return dict(self._labels)

    def row(self, place: int) -> LabelRow:
        """Return the label row of an item; an empty one if it was never labelled."""
        with self._lock:
            return self._labels.get(place) or LabelRow(self._catalogue.keys[place], None)

    def labelled(self) -> Labelled:
        """Return the items that are labelled with a class, and those set aside."""
        with self._lock:
            class_ids = {row.id for row in self._classes.values() if not row.deleted}
            rows = sorted(
                (place, row.class_id, row.origin, row.version)
                for place, row in self._labels.items()
                if row.class_id is not None and row.class_id in class_ids
            )
            aside = frozenset(place for place, row in self._labels.items() if row.class_id == ASIDE)
        places, labels, origins, versions = zip(*rows, strict=True) if rows else ((), (), (), ())
        return Labelled(self.revision, places, labels, aside, origins, versions)

    def missing(self) -> list[LabelRow]:
        """Return the labels of items that are no longer in the catalogue, sorted by key."""
        with self._lock:
            rows = [row for row in self._missing.values() if row.class_id is not None]
        return sorted(rows, key=lambda row: row.item)


@dataclass(frozen=True, eq=False)
class Answered:
    """The answers of some items."""

    generation: int
    """Number of the fit that made them: a counter that increases with every new fit."""
    places: Places
    versions: Places
    """Versions of the vectors that were answered."""
    class_ids: NDArray[np.int64]
    """The two most probable classes of each item, (n, 2); `NONE` if there is none."""
    probabilities: NDArray[np.float64]
    """Probabilities of these classes, (n, 2)."""
    novelty: NDArray[np.float64] | None = None
    """None until it is computed, after the answers."""


class LatestAnswers:
    """The latest answer of each item; threads may share it."""

    def __init__(self, size: int) -> None:
        self._lock = threading.Lock()
        self._generations = np.full(size, NONE, dtype=np.int64)
        self._versions = np.full(size, NONE, dtype=np.int64)
        self._class_ids = np.full((size, 2), NONE, dtype=np.int64)
        self._probabilities = np.zeros((size, 2))
        self._novelty = np.zeros(size)
        self._has_novelty = np.zeros(size, dtype=bool)
        """Whether the novelty belongs to the same vector and generation as the answer."""

    def grow(self, size: int) -> None:
        """Make room for new items."""
        with self._lock:
            more = size - len(self._generations)
            self._generations = np.pad(self._generations, (0, more), constant_values=NONE)
            self._versions = np.pad(self._versions, (0, more), constant_values=NONE)
            self._class_ids = np.pad(self._class_ids, ((0, more), (0, 0)), constant_values=NONE)
            self._probabilities = np.pad(self._probabilities, ((0, more), (0, 0)))
            self._novelty = np.pad(self._novelty, (0, more))
            self._has_novelty = np.pad(self._has_novelty, (0, more))

    def put(self, answered: Answered) -> None:
        """Store answers."""
        with self._lock:
            self._generations[answered.places] = answered.generation
            self._versions[answered.places] = answered.versions
            self._class_ids[answered.places] = answered.class_ids
            self._probabilities[answered.places] = answered.probabilities
            self._has_novelty[answered.places] = answered.novelty is not None
            if answered.novelty is not None:
                self._novelty[answered.places] = answered.novelty

    def put_novelty(self, places: Places, novelty: NDArray[np.float64]) -> None:
        """Store the novelty of items that have answers."""
        with self._lock:
            self._novelty[places] = novelty
            self._has_novelty[places] = True

    def without_novelty(self, places: Places) -> Places:
        """Return the places among these whose answers have no novelty yet."""
        with self._lock:
            chosen: Places = places[~self._has_novelty[places]]
            return chosen

    def stale(self, places: Places, versions: Places, generation: int) -> Places:
        """Return the places whose answer is of another generation, or to another vector."""
        with self._lock:
            is_stale = (self._generations[places] != generation) | (
                self._versions[places] != versions
            )
            stale: Places = places[is_stale]
            return stale

    def at(self, places: Places) -> Answered:
        """Return the answers at some places."""
        with self._lock:
            generation = int(self._generations[places].min()) if len(places) else NONE
            return Answered(
                generation,
                places,
                self._versions[places],
                self._class_ids[places],
                self._probabilities[places],
                self._novelty[places],
            )


def in_chunks(places: Places, max_size: int, threads: int) -> list[Places]:
    """Cut places into equal chunks of at most `max_size`, the same number for each thread."""
    count = math.ceil(len(places) / max_size)
    count += -count % threads if count > 1 else 0
    return np.array_split(places, count) if count else []
