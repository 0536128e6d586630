"""Shards of a campaign, run by several processes and recorded when they are done.

The result of a shard is a line of a file next to the page. An interrupted campaign resumes with the
remaining shards when the same command runs again; a completed one removes the file.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measuring.row_files import add_rows

from campaign.forks import Started, ended, start

SECONDS = 900
"""Seconds after which a shard counts as hanging."""
RECORD = "record.json"


@dataclass(frozen=True)
class Shard:
    """One of the shards of a campaign, which do not depend on each other."""

    name: str
    work: Callable[[Path], Mapping[str, Any]]
    """Runs in a fork, in its own folder; returns the result as JSON-compatible values."""


@dataclass
class Running:
    """A shard in progress."""

    shard: Shard
    folder: Path
    process: Started
    record: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def begin(cls, shard: Shard, root: Path) -> "Running":
        """Start a shard in a fork."""
        folder = root / f"shard {shard.name}"
        folder.mkdir(parents=True)

        def work() -> None:
            (folder / RECORD).write_text(json.dumps(shard.work(folder)))

        return cls(shard, folder, start(work, folder / "log", seconds=SECONDS, memory=None))

    def has_ended(self) -> bool:
        """Return whether the shard has ended; its record is read then."""
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if not pid:
            return False
        outcome = ended(self.process, status, usage)
        if outcome.code != 0:
            raise RuntimeError(f"{self.shard.name} ended by {outcome.code}: {outcome.stderr}")
        self.record = json.loads((self.folder / RECORD).read_text())
        shutil.rmtree(self.folder)
        return True


@dataclass
class Workers:
    """Processes that run shards, and the file that records them."""

    root: Path
    """Root of the folders of shards."""
    workers: int = 1
    notes: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that recorded shards must match."""
    minutes: float = float("inf")
    """Minutes after which no shard is started."""

    def __post_init__(self) -> None:
        """Start the clock."""
        self.until = time.monotonic() + 60 * self.minutes

    def run(self, shards: Sequence[Shard]) -> dict[str, Any]:
        """Run the shards that are not recorded; return all results in order."""
        done = self._noted()
        waiting = [shard for shard in shards if shard.name not in done]
        running: list[Running] = []
        while running or (waiting and time.monotonic() < self.until):
            while waiting and len(running) < self.workers and time.monotonic() < self.until:
                running.append(Running.begin(waiting.pop(0), self.root))
            for each in [each for each in running if each.has_ended()]:
                running.remove(each)
                done[each.shard.name] = each.record
                self._note(each.shard.name, each.record)
            time.sleep(0.01)
        return {shard.name: done[shard.name] for shard in shards if shard.name in done}

    def finish(self) -> None:
        """Remove the records: the campaign is complete."""
        if self.notes is not None:
            self.notes.unlink(missing_ok=True)

    def _noted(self) -> dict[str, Any]:
        """Read the recorded shards, ignoring those of another campaign."""
        if self.notes is None or not self.notes.exists():
            return {}
        text = self.notes.read_text()
        lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        if not lines or lines[0] != ["settings", json.loads(json.dumps(self.settings))]:
            self.notes.unlink()
            return {}
        print(f"Continues after {len(lines) - 1} shards of {self.notes}.", flush=True)
        return dict(lines[1:])

    def _note(self, name: str, record: Mapping[str, Any]) -> None:
        if self.notes is None:
            return
        with add_rows(self.notes) as file:
            if not file.tell():
                file.write(json.dumps(["settings", self.settings]) + "\n")
            file.write(json.dumps([name, record]) + "\n")
