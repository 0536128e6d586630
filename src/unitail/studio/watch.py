"""What happens to files while a studio is open: some vanish, change, come back, or are new."""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from unitail.studio.catalogue import Catalogue

Stamp = tuple[int, int]
"""Size and time of a file."""


@dataclass(frozen=True)
class SeenFile:
    """What is different from the last look."""

    vanished: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()
    """Those that are back among them."""

    def __bool__(self) -> bool:
        return bool(self.vanished or self.changed)


class Watch:
    """Looks at size and time of all files; texts and rows of tables are not looked at again."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._stamps: dict[int, Stamp | None] = {}
        self._folders: dict[str, _Folder] = {}
        self.follow(range(len(catalogue)))
        self.folders_changed()

    def follow(self, places: Iterable[int]) -> None:
        """Look at these items from now on."""
        for place in places:
            path = self._catalogue.file(place)
            if path is not None:
                self._stamps[place] = _stamp(path)

    def look(self) -> SeenFile:
        """Return what has happened since the last look."""
        before, vanished, changed = self._stamps, [], []
        self._stamps = {place: self._now(place) for place in before}
        for place, stamp in self._stamps.items():
            if stamp is None and before[place] is not None:
                vanished.append(place)
            elif stamp is not None and stamp != before[place]:
                changed.append(place)
        return SeenFile(tuple(vanished), tuple(changed))

    def folders_changed(self) -> bool:
        """Tell whether something was put into a folder, or taken out, since this was last asked."""
        before, self._folders = self._folders, {}
        waiting = [str(self._catalogue.source)] if self._catalogue.source.is_dir() else []
        while waiting:
            path = waiting.pop()
            with suppress(OSError):
                self._folders[path] = _Folder.at(path, before.get(path))
                waiting += self._folders[path].subfolders
        return self._folders != before

    def _now(self, place: int) -> Stamp | None:
        path = self._catalogue.file(place)
        return None if path is None else _stamp(path)


@dataclass(frozen=True)
class _Folder:
    """A folder as it was at some time."""

    time: int
    """When something was last put into it, or taken out."""
    subfolders: tuple[str, ...]

    @classmethod
    def at(cls, path: str, known: "_Folder | None") -> "_Folder":
        """Look at a folder; what is in it is read only if that has changed."""
        time = os.stat(path).st_mtime_ns  # before it is read: what comes later changes it again
        if known is not None and known.time == time:
            return known
        with os.scandir(path) as entries:
            own = [each for each in entries if each.is_dir(follow_symlinks=False)]
        return cls(time, tuple(sorted(each.path for each in own if each.name[0] != ".")))


def _stamp(path: Path) -> Stamp | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
