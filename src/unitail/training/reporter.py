"""What a run tells of its steps, every few of them: losses, learning rate, speed."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from unitail.errors import NonFiniteLoss
from unitail.tasks.batches import BatchShape
from unitail.training.config import TrainingConfig
from unitail.training.processes import Processes
from unitail.training.run_log import Entry, RunLog
from unitail.training.schedules import learning_rate


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
