"""A run that is killed at any moment goes on as if nothing had happened."""

import signal
from pathlib import Path

import pytest

from helpers.forks import COMMAND, finish, fork
from helpers.short_runs import entries, same_weights, train_here, weights, write_recipe

pytestmark = pytest.mark.slow
KILL_DURING_STEP = """
import os, signal
from unitail.training.step import TrainingStep
whole = TrainingStep.__call__
def half(self, step):
    if step == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(self, step)
TrainingStep.__call__ = half
"""
KILL_DURING_SAVE = """
import os, signal
from unitail.training import run_folder
whole = run_folder.save_file
def half(tensors, path):
    whole(tensors, path)
    if "step-00000008" in str(path):
        path.write_bytes(path.read_bytes()[:100])
        os.kill(os.getpid(), signal.SIGKILL)
run_folder.save_file = half
"""

LIMIT_FILE_SIZE = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train without interruption."""
    folder = tmp_path_factory.mktemp("whole")
    return train_here(write_recipe(folder / "recipe.toml"), folder / "run")


def test_killed_in_the_middle_of_a_run(tmp_path: Path, whole: Path) -> None:
    recipe = write_recipe(tmp_path / "recipe.toml")
    code, output = _train_after(KILL_DURING_STEP, recipe, tmp_path / "run")
    assert code == -signal.SIGKILL, output
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000004"]
    assert not (tmp_path / "run" / "model").exists()

    train_here(recipe, tmp_path / "run")
    assert same_weights(weights(tmp_path / "run" / "model"), weights(whole / "model"))
    losses = [[entry.get("loss") for entry in entries(run)] for run in (tmp_path / "run", whole)]
    assert losses[0] == losses[1]


def test_killed_in_the_middle_of_a_save(tmp_path: Path, whole: Path) -> None:
    recipe = write_recipe(tmp_path / "recipe.toml")
    out = tmp_path / "run"
    code, output = _train_after(KILL_DURING_SAVE, recipe, out)
    assert code == -signal.SIGKILL, output
    assert [path.name for path in sorted((out / "checkpoints").iterdir())] == [
        ".step-00000008.new",
        "step-00000004",
    ]
    train_here(recipe, out)
    assert same_weights(weights(out / "model"), weights(whole / "model"))
    assert not list((out / "checkpoints").glob(".*"))


def test_a_disk_that_takes_no_more_is_named_and_the_old_checkpoint_intact(tmp_path: Path) -> None:
    """A real refusal by the operating system: files may not grow beyond 4 KiB."""
    recipe = write_recipe(tmp_path / "recipe.toml", training={"steps": 4})
    out = tmp_path / "run"
    train_here(recipe, out)
    before = weights(out / "checkpoints" / "step-00000004")
    for path in (out / "checkpoints").glob("step-00000004"):
        path.rename(path.with_name("step-00000002"))  # so that there is something left to do
    code, output = _train_after(LIMIT_FILE_SIZE, recipe, out)
    assert code == 2, output
    message = " ".join(output.split())
    assert "could not be written: got" in message
    assert "what was saved before is intact" in message
    after = weights(out / "checkpoints" / "step-00000002")
    assert same_weights(before, after)


def _train_after(preparation: str, recipe: Path, out: Path) -> tuple[int, str]:
    """Train in a process in which something was done before; return its exit code and output."""
    output = out.with_suffix(".output")
    arguments = ["train", recipe, "--out", out, "--cpu"]
    code = finish(fork(preparation + COMMAND, *arguments, output=output))
    return code, output.read_text()
