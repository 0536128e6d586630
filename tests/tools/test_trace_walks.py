"""The tool that counts what a walk through the code crosses."""

import json
import re
import runpy
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import unitail.errors
from unitail.estimator.rows import Rows
from unitail.estimator.scaling import Scaling, read_scale
from unitail.processes import choose_device
from unitail.wording import some

ROWS = Rows(np.ones((4, 2)), np.array([0, 0, 1, 1]), 2)
TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "trace_walks.py"))


def test_calls_of_the_package_are_counted_and_no_others() -> None:
    def task() -> None:
        json.dumps({})
        for _ in range(3):
            unitail.errors.require(True, "x", got=1, allowed="1")

    taken = TOOL["walk"](task)
    assert (taken.calls, len(taken.functions)) == (3, 1)
    assert TOOL["files"](taken.functions) == ["errors.py"]


def test_what_came_later_is_left_out_with_all_that_it_calls() -> None:
    def task() -> None:
        Scaling.of(ROWS, read_scale("table", None))(ROWS.features)
        choose_device("cpu")

    taken = TOOL["walk"](task)
    crossed = TOOL["files"](taken.functions)
    assert {"processes.py", "encoders/table_view.py", "estimator/scaling.py"} <= set(crossed)
    assert TOOL["files"](taken.alike) == ["processes.py"]


def test_threads_of_a_task_count_each_with_its_own_later_features(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(TOOL["LATER"], "lists in sentences", ("wording.py:some",))
    entered, left = threading.Event(), threading.Event()

    def names() -> Iterator[str]:
        entered.set()
        assert left.wait(60)
        yield "the other thread has called its function"

    def meanwhile() -> None:
        assert entered.wait(60)
        choose_device("cpu")
        left.set()

    def task() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda each: each(), (lambda: some(names()), meanwhile)))

    taken, _ = TOOL["follow"](task)
    assert TOOL["files"](taken.functions) == ["processes.py", "wording.py"]
    assert TOOL["files"](taken.alike) == ["processes.py"]


def test_what_came_later_is_still_there() -> None:
    package = Path(TOOL["PACKAGE"])
    for start in (start for starts in TOOL["LATER"].values() for start in starts):
        file, _, function = start.partition(":")
        assert (package / file).exists(), start
        name = function.rpartition(".")[2]
        assert not name or re.search(rf"(def|class) {name}\b", (package / file).read_text()), start


@pytest.mark.slow
def test_the_walks_go_where_their_names_say(tmp_path: Path) -> None:
    taken = TOOL["walks"](tmp_path).values()
    fit, predict, sets, step, command = (set(TOOL["files"](each.functions)) for each in taken)
    assert {"estimator/classifier.py", "relational/model.py"} <= fit
    assert predict < command
    assert "estimator/prediction_sets.py" in sets
    assert {"training/step.py", "tail/model.py"} <= step
    assert {"cli/main.py", "workflows/predict.py"} <= command
    *_, before = (set(TOOL["files"](each.alike)) for each in taken)
    assert {"relational/influence.py", "estimator/influence.py"} <= command - before
    assert "workflows/html_report/previews.py" in before, "cards are drawn in threads"
    assert not any(file.startswith("engines/") for file in command), "only workers need engines"
    assert (tmp_path / "report.html").exists()
