from pathlib import Path

import pytest
import torch

from helpers.short_runs import short_recipe
from unitail.errors import CannotWrite, InvalidCheckpoint, UserError
from unitail.learners.checkpoint import load_model
from unitail.tail.model import Tail
from unitail.training.run_folder import Progress, RunFolder
from unitail.training.state import TrainingState

RECIPE = short_recipe()
STATE = TrainingState(
    weights=Tail(RECIPE.model).state_dict(), optimiser={"head|exp_avg": torch.ones(2)}
)


def test_a_checkpoint_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    saved = folder.save(RECIPE.model, STATE, Progress(7, 0.5))
    state, progress = folder.load(saved)
    assert progress == Progress(7, 0.5)
    assert torch.equal(state.optimiser["head|exp_avg"], torch.ones(2))
    assert all(torch.equal(state.weights[name], STATE.weights[name]) for name in STATE.weights)
    assert load_model(saved).config == RECIPE.model, "a checkpoint is a model folder too"


def test_the_newest_two_checkpoints_are_kept(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for step in (5, 10, 20):
        folder.save(RECIPE.model, STATE, Progress(step, None))
    assert [path.name for path in folder.checkpoints()] == ["step-00000010", "step-00000020"]


def test_half_a_checkpoint_is_none(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / ".step-00000030.new").mkdir(parents=True)
    assert RunFolder(tmp_path).checkpoints() == []


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    saved = folder.save(RECIPE.model, STATE, Progress(7, 0.5))
    (saved / "optimiser.safetensors").write_bytes(b"nothing")
    with pytest.raises(InvalidCheckpoint, match=r"cannot be read.*Delete this checkpoint"):
        folder.load(saved)


def test_a_folder_belongs_to_one_recipe(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.claim(RECIPE, {})
    folder.release()
    folder.claim(short_recipe(), {})
    folder.release()
    with pytest.raises(UserError, match=r"holds the run of another recipe.*--out"):
        folder.claim(short_recipe(training={"seed": 1}), {})
    with pytest.raises(UserError, match="or on other data"):
        folder.claim(RECIPE, {"a/b": "another hash"})


def test_a_folder_is_worked_on_by_one_run_at_a_time(tmp_path: Path) -> None:
    first, second = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run")
    first.claim(RECIPE, {})
    with pytest.raises(CannotWrite, match=r"another process is writing .*run: got a locked file"):
        second.claim(RECIPE, {})
    first.release()
    second.claim(RECIPE, {})
    second.release()


def test_what_a_kill_left_half_done_is_mended_when_the_folder_is_claimed(tmp_path: Path) -> None:
    """Between the renames, and after them, in every place that is replaced."""
    lost, doubled = tmp_path / ".best.old", tmp_path / ".model.old"
    checkpoint = tmp_path / "checkpoints" / ".step-00000004.old"
    for folder in (lost, doubled, tmp_path / "model", checkpoint):
        folder.mkdir(parents=True)
        (folder / "file").touch()
    folder = RunFolder(tmp_path)
    folder.claim(RECIPE, {})
    folder.release()
    assert (tmp_path / "best" / "file").exists()
    assert not lost.exists()
    assert not doubled.exists()
    assert [path.name for path in folder.checkpoints()] == ["step-00000004"]
