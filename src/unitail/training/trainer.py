"""The meta-training loop: steps, reports, validations and checkpoints."""

import signal
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from unitail.errors import UserError
from unitail.learners.checkpoint import load_model, save_weights
from unitail.learners.registry import build_model
from unitail.nn.episode_model import AnyModel
from unitail.training.data import Sources
from unitail.training.processes import Processes
from unitail.training.recipe import Recipe
from unitail.training.run_folder import Progress, RunFolder, RunRecord, Start
from unitail.training.run_log import Entry, Reporter, RunLog
from unitail.training.sharded_state import collect_state, collect_weights, restore_state
from unitail.training.step import TrainingStep
from unitail.training.stopping import StopRequest
from unitail.training.validation import Validator


class Trainer:
    """One run of a recipe, in a folder from which it can be resumed at any time.

    A resumed run continues exactly as if it had never stopped. `start` is the folder of a model
    whose weights the run starts from; without it, initial weights are random.
    """

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        sources: Sources,
        *,
        processes: Processes,
        start: Path | None = None,
        on_entry: Callable[[Entry], None] = lambda entry: None,
        tensorboard: bool = False,
    ) -> None:
        self.recipe = recipe
        self.record = RunRecord(recipe, sources.data, None if start is None else Start.of(start))
        self.processes = processes
        self.folder = RunFolder(folder)
        self.model = build_model(recipe.model, seed=recipe.training.seed)
        if start is not None:
            _load_weights(self.model, start)
        self.model.trained_visibilities = recipe.training.visibilities
        self.step = TrainingStep(recipe, sources.training, self.model, processes)
        self.first_weights = self._first_weights(start)
        self.validator = Validator(sources.validation, recipe, self.model, processes)
        log = RunLog(folder, tensorboard=tensorboard) if processes.is_main else None
        self.reporter = Reporter(recipe.training, processes, log, on_entry)
        self.best: float | None = None
        self.started = self.done = 0
        self.stopped_by: signal.Signals | None = None

    def run(self) -> AnyModel:
        """Train from the last checkpoint, or from the start, to the end; SIGTERM saves and returns.

        The returned model is this process's copy or shard; the files in the folder are the result.
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
        """Run the remaining steps, unless a stop is requested."""
        config = self.recipe.training
        for step in range(self.started, config.steps):
            shape, loss = self.step(step)
            self.reporter.add(step, shape, loss)
            self.done = done = step + 1
            last = done == config.steps
            if done % config.report_every == 0 or last:
                self.reporter.report()
            if last:
                self._average_with_start()
            if done % self.recipe.validation.every == 0 or last:
                self._validate(done)
            stopping = not last and self._should_stop(stop, done)
            if done % config.checkpoint_every == 0 or last or stopping:
                self._save(done)
            if stopping:
                self.stopped_by = stop.signal or signal.SIGTERM  # or another process got it
                return

    def _first_weights(self, start: Path | None) -> list[Tensor]:
        """Return the weights to average the final ones with; empty if there is no averaging."""
        share = self.recipe.training.start_share
        if share == 0:
            return []
        if start is None:
            raise UserError(
                "start_share needs weights to start from",
                got=f"start_share = {share}, and a run from random weights",
                allowed="start_share = 0, or a model to start from",
                remedy="Name the model with --start, or leave start_share out.",
            )
        return [weight.detach().clone() for weight in self.step.distributed.parameters()]

    @torch.no_grad()
    def _average_with_start(self) -> None:
        """Replace the final weights by their weighted mean with the first; no step follows."""
        share = self.recipe.training.start_share
        if not self.first_weights:
            return
        for weight, first in zip(
            self.step.distributed.parameters(), self.first_weights, strict=True
        ):
            weight.mul_(1 - share).add_(first, alpha=share)

    def resume(self) -> int:
        """Restore the newest checkpoint, if there is one; return the steps done."""
        if self.processes.is_main:
            self.folder.claim(self.record)
        self.processes.wait()
        checkpoints = self.folder.checkpoints()
        progress = Progress(0, None)
        if checkpoints:
            state, progress = self.folder.load(checkpoints[-1])
            restore_state(self.step.distributed, self.step.optimiser, state)
        self.best = progress.best
        self._agree_on(progress.step)
        self.reporter.rewind(progress.step)
        return progress.step

    def _agree_on(self, step: int) -> None:
        """Raise if the processes see different checkpoints."""
        steps = self.processes.gather(torch.tensor([step], device=self.processes.device)).tolist()
        if len(set(steps)) > 1:
            raise UserError(
                "the processes see different checkpoints",
                got=f"steps {steps}",
                allowed="the same newest checkpoint for all",
                remedy="Put the run folder on a file system that all of them share.",
            )

    def _validate(self, done: int) -> None:
        """Measure on held-out episodes; save the model if it is the best so far."""
        with self.reporter.paused():
            measured = self.validator.measure(self.step.distributed)
            self.reporter.write({"step": done, **measured})
            if self.best is None or measured["score"] > self.best:
                self.best = measured["score"]
                self._save_model(self.folder.best)

    def _save(self, done: int) -> None:
        """Write a checkpoint, unless a loss since the last report was not finite."""
        with self.reporter.paused():
            state = collect_state(self.step.distributed, self.step.optimiser)
            if self.processes.is_main:
                trained = self.recipe.training.visibilities
                self.folder.save(self.recipe.model, state, Progress(done, self.best), trained)
            self.processes.wait()

    def _save_model(self, target: Path) -> None:
        """Write the weights without the optimiser's state."""
        weights = collect_weights(self.step.distributed)
        if self.processes.is_main:
            save_weights(self.recipe.model, weights, target, self.recipe.training.visibilities)
        self.processes.wait()

    def _should_stop(self, stop: StopRequest, done: int) -> bool:
        """Agree with the other processes on stopping, only at steps that synchronise anyway."""
        if self.processes.count > 1 and done % self.recipe.training.report_every:
            return False
        return self.processes.any(stop.asked)


def _load_weights(model: AnyModel, folder: Path) -> None:
    """Load the weights of another model of the same shape."""
    try:
        model.load_state_dict(load_model(folder).state_dict())
    except RuntimeError as error:  # torch's message names the parts that differ
        raise UserError(
            f"the weights in {folder} do not fit the recipe's [model]",
            got=str(error).splitlines()[-1].strip(),
            allowed="a model of the same learner and sizes",
            remedy=f"Copy the config of {folder} into [model], or start from another model.",
        ) from error
