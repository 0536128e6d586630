"""The pieces of a campaign: done by several processes at once, and noted when they are done.

What came of a piece is a line of a file beside the page. A campaign that is stopped goes on with
the rest when the same command runs again; one that came to its end takes its notes away.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from campaign import Started, ended, start

sys.path.insert(0, str(Path(__file__).parents[1]))
from measuring import add_rows

SECONDS = 900
"""After which a piece counts as hanging."""
RECORD = "record.json"


@dataclass(frozen=True)
class Piece:
    """Some work of a campaign, by itself."""

    name: str
    work: Callable[[Path], Mapping[str, Any]]
    """Does it in a folder of its own, in a fork; returns what came of it, as JSON can hold it."""


@dataclass
class Running:
    """A piece under way."""

    piece: Piece
    folder: Path
    process: Started
    record: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def begin(cls, piece: Piece, root: Path) -> "Running":
        """Begin a piece in a fork."""
        folder = root / f"piece {piece.name}"
        folder.mkdir(parents=True)

        def work() -> None:
            (folder / RECORD).write_text(json.dumps(piece.work(folder)))

        return cls(piece, folder, start(work, folder / "log", seconds=SECONDS, memory=None))

    def has_ended(self) -> bool:
        """Tell whether it has come to its end; its record is read then."""
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if not pid:
            return False
        outcome = ended(self.process, status, usage)
        if outcome.code != 0:
            raise RuntimeError(f"{self.piece.name} ended by {outcome.code}: {outcome.stderr}")
        self.record = json.loads((self.folder / RECORD).read_text())
        shutil.rmtree(self.folder)
        return True


@dataclass
class Crew:
    """Processes that do pieces, and the file where these are noted."""

    root: Path
    """For the folders of the pieces."""
    workers: int = 1
    notes: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the notes must have been made with."""
    minutes: float = float("inf")
    """After which no piece is begun."""

    def __post_init__(self) -> None:
        """Begin to count the minutes."""
        self.until = time.monotonic() + 60 * self.minutes

    def do(self, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Do the pieces that are not noted; return what came of each, in their order."""
        done = self._noted()
        waiting = [piece for piece in pieces if piece.name not in done]
        running: list[Running] = []
        while running or (waiting and time.monotonic() < self.until):
            while waiting and len(running) < self.workers and time.monotonic() < self.until:
                running.append(Running.begin(waiting.pop(0), self.root))
            for each in [each for each in running if each.has_ended()]:
                running.remove(each)
                done[each.piece.name] = each.record
                self._note(each.piece.name, each.record)
            time.sleep(0.01)
        return {piece.name: done[piece.name] for piece in pieces if piece.name in done}

    def finish(self) -> None:
        """Take the notes away: the campaign is done."""
        if self.notes is not None:
            self.notes.unlink(missing_ok=True)

    def _noted(self) -> dict[str, Any]:
        """Read what was done before; notes of another campaign do not count."""
        if self.notes is None or not self.notes.exists():
            return {}
        text = self.notes.read_text()
        lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        if not lines or lines[0] != ["settings", json.loads(json.dumps(self.settings))]:
            self.notes.unlink()
            return {}
        print(f"Goes on after {len(lines) - 1} pieces of {self.notes}.", flush=True)
        return dict(lines[1:])

    def _note(self, name: str, record: Mapping[str, Any]) -> None:
        if self.notes is None:
            return
        with add_rows(self.notes) as file:
            if not file.tell():
                file.write(json.dumps(["settings", self.settings]) + "\n")
            file.write(json.dumps([name, record]) + "\n")
