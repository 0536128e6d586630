"""The log of a run, and the reporter that adds a summary of the latest steps to it."""

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unitail.errors import NonFiniteLoss, optional
from unitail.files import disk_errors, write_text
from unitail.tasks.batches import BatchShape
from unitail.training.config import TrainingConfig
from unitail.training.processes import Processes
from unitail.training.schedules import learning_rate

Entry = dict[str, Any]


class RunLog:
    """Appends entries to `log.jsonl`, one JSON object per line, and optionally to TensorBoard.

    When a run resumes, entries after its checkpoint are removed.
    """

    def __init__(self, folder: Path, *, tensorboard: bool = False) -> None:
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "log.jsonl"
        self._board = _tensorboard(folder) if tensorboard else None

    def rewind(self, step: int) -> None:
        """Remove entries after `step`; a resumed run writes them again."""
        kept = [entry for entry in self.read() if entry["step"] <= step]
        with disk_errors(self.path):
            write_text(self.path, "".join(json.dumps(entry) + "\n" for entry in kept))

    def write(self, entry: Entry) -> None:
        """Add an entry; every entry has a `step`."""
        with disk_errors(self.path), self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        if self._board is not None:
            for name, value in entry.items():
                if name != "step" and isinstance(value, float):
                    self._board.add_scalar(name, value, entry["step"])

    def read(self) -> list[Entry]:
        """Return the entries, without a last line that was cut short by a kill."""
        entries = []
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            try:
                entries.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return entries


class Reporter:
    """Summarises steps for the log and the caller; only the main process has a log."""

    def __init__(
        self,
        config: TrainingConfig,
        processes: Processes,
        log: RunLog | None,
        on_entry: Callable[[Entry], None],
    ) -> None:
        self.config = config
        self.processes = processes
        self.log = log
        self.on_entry = on_entry
        self._steps: list[tuple[int, BatchShape, Tensor]] = []
        self._clock = time.perf_counter()

    def add(self, step: int, shape: BatchShape, loss: Tensor) -> None:
        """Record a step; its loss stays on the device, so nothing waits for it."""
        self._steps.append((step, shape, loss))

    def report(self) -> None:
        """Report the steps since the last report; the only wait for the device in the loop."""
        if not self._steps:
            return
        steps, shapes, losses = zip(*self._steps, strict=True)
        self._steps.clear()
        values = self.processes.mean(torch.stack(losses)).tolist()
        for step, shape, value in zip(steps, shapes, values, strict=True):
            if not math.isfinite(value):
                raise NonFiniteLoss(
                    f"the loss of step {step} is not finite",
                    got=f"{value} on {shape.episodes} episodes of {shape.source}"
                    f" ({shape.ways} ways, {shape.shots} shots)",
                    allowed="a finite number",
                )
        now = time.perf_counter()
        seconds, self._clock = now - self._clock, now
        chances = [math.log(shape.ways) for shape in shapes]  # the loss of guessing
        self.write(
            {
                "step": steps[-1] + 1,
                "loss": sum(values) / len(values),
                "share_of_chance": sum(map(float.__truediv__, values, chances)) / len(values),
                "learning_rate": learning_rate(steps[-1], self.config),
                "seconds": seconds,
                "episodes_per_second": sum(shape.episodes for shape in shapes) / seconds,
            }
        )

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Report pending steps, then exclude the body of the context from the training time."""
        self.report()
        yield
        self._clock = time.perf_counter()

    def rewind(self, step: int) -> None:
        """Remove log entries after `step`, and start the clock."""
        if self.log is not None:
            self.log.rewind(step)
        self._clock = time.perf_counter()

    def write(self, entry: Entry) -> None:
        """Add an entry to the log, and pass it to the caller."""
        if self.log is not None:
            self.log.write(entry)
            self.on_entry(entry)


def _tensorboard(folder: Path) -> Any:  # noqa: ANN401 - an optional package has no types here
    optional("tensorboard", extra="tensorboard")  # torch's own import error does not name it
    board = optional("torch.utils.tensorboard", extra="tensorboard")
    return board.SummaryWriter(str(folder / "tensorboard"))
