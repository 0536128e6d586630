"""Learning curves that are kept as they are measured, so that a study can stop and go on.

A file for each learner and task, in one folder. It says what decides the curve: the learner with a
stamp of its weights or its code, the task with a stamp of its data, shots, draws, queries and seed.
A curve of anything else is not taken for it. Several processes, or several machines, may fill one
folder: the study that is asked for all of them then measures nothing again. The kind of device
is recorded too, since each draws other episodes of the same law.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unitail.errors import UserError
from unitail.files import write_json
from unitail.framework.curves import LearningCurve
from unitail.framework.task import Task
from unitail.framework.validity import Unsolved

CURVES = "curves"
"""The folder in that of a report, where no other is named."""
DIGITS = 16
"""Of the hash in a file's name."""


Outcome = LearningCurve | Unsolved


@dataclass(frozen=True)
class KeptCurves:
    """The curves in a folder."""

    folder: Path

    def read(self, about: Mapping[str, Any]) -> tuple[Outcome, str] | None:
        """Return the curve that this describes, and the kind of device it was measured on."""
        path = self._path(about)
        if not path.exists():
            return None
        try:
            content = json.loads(path.read_text())
            return _outcome(content["outcome"]), str(content["device"])
        except Exception as error:  # whatever is wrong with the file, the remedy is the same
            raise UserError(
                f"the learning curve {path} cannot be read",
                got=f"{type(error).__name__}: {error}",
                allowed="a file that `unitail validity` wrote",
                remedy="Delete it to measure the curve again.",
            ) from error

    def write(self, about: Mapping[str, Any], outcome: Outcome, device: str) -> None:
        """Keep a curve, or why there is none."""
        path = self._path(about)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"about": dict(about), "device": device, "outcome": _record(outcome)})

    def _path(self, about: Mapping[str, Any]) -> Path:
        text = json.dumps(dict(about), sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}.json"


def task_stamp(task: Task) -> str:
    """Return what changes when a task does: its name and sizes, and the fingerprint of its data.

    A task of one's own that has no `fingerprint` is known by its name and sizes alone.
    """
    data = str(getattr(task, "fingerprint", ""))[:DIGITS]
    return f"{task.name}, {task.feature_dim} wide, {task.ways} classes {data}".strip()


def _record(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Unsolved):
        return {"task": outcome.task, "message": outcome.message}
    return {
        "task": outcome.task,
        "ways": outcome.ways,
        "shots": list(outcome.shots),
        "risks": outcome.risks.tolist(),
        "bayes_risk": outcome.bayes_risk,
    }


def _outcome(record: dict[str, Any]) -> Outcome:
    if "message" in record:
        return Unsolved(**record)
    arrays = {"shots": tuple(record["shots"]), "risks": np.array(record["risks"], np.float64)}
    return LearningCurve(**(record | arrays))
