"""The folder of a run: recipe, log, checkpoints, best and last model.

recipe.json                the recipe; a run is not resumed with a different one
log.jsonl                  losses, learning rates and validations
checkpoints/step-00000500  a model folder with the optimiser's state; the newest two are kept
best                       the model with the best validation accuracy
model                      the model at the end
"""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from safetensors.torch import load_file, save_file
from torch import Tensor

from unitail.configuration import to_table
from unitail.errors import InvalidCheckpoint, UserError
from unitail.files import disk_errors, fresh_folder, lock, recover_folder, sha256_of, write_text
from unitail.learners.checkpoint import WEIGHTS_FILE, write_model
from unitail.learners.registry import learner_name
from unitail.nn.episode_model import ModelConfig, Visibility
from unitail.training.recipe import Recipe, recipe_from_record

RECIPE_FILE = "recipe.json"
MODEL_FOLDER = "model"
EPISODES_VERSION = 2
"""Incremented when a seed would give different episodes; runs cannot be resumed across it."""
KEPT_CHECKPOINTS = 2
OPTIMISER_FILE = "optimiser.safetensors"
STATE_FILE = "state.json"
LOCK_FILE = ".lock"
GONE = ".gone"
"""Name suffix of checkpoints that are being removed."""


@dataclass(frozen=True)
class RunRecord:
    """The training data of a run: with the seed, it determines all that its weights have seen."""

    recipe: Recipe
    data: Mapping[str, str]
    """Fingerprints of the recipe's banks, by ENCODER/DATASET."""

    start: "Start | None" = None
    """The weights the run started from; None if they were random."""

    def text(self) -> str:
        """Return the record as the text of its file."""
        return json.dumps(self._content(), indent=2, sort_keys=True) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read the record of a folder; None if it has none."""
        path = folder / RECIPE_FILE
        if not path.exists():
            return None
        try:
            return cls._of(json.loads(path.read_text()))
        except Exception as error:  # whatever is wrong with the file, the remedy is the same
            raise InvalidCheckpoint(
                f"{path} does not say what the model was trained on",
                got=f"{type(error).__name__}: {error}",
                allowed="the file that training wrote",
                remedy="Leave the run out, or train it again.",
            ) from error

    def _content(self) -> dict[str, Any]:
        content = {
            "learner": learner_name(self.recipe.model),
            "recipe": to_table(self.recipe),
            "data": dict(self.data),
            "episodes_version": EPISODES_VERSION,
        }
        if self.start is not None:
            start = self.start.record._content()
            content["start"] = {"sha256": self.start.sha256, "record": start}
        return content

    @classmethod
    def _of(cls, content: Mapping[str, Any]) -> Self:
        recipe = recipe_from_record(content["learner"], content["recipe"])
        start = content.get("start")
        if start is not None:
            start = Start(str(start["sha256"]), cls._of(start["record"]))
        return cls(recipe, dict(content["data"]), start)


@dataclass(frozen=True)
class Start:
    """The weights a run starts from, and the record of how they were trained."""

    sha256: str
    """SHA-256 of the weights file."""
    record: RunRecord

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Read the start from a model folder: a shipped model, or a run's `model` or `best`."""
        record = RunRecord.read(folder) or RunRecord.read(folder.parent)
        weights = folder / WEIGHTS_FILE
        if record is None or not weights.exists():
            missing = "hold weights" if record else "say what it was trained on"
            raise UserError(
                f"{folder} does not {missing}",
                got=f"no {WEIGHTS_FILE} in it"
                if record
                else f"no {RECIPE_FILE} in it or beside it",
                allowed="a shipped model, or the folder `model` or `best` of a run",
                remedy="Start from such a model, or from random weights: leave --start out.",
            )
        return cls(sha256_of(weights), record)


@dataclass(frozen=True)
class Progress:
    """Progress of a run."""

    step: int
    """Number of completed steps."""
    best: float | None
    """Best validation score so far; None before the first validation."""


@dataclass(frozen=True)
class TrainingState:
    """Weights and optimiser state of a run on the CPU, independent of the number of processes."""

    weights: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    """Optimiser state, by "WEIGHT|QUANTITY"."""


class RunFolder:
    """Reads and writes the files of one run; an interruption never leaves them half-written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[str] | None = None

    @property
    def best(self) -> Path:
        """The model with the best validation accuracy."""
        return self.path / "best"

    @property
    def model(self) -> Path:
        """The model at the end of the run."""
        return self.path / MODEL_FOLDER

    def claim(self, record: RunRecord) -> None:
        """Claim the folder for this run, and lock other runs out until `release`."""
        text = record.text()
        path = self.path / RECIPE_FILE
        if path.exists() and path.read_text() != text:
            raise UserError(
                f"{self.path} holds the run of another recipe, on other data or of another version",
                got="something that differs from its recipe.json",
                allowed="the recipe, the banks and the unitail that the run was started with",
                remedy="Name another folder with --out, or delete this one.",
            )
        with disk_errors(self.path):
            self._lock_folder()
            write_text(path, text)
            for old in (*self.path.glob(".*.old"), *self.path.glob("checkpoints/.*.old")):
                recover_folder(old.with_name(old.name[1 : -len(".old")]))
            for removed in self.path.glob(f"checkpoints/.*{GONE}"):
                shutil.rmtree(removed, ignore_errors=True)

    def release(self) -> None:
        """Release the lock, so that other runs can claim the folder."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _lock_folder(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        path = self.path / LOCK_FILE
        self._lock = path.open("w")
        try:
            lock(path, self._lock.fileno())
        except BaseException:
            self.release()
            raise

    def checkpoints(self) -> list[Path]:
        """List the checkpoints, oldest first; a folder with such a name is always complete."""
        folders = (self.path / "checkpoints").glob("step-*")
        return sorted(path for path in folders if re.fullmatch(r"step-\d{8}", path.name))

    def save(
        self,
        config: ModelConfig,
        state: TrainingState,
        progress: Progress,
        trained: Sequence[Visibility] = (),
    ) -> Path:
        """Write a checkpoint, which is also a model folder, then remove the oldest ones."""
        target = self.path / "checkpoints" / f"step-{progress.step:08d}"
        with fresh_folder(target) as fresh:
            write_model(config, state.weights, fresh, trained)
            save_file(dict(state.optimiser), fresh / OPTIMISER_FILE)
            (fresh / STATE_FILE).write_text(json.dumps(vars(progress)) + "\n")
        for old in self.checkpoints()[:-KEPT_CHECKPOINTS]:
            # Rename first: a half-removed checkpoint must not be taken for a complete one, nor
            # be recovered.
            hidden = old.with_name(f".{old.name}{GONE}")
            shutil.rmtree(hidden, ignore_errors=True)
            old.rename(hidden)
            shutil.rmtree(hidden, ignore_errors=True)
        return target

    def load(self, checkpoint: Path) -> tuple[TrainingState, Progress]:
        """Read a checkpoint."""
        try:
            progress = Progress(**json.loads((checkpoint / STATE_FILE).read_text()))
            state = TrainingState(
                weights=load_file(checkpoint / WEIGHTS_FILE),
                optimiser=load_file(checkpoint / OPTIMISER_FILE),
            )
        except Exception as error:  # whatever is wrong with the files, the remedy is the same
            raise InvalidCheckpoint(
                f"the checkpoint {checkpoint} cannot be read",
                got=f"{type(error).__name__}: {error}",
                allowed="the files that training wrote",
                remedy="Delete this checkpoint to resume from the previous one.",
            ) from error
        return state, progress
