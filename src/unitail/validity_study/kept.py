"""Store learning curves as they are measured, so that a study can be interrupted and resumed.

A folder has one file per learner and task. It records what determines the curve: the learner with a
stamp of its weights or code, the task with a stamp of its data, shots, draws, queries and seed. A
file is reused only if all of these match. Several processes or machines can fill the same folder; a
study over all of them then measures nothing again. The kind of device is recorded too, because
each kind draws different episodes from the same distribution.
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
"""Default name of the folder of curves inside a report's folder."""
DIGITS = 16
"""Number of hash digits in a file's name."""


Outcome = LearningCurve | Unsolved


@dataclass(frozen=True)
class KeptCurves:
    """The learning curves stored in a folder."""

    folder: Path

    def read(self, about: Mapping[str, Any]) -> tuple[Outcome, str] | None:
        """Return the stored curve and its kind of device; None if there is no such curve."""
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
        """Store a curve, or the reason why there is none."""
        path = self._path(about)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"about": dict(about), "device": device, "outcome": _record(outcome)})

    def _path(self, about: Mapping[str, Any]) -> Path:
        text = json.dumps(dict(about), sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}.json"


def task_stamp(task: Task) -> str:
    """Return an identifier of a task: its name and sizes, and the fingerprint of its data.

    A user's task without a `fingerprint` is identified by its name and sizes alone.
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
