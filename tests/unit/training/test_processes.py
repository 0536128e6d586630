"""Several processes give what one gives; judged from files, not from exit codes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.forks import fork_group
from helpers.short_runs import (
    entries,
    short_recipe,
    train_here,
    train_in_two,
    weights,
    write_recipe,
)
from unitail.learners.registry import build_model

pytestmark = pytest.mark.slow
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
"""Without one, processes share the CPU, though not by an explicit setting."""
FINE = {"training": {"report_every": 1, "learning_rate": 1e-3}}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    return train_here(write_recipe(folder / "recipe.toml", **FINE), folder / "run")


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train as a user would, with torchrun; a group may abort after its work: judge by files."""
    folder = tmp_path_factory.mktemp("copied")
    recipe, run = write_recipe(folder / "recipe.toml", **FINE), folder / "run"
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m"]
    done = subprocess.run(
        [sys.executable, "-m", *torchrun, "unitail", "train", recipe, "--out", run],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env={**os.environ, **NO_GPU, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
    )
    assert (run / "model").exists(), done.stderr
    return run


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sharded")
    recipe, run = write_recipe(folder / "recipe.toml", **FINE), folder / "run"
    output = train_in_two(recipe, run, "--shard")
    assert (run / "model").exists(), output
    return run


@pytest.mark.parametrize("how", ["copied", "sharded"])
def test_two_processes_equal_one(how: str, alone: Path, request: pytest.FixtureRequest) -> None:
    pair: Path = request.getfixturevalue(how)
    losses = [[entry["loss"] for entry in entries(run) if "loss" in entry] for run in (pair, alone)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    scores = [
        [entry["score"] for entry in entries(run) if "score" in entry] for run in (pair, alone)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    begun = build_model(short_recipe(**FINE).model).state_dict()
    mine, its = weights(pair / "model"), weights(alone / "model")
    assert mine.keys() == its.keys() == begun.keys()
    # Adam turns a rounding error in a gradient near zero into a step of full length, so single
    # weights may differ; all of them together went the same way.
    distance = sum((mine[name] - its[name]).square().sum() for name in its)
    way = sum((its[name] - begun[name]).square().sum() for name in its)
    assert distance < 0.05**2 * way


def test_weights_may_idle_in_some_steps(tmp_path: Path) -> None:
    """Isolated steps leave the joint layers of a relational model alone."""
    both = {"visibilities": ["isolated", "joint"], "steps": 6, "checkpoint_every": 6}
    changes = {"model": {"learner": "relational", "preset": "tiny"}, "training": both}
    recipe = write_recipe(tmp_path / "recipe.toml", **changes)
    alone = train_here(recipe, tmp_path / "alone")
    train_in_two(recipe, tmp_path / "copied")
    train_in_two(recipe, tmp_path / "sharded", "--shard")
    expected, *others = (
        [entry["loss"] for entry in entries(run) if "loss" in entry]
        for run in (alone, tmp_path / "copied", tmp_path / "sharded")
    )
    for losses in others:
        assert losses == pytest.approx(expected, abs=1e-4)


REPORT_UNITS = """
import json, sys
from pathlib import Path
from torch.distributed.fsdp import FSDPModule
from unitail.learners.registry import build_model, model_config
from unitail.training.processes import Processes

processes, units = Processes(cpu=True, shard=True), {}
for learner in sys.argv[2:]:
    model = build_model(model_config({"learner": learner, "preset": "tiny"}, "test"))
    processes.distribute(model)
    modules = model.named_modules()
    units[learner] = [name for name, module in modules if isinstance(module, FSDPModule)]
if processes.is_main:
    Path(sys.argv[1]).write_text(json.dumps(units))
processes.wait()
"""
UNITS = {
    "tail": ["", *(f"transformer.blocks.{number}" for number in range(3))],
    "relational": ["", "blocks.0", "blocks.1", "joint_blocks.0"],
}
"""The modules that are sharded: the whole model, named "", and each layer by itself."""


def test_every_layer_is_sharded_by_itself(tmp_path: Path) -> None:
    units = tmp_path / "units.json"
    output = fork_group(REPORT_UNITS, units, *UNITS, output=tmp_path / "output")
    assert units.exists(), output
    assert json.loads(units.read_text()) == UNITS


def test_a_run_of_two_processes_is_finished_by_one(
    tmp_path: Path, alone: Path, copied: Path
) -> None:
    """Train with two, take away the end, and let one process train it again."""
    recipe = write_recipe(tmp_path / "recipe.toml", **FINE)
    run = Path(shutil.copytree(copied, tmp_path / "run"))
    for last in ("model", "checkpoints/step-00000012"):
        (run / last).rename(tmp_path / Path(last).name)
    train_here(recipe, run)
    losses = [
        [entry["loss"] for entry in entries(each) if "loss" in entry] for each in (run, alone)
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_a_number_of_processes_that_does_not_fit_the_batches_is_refused(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "recipe.toml", episodes={"multiple": 1, "tokens": 60})
    output = train_in_two(recipe, tmp_path / "run")
    assert "cannot be shared out evenly" in " ".join(output.split())
