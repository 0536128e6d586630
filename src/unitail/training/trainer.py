"""The meta-training loop: sample, draw, forward, loss, backward, clip, step."""

import math
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from unitail.errors import NonFiniteLoss, UserError
from unitail.learners.checkpoint import save_weights
from unitail.learners.registry import build_model
from unitail.nn.episode_model import AnyModel
from unitail.randomness import stream
from unitail.tasks.shapes import BatchShape
from unitail.training.config import OptimiserKind, Precision, TrainingConfig
from unitail.training.data import Sources, draw_batch, draw_visibility
from unitail.training.objective import query_loss
from unitail.training.processes import Processes
from unitail.training.recipe import Recipe
from unitail.training.run_folder import Progress, RunFolder, RunRecord
from unitail.training.runlog import Entry, RunLog
from unitail.training.schedules import active_slots, learning_rate
from unitail.training.state import collect_state, collect_weights, restore_state, whole
from unitail.training.stopping import StopRequest
from unitail.training.validation import Validator


class Trainer:
    """One run of a recipe, in a folder from which it can be resumed at any time.

    The randomness of a step depends on the seed and the step's number alone, so a resumed run goes
    on exactly as if it had never stopped.
    """

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        sources: Sources,
        *,
        processes: Processes,
        on_entry: Callable[[Entry], None] = lambda entry: None,
        tensorboard: bool = False,
    ) -> None:
        self.recipe = recipe
        self.config: TrainingConfig = recipe.training
        self.sources = sources
        self.processes = processes
        self.on_entry = on_entry
        self.folder = RunFolder(folder)
        self.model = build_model(recipe.model, seed=self.config.seed)
        self.distributed = processes.distribute(self.model)
        if self.config.compile:
            self.distributed.compile(dynamic=False)  # all episodes have one shape
        self.optimiser = make_optimiser(self.distributed, self.config)
        self.validator = Validator(sources.validation, recipe, self.model, processes)
        self.log = RunLog(folder, tensorboard=tensorboard) if processes.is_main else None
        self.best: float | None = None
        self.started = self.done = 0
        self.stopped_by: signal.Signals | None = None
        self._unreported: list[tuple[int, BatchShape, Tensor]] = []
        self._clock = time.perf_counter()

    def run(self) -> AnyModel:
        """Train from the last checkpoint, or from the start, to the end; SIGTERM saves and leaves.

        The model returned is this process's own; the files in the folder are the run's result.
        """
        try:
            self.started = self.done = self.resume()
            with StopRequest() as stop:
                self._loop(stop)
            if self.stopped_by is None:
                self._save_model(self.folder.model)
        finally:
            self.folder.release()
        return self.model

    def _loop(self, stop: StopRequest) -> None:
        """Make the steps that are left, unless someone asks to stop."""
        for step in range(self.started, self.config.steps):
            shape, loss = self.step(step)
            self._unreported.append((step, shape, loss))
            self.done = done = step + 1
            last = done == self.config.steps
            if done % self.config.report_every == 0 or last:
                self._report()
            if done % self.recipe.validation.every == 0 or last:
                self._validate(done)
            stopping = not last and self._should_stop(stop, done)
            if done % self.config.checkpoint_every == 0 or last or stopping:
                self._save(done)
            if stopping:
                self.stopped_by = stop.signal or signal.SIGTERM  # another process was asked
                return

    def step(self, step: int) -> tuple[BatchShape, Tensor]:
        """Make one step; return what it trained on and its loss, still on the device.

        The loss is returned as NaN where the gradient is not finite, for then the weights are not.
        """
        config, device = self.config, self.processes.device
        ranges = self.recipe.episodes
        batch = self.sources.training.choose_batch(ranges, stream(config.seed, "plan", step))
        generator = stream(config.seed, "batch", step, device=device)
        ways, size = ranges.ways[1], self.model.config.max_ways
        slots = active_slots(step, ways, size, config)
        shard = self.processes.shard_of(batch.shape)
        episode, draw = draw_batch(batch, self.model, generator, shard, slots)
        visibility = draw_visibility(config.visibilities, stream(config.seed, "visibility", step))

        half = config.precision is Precision.BFLOAT16
        with torch.autocast(device.type, torch.bfloat16, enabled=half), self._kernels():
            loss = query_loss(self.distributed(episode, draw, visibility), episode.query)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self.distributed.parameters(), config.clip_norm)
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(step, config)
        self.optimiser.step()
        return batch.shape, torch.where(whole(norm).isfinite(), loss.detach(), torch.nan)

    def resume(self) -> int:
        """Restore the newest checkpoint, if there is one; return the steps done."""
        if self.processes.is_main:
            self.folder.claim(RunRecord(self.recipe, self.sources.data))
        self.processes.wait()
        checkpoints = self.folder.checkpoints()
        progress = Progress(0, None)
        if checkpoints:
            state, progress = self.folder.load(checkpoints[-1])
            restore_state(self.distributed, self.optimiser, state)
        self.best = progress.best
        self._agree_on(progress.step)
        if self.log is not None:
            self.log.rewind(progress.step)
        self._clock = time.perf_counter()
        return progress.step

    def _agree_on(self, step: int) -> None:
        """Refuse to go on if the processes found different checkpoints."""
        found = self.processes.gather(torch.tensor([step], device=self.processes.device)).tolist()
        if len(set(found)) > 1:
            raise UserError(
                "the processes see different checkpoints",
                got=f"steps {found}",
                allowed="the same newest checkpoint for all",
                remedy="Put the run folder on a file system that all of them share.",
            )

    def _kernels(self) -> AbstractContextManager[None]:
        """Choose among attention kernels: cuDNN's prepare for each shape anew, for a second."""
        if self.recipe.episodes.one_shape:
            return nullcontext()
        kernels = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
        return sdpa_kernel(kernels)

    def _report(self) -> None:
        """Look at the losses since the last report; the only wait for the device in the loop."""
        steps, shapes, losses = zip(*self._unreported, strict=True)
        self._unreported.clear()
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
        self._write(
            {
                "step": steps[-1] + 1,
                "loss": sum(values) / len(values),
                "share_of_chance": sum(map(_share_of_chance, values, shapes)) / len(values),
                "learning_rate": learning_rate(steps[-1], self.config),
                "seconds": seconds,
                "episodes_per_second": sum(shape.episodes for shape in shapes) / seconds,
            }
        )

    def _validate(self, done: int) -> None:
        """Measure on held-out episodes; keep the model if it is the best so far."""
        if self._unreported:
            self._report()
        found = self.validator.measure(self.distributed)
        self._write({"step": done, **found})
        if self.best is None or found["score"] > self.best:
            self.best = found["score"]
            self._save_model(self.folder.best)
        self._clock = time.perf_counter()

    def _save(self, done: int) -> None:
        """Write a checkpoint, unless a loss since the last report was not finite."""
        if self._unreported:
            self._report()
        state = collect_state(self.distributed, self.optimiser)
        if self.processes.is_main:
            self.folder.save(self.recipe.model, state, Progress(done, self.best))
        self.processes.wait()
        self._clock = time.perf_counter()

    def _save_model(self, target: Path) -> None:
        """Write the weights alone."""
        weights = collect_weights(self.distributed)
        if self.processes.is_main:
            save_weights(self.recipe.model, weights, target)
        self.processes.wait()

    def _should_stop(self, stop: StopRequest, done: int) -> bool:
        """Agree with the other processes, which costs a wait, only where one is due anyway."""
        if self.processes.count > 1 and done % self.config.report_every:
            return False
        return self.processes.any(stop.asked)

    def _write(self, entry: Entry) -> None:
        if self.log is not None:
            self.log.write(entry)
            self.on_entry(entry)


def make_optimiser(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Build the optimiser that the recipe names."""
    kind = torch.optim.AdamW if config.optimiser is OptimiserKind.ADAMW else torch.optim.Adam
    fused = all(parameter.is_cuda for parameter in model.parameters())
    return kind(
        model.parameters(),
        betas=(0.9, config.beta2),
        weight_decay=config.weight_decay,
        fused=fused,
    )


def _share_of_chance(loss: float, shape: BatchShape) -> float:
    """Return the loss in units of what guessing costs."""
    return loss / math.log(shape.ways)
