"""How far a reader has to walk: the calls, functions and files of unitail that a task crosses.

    python tools/trace_walks.py

Each walk is taken twice and counted the second time, at the smallest sensible size. Counted are
calls of named Python functions under src/unitail; ARCHITECTURE.md states the numbers.
"""

import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas

import unitail
from unitail import TailClassifier
from unitail.cli.main import app
from unitail.training.step import TrainingStep

PACKAGE = Path(unitail.__file__).parent
RECIPE = """\
[model]
preset = "tiny"
[episodes]
ways = [2, 4]
shots = [1, 2]
queries = 2
tokens = 160
[sources.gaussian]
feature_dims = [8, 12]
[training]
steps = 3
learning_rate = 1e-3
[validation]
every = 3
episodes = 8
ways = 2
shots = [1]
queries = 2
"""


@dataclass
class Walk:
    """What was called."""

    calls: int = 0
    functions: set[CodeType] = field(default_factory=set)

    @property
    def files(self) -> list[str]:
        """The files walked through, relative to the package."""
        names = {Path(code.co_filename).relative_to(PACKAGE) for code in self.functions}
        return sorted(name.as_posix() for name in names)

    def count(self, frame: FrameType, event: str, _: object) -> None:
        """Take note of a call; what has no name of its own belongs to its function."""
        code = frame.f_code
        if event == "call" and code.co_name[0] != "<" and code.co_filename.startswith(str(PACKAGE)):
            self.calls += 1
            self.functions.add(code)


def walk(task: Callable[[], object]) -> Walk:
    """Do something twice, and follow it the second time."""
    task()
    return follow(task)[0]


def follow(task: Callable[[], object]) -> tuple[Walk, Any]:
    """Do something once and note what is called; return its result as well."""
    taken = Walk()
    sys.setprofile(taken.count)
    try:
        result = task()
    finally:
        sys.setprofile(None)
    return taken, result


def command(*arguments: object) -> None:
    """Run the `unitail` command in this process, in silence."""
    with redirect_stdout(StringIO()):
        app([str(argument) for argument in arguments], standalone_mode=False)


def training_step(folder: Path) -> Walk:
    """Follow the last step of a short run."""
    (folder / "recipe.toml").write_text(RECIPE)
    steps: list[Walk] = []
    plain = TrainingStep.__call__

    def followed(training: TrainingStep, step: int) -> Any:  # noqa: ANN401
        taken, result = follow(lambda: plain(training, step))
        steps.append(taken)
        return result

    with patch.object(TrainingStep, "__call__", followed):
        command("train", folder / "recipe.toml", "--out", folder / "run", "--cpu")
    return steps[-1]


def walks(folder: Path) -> dict[str, Walk]:
    """Take all walks."""
    rows = np.random.default_rng(0).normal(size=(10, 4)) + np.arange(10)[:, None] % 2
    labels = np.arange(10) % 2
    table = pandas.DataFrame(rows, columns=list("abcd"))
    table.assign(label=labels).to_csv(folder / "labelled.csv", index=False)
    table.to_csv(folder / "new.csv", index=False)
    outputs = ("--out", folder / "answers.csv", "--report", folder / "report.html")
    classifier = TailClassifier(device="cpu")
    return {
        "`TailClassifier.fit`, 10 rows": walk(lambda: classifier.fit(rows, labels)),
        "`predict`, 3 rows": walk(lambda: classifier.predict(rows[:3])),
        "`predict_set`, 3 rows": walk(lambda: classifier.predict_set(rows[:3])),
        "one training step of TAIL": training_step(folder),
        "`unitail predict` on a table, with report": walk(
            lambda: command("predict", folder / "labelled.csv", folder / "new.csv", *outputs)
        ),
    }


def main() -> None:
    """Print a table; with an argument, the files of each walk too."""
    with tempfile.TemporaryDirectory() as folder:
        taken = walks(Path(folder))
    print("| walk | calls | functions | files |\n|---|--:|--:|--:|")
    for name, one in taken.items():
        print(f"| {name} | {one.calls:,} | {len(one.functions)} | {len(one.files)} |")
        if len(sys.argv) > 1:
            print("   ", " ".join(one.files))


if __name__ == "__main__":
    main()
