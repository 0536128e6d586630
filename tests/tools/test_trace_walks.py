"""The tool that counts what a walk through the code crosses."""

import json
import runpy
from pathlib import Path

import pytest

import unitail.configuration

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "trace_walks.py"))


def test_calls_of_the_package_are_counted_and_no_others() -> None:
    def task() -> None:
        json.dumps({})
        for _ in range(3):
            unitail.configuration.require(True, "x", got=1, allowed="1")

    taken = TOOL["walk"](task)
    assert (taken.calls, len(taken.functions), taken.files) == (3, 1, ["configuration.py"])


@pytest.mark.slow
def test_the_walks_go_where_their_names_say(tmp_path: Path) -> None:
    fit, predict, sets, step, command = TOOL["walks"](tmp_path).values()
    assert {"estimator/learning.py", "relational/model.py"} <= set(fit.files)
    assert set(predict.files) < set(command.files)
    assert "estimator/conformal.py" in sets.files
    assert {"training/step.py", "tail/model.py"} <= set(step.files)
    assert {"cli/main.py", "workflows/predict.py"} <= set(command.files)
    assert (tmp_path / "report.html").exists()
