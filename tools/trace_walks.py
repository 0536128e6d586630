"""Count the calls, functions and files of unitail that a task passes through.

    python tools/trace_walks.py [--files]

A "walk" is what a reader has to follow to understand a task. Each task runs twice, at the smallest
sensible size, and the second run is counted: calls of named Python functions under src/unitail, in
threads that the task starts as well. ARCHITECTURE.md states the numbers. A second count excludes
features that the first version did not have (`LATER`) and all that they call, so it can be compared
with the first version.
"""

import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
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
LATER = {
    "columns on one scale, missing values": ("estimator/scaling.py",),
    "steps and weights of columns": ("encoders/table_view.py",),
    "regressions weighed by evidence": ("relational/weighing.py",),
    "supports of any number of rows": (
        "learners/large_hypothesis.py:read_large",
        "estimator/fitted.py:takes_large",
    ),
    "weights of rows and classes, pools": (
        "estimator/rows.py:Rows.weighing",
        "estimator/settings.py:_read_weights",
        "training/step.py:draw_pool",
    ),
    "why an answer is as it is, examples near to it": (
        "workflows/explanations.py",
        "workflows/html_report/previews.py:ExamplesPanel",
    ),
    "sorting files, corrections, scores of what has a label": (
        "cli/sorting.py",
        "cli/predict.py:Outputs.check_items",
        "inputs/items.py:apply_corrections",
        "workflows/answers.py:score",
    ),
    "classifiers that were saved": (
        "workflows/fit.py:ClassifierOptions.load_saved",
        "workflows/fit.py:remembered_examples",
    ),
    "workers": ("engines/", "cli/predict.py:_require_alone"),
    "numbers and dates as people write them, tables of several kinds of columns": (
        "inputs/cells.py:Style",
        "inputs/cells.py:style_of",
        "inputs/cells.py:read_dates",
        "inputs/cells.py:reading_of",
        "encoders/tables.py:TableEncoder.notes_on",
        "inputs/items.py:LabelledItems.contradictions",
    ),
}
"""Features added after the first version: prefixes of FILE:FUNCTION where they are entered."""


@dataclass
class Walk:
    """The calls of one run of a task."""

    calls: int = 0
    functions: set[CodeType] = field(default_factory=set)
    alike: set[CodeType] = field(default_factory=set)
    """Those that are called for features of the first version."""
    _later: dict[int, FrameType] = field(default_factory=dict)
    """By thread: the frame of a later feature's call in progress."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, frame: FrameType, event: str, _: object) -> None:
        """Record a call; lambdas and comprehensions count as part of their function."""
        thread, code = threading.get_ident(), frame.f_code
        if event == "return" and frame is self._later.get(thread):
            del self._later[thread]
        if event != "call" or code.co_name[0] == "<" or not is_own(code):
            return
        if thread not in self._later and is_later(code):
            self._later[thread] = frame
        with self._lock:
            self.calls += 1
            self.functions.add(code)
            if thread not in self._later:
                self.alike.add(code)


def is_own(code: CodeType) -> bool:
    """Return whether a function belongs to the package."""
    return code.co_filename.startswith(str(PACKAGE))


def file_of(code: CodeType) -> str:
    """Return the file of a function, relative to the package."""
    return Path(code.co_filename).relative_to(PACKAGE).as_posix()


def is_later(code: CodeType) -> bool:
    """Return whether a function belongs to a feature that the first version did not have."""
    name = f"{file_of(code)}:{code.co_qualname}"
    return any(name.startswith(start) for starts in LATER.values() for start in starts)


def files(functions: Iterable[CodeType]) -> list[str]:
    """Return the files of the functions."""
    return sorted(set(map(file_of, functions)))


def walk(task: Callable[[], object]) -> Walk:
    """Run a task twice, and follow the second run."""
    task()
    return follow(task)[0]


def follow(task: Callable[[], object]) -> tuple[Walk, Any]:
    """Run a task once and record its calls; return them and its result."""
    taken = Walk()
    threading.setprofile(taken.count)  # of threads that start from now on
    sys.setprofile(taken.count)
    try:
        result = task()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return taken, result


def command(*arguments: object) -> None:
    """Run the `unitail` command in this process, without output."""
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
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
    """Follow all tasks."""
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
    """Print a table; with --files, also the files of each walk, in brackets if added later."""
    with tempfile.TemporaryDirectory() as folder:
        taken = walks(Path(folder))
    print("| walk | calls | functions | functions, alike | files | files, alike |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, one in taken.items():
        crossed, before = files(one.functions), files(one.alike)
        counts = len(one.functions), len(one.alike), len(crossed), len(before)
        print(f"| {name} | {one.calls:,} | {' | '.join(map(str, counts))} |")
        if "--files" in sys.argv:
            print("   ", " ".join(each if each in before else f"({each})" for each in crossed))


if __name__ == "__main__":
    main()
