"""What happens to the files while a studio is open: some vanish, some change, some come back."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from unitail.studio.catalogue import Catalogue


@dataclass(frozen=True)
class Seen:
    """What is different from the last look."""

    vanished: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()
    """Those that are back among them."""

    def __bool__(self) -> bool:
        return bool(self.vanished or self.changed)


class Watch:
    """Looks at size and time of all files; texts and rows of tables are not looked at again."""

    def __init__(self, catalogue: Catalogue) -> None:
        files = {place: catalogue.file(place) for place in range(len(catalogue))}
        self._files = {place: path for place, path in files.items() if path is not None}
        self._stamps: Mapping[int, tuple[int, int] | None] = self._look()

    def look(self) -> Seen:
        """Return what has happened since the last look."""
        before, self._stamps = self._stamps, self._look()
        vanished, changed = [], []
        for place, stamp in self._stamps.items():
            if stamp is None and before[place] is not None:
                vanished.append(place)
            elif stamp is not None and stamp != before[place]:
                changed.append(place)
        return Seen(tuple(vanished), tuple(changed))

    def _look(self) -> dict[int, tuple[int, int] | None]:
        stamps: dict[int, tuple[int, int] | None] = {}
        for place, path in self._files.items():
            try:
                status = os.stat(path)
                stamps[place] = (status.st_size, status.st_mtime_ns)
            except OSError:
                stamps[place] = None
        return stamps
