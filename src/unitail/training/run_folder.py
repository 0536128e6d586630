"""The folder of a run: recipe, log, checkpoints, best and last model.

recipe.json                the recipe, to refuse a resumption with another one
log.jsonl                  what happened
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
"""Counts up when a seed comes to mean other episodes: no run goes on across such a change."""
KEPT_CHECKPOINTS = 2
OPTIMISER_FILE = "optimiser.safetensors"
STATE_FILE = "state.json"
LOCK_FILE = ".lock"
GONE = ".gone"
"""How the names of checkpoints end that are being removed."""


@dataclass(frozen=True)
class RunRecord:
    """What a run was told to train on; decides, with its seed, all that its weights have seen."""

    recipe: Recipe
    data: Mapping[str, str]
    """The banks that the recipe stands for, ENCODER/DATASET, with the hashes of their content."""

    start: "Start | None" = None
    """What it began with, if not with random weights."""

    def text(self) -> str:
        """Write the record as it stands in the folder."""
        return json.dumps(self._content(), indent=2, sort_keys=True) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read the record of a folder; None where it has none."""
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
            seen = self.start.record._content()
            content["start"] = {"sha256": self.start.sha256, "record": seen}
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
    """Weights that a run begins with, and what they have seen already."""

    sha256: str
    """Of their file."""
    record: RunRecord

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Read the record of a shipped model, or of the run that a model is the result of."""
        record = RunRecord.read(folder) or RunRecord.read(folder.parent)
        weights = folder / WEIGHTS_FILE
        if record is None or not weights.exists():
            lack = "hold weights" if record else "say what it was trained on"
            raise UserError(
                f"{folder} does not {lack}",
                got=f"no {WEIGHTS_FILE} in it"
                if record
                else f"no {RECIPE_FILE} in it or beside it",
                allowed="a shipped model, or the folder `model` or `best` of a run",
                remedy="Start from such a one, or from random weights: leave --start out.",
            )
        return cls(sha256_of(weights), record)


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    step: int
    """Steps done."""
    best: float | None
    """The best validation score so far; None before the first."""


@dataclass(frozen=True)
class TrainingState:
    """Weights and optimiser of a run, on the CPU, the same for any number of processes."""

    weights: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    """Named "WEIGHT|QUANTITY"."""


class RunFolder:
    """Reads and writes the files of one run; whatever is interrupted, they stay whole."""

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
        """Make the folder this run's, and keep others out for as long as this one lives."""
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
            self._keep_others_out()
            write_text(path, text)
            for old in (*self.path.glob(".*.old"), *self.path.glob("checkpoints/.*.old")):
                recover_folder(old.with_name(old.name[1 : -len(".old")]))
            for gone in self.path.glob(f"checkpoints/.*{GONE}"):
                shutil.rmtree(gone, ignore_errors=True)

    def release(self) -> None:
        """Let other runs in again."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _keep_others_out(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        path = self.path / LOCK_FILE
        self._lock = path.open("w")
        try:
            lock(path, self._lock.fileno())
        except BaseException:
            self.release()
            raise

    def checkpoints(self) -> list[Path]:
        """List the checkpoints, oldest first; a folder that bears the name is whole."""
        folders = (self.path / "checkpoints").glob("step-*")
        return sorted(path for path in folders if re.fullmatch(r"step-\d{8}", path.name))

    def save(
        self,
        config: ModelConfig,
        state: TrainingState,
        progress: Progress,
        trained: Sequence[Visibility] = (),
    ) -> Path:
        """Write a checkpoint, which is a model folder too, then let go of the oldest."""
        target = self.path / "checkpoints" / f"step-{progress.step:08d}"
        with fresh_folder(target) as fresh:
            write_model(config, state.weights, fresh, trained)
            save_file(dict(state.optimiser), fresh / OPTIMISER_FILE)
            (fresh / STATE_FILE).write_text(json.dumps(vars(progress)) + "\n")
        for old in self.checkpoints()[:-KEPT_CHECKPOINTS]:
            # Half of it must not have its name; nor one by which it would be taken back.
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
                remedy="Delete this checkpoint to go on from the one before.",
            ) from error
        return state, progress
