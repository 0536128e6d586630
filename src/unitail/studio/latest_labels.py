"""Classes and labels in memory, as the store last told of them."""

import threading
from dataclasses import dataclass

from unitail.studio.catalogue import Catalogue
from unitail.studio.changes import ASIDE, ClassRow, LabelRow, Snapshot


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
