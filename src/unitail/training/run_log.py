"""What a run tells of its steps, every few of them, and the log that keeps it."""

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
    """Appends entries to `log.jsonl`, a JSON object a line, and to TensorBoard if asked to.

    There is nothing in it after the checkpoint that is resumed.
    """

    def __init__(self, folder: Path, *, tensorboard: bool = False) -> None:
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "log.jsonl"
        self._board = _tensorboard(folder) if tensorboard else None

    def rewind(self, step: int) -> None:
        """Forget what came after `step`: a resumed run writes it again."""
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
        """Return the entries; a last line that a kill cut short is left out."""
        entries = []
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            try:
                entries.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return entries


class Reporter:
    """Collects steps, and tells the log and the caller of them; only the main process has a log."""

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
        """Remember a step; its loss stays on the device, so that nothing waits for it."""
        self._steps.append((step, shape, loss))

    def report(self) -> None:
        """Look at the steps since the last report; the only wait for the device in the loop."""
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
        chances = [math.log(shape.ways) for shape in shapes]  # what guessing costs
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
        """Report what is left, then do something that does not count as time of training."""
        self.report()
        yield
        self._clock = time.perf_counter()

    def rewind(self, step: int) -> None:
        """Forget what came after `step`, and begin to measure time."""
        if self.log is not None:
            self.log.rewind(step)
        self._clock = time.perf_counter()

    def write(self, entry: Entry) -> None:
        """Add an entry to the log, and show it to the caller."""
        if self.log is not None:
            self.log.write(entry)
            self.on_entry(entry)


def _tensorboard(folder: Path) -> Any:  # noqa: ANN401 - an optional package has no types here
    optional("tensorboard", extra="tensorboard")  # which torch imports without a word of it
    board = optional("torch.utils.tensorboard", extra="tensorboard")
    return board.SummaryWriter(str(folder / "tensorboard"))
