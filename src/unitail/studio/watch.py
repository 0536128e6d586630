"""Detects files that vanish, change, come back or are added while a studio is open."""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from unitail.encoders.hashing import content_hash
from unitail.errors import UserError
from unitail.studio.catalogue import Catalogue

Stamp = tuple[int, int]
"""Size and modification time of a file."""


@dataclass(frozen=True)
class FileChanges:
    """Places of the files that differ from the last scan."""

    vanished: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()
    """Includes files that have come back."""

    def __bool__(self) -> bool:
        return bool(self.vanished or self.changed)


class TableState(StrEnum):
    """What has become of the table since the studio was opened on it."""

    SAME = ""
    CHANGED = "changed"
    GONE = "gone"
    UNREADABLE = "unreadable"


class Watch:
    """Compares sizes and times of all files, and of the table, with the last scan."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._stamps: dict[int, Stamp | None] = {}
        self._folders: dict[str, _Folder] = {}
        self._table = _Table.of(catalogue.source)
        self.follow(range(len(catalogue)))
        self.folders_changed()

    def follow(self, places: Iterable[int]) -> None:
        """Include these items in all later scans."""
        for place in places:
            path = self._catalogue.file(place)
            if path is not None:
                self._stamps[place] = _stamp(path)

    def scan(self) -> FileChanges:
        """Return the files that have vanished or changed since the last scan."""
        before, vanished, changed = self._stamps, [], []
        self._stamps = {place: self._current_stamp(place) for place in before}
        for place, stamp in self._stamps.items():
            if stamp is None and before[place] is not None:
                vanished.append(place)
            elif stamp is not None and stamp != before[place]:
                changed.append(place)
        return FileChanges(tuple(vanished), tuple(changed))

    def table_state(self) -> TableState:
        """Return whether the table has changed or gone since it was read."""
        return TableState.SAME if self._table is None else self._table.state()

    def folders_changed(self) -> bool:
        """Return whether any folder has gained or lost an entry since the last call."""
        before, self._folders = self._folders, {}
        waiting = [str(self._catalogue.source)] if self._catalogue.source.is_dir() else []
        while waiting:
            path = waiting.pop()
            with suppress(OSError):
                self._folders[path] = _Folder.at(path, before.get(path))
                waiting += self._folders[path].subfolders
        return self._folders != before

    def _current_stamp(self, place: int) -> Stamp | None:
        path = self._catalogue.file(place)
        return None if path is None else _stamp(path)


@dataclass(frozen=True)
class _Folder:
    """The state of a folder at some time."""

    time: int
    """Modification time: when an entry was last added or removed."""
    subfolders: tuple[str, ...]

    @classmethod
    def at(cls, path: str, before: "_Folder | None") -> "_Folder":
        """Return the state of a folder; its entries are read only if its time has changed."""
        time = os.stat(path).st_mtime_ns  # first: a later entry then changes the time again
        if before is not None and before.time == time:
            return before
        with os.scandir(path) as entries:
            folders = [each for each in entries if each.is_dir(follow_symlinks=False)]
        return cls(time, tuple(sorted(each.path for each in folders if each.name[0] != ".")))


class _Table:
    """A table's content when it was read; it is read again only if its size or time changes."""

    def __init__(self, path: Path) -> None:
        self._path, self._stamp = path, _stamp(path)
        self._content = content_hash(path)
        self._state = TableState.SAME

    @classmethod
    def of(cls, source: Path) -> "_Table | None":
        return None if source.is_dir() else cls(source)

    def state(self) -> TableState:
        stamp = _stamp(self._path)
        if stamp != self._stamp or self._state is TableState.UNREADABLE:
            self._stamp = stamp  # access may come back without a new time
            self._state = self._compare()
        return self._state

    def _compare(self) -> TableState:
        try:
            is_same = content_hash(self._path) == self._content
        except UserError:
            return TableState.GONE if self._stamp is None else TableState.UNREADABLE
        return TableState.SAME if is_same else TableState.CHANGED


def _stamp(path: Path) -> Stamp | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
