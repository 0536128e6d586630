from pathlib import Path

import pytest
import torch

from helpers.short_runs import short_recipe
from unitail.errors import CannotWrite, InvalidCheckpoint, UserError
from unitail.learners.checkpoint import load_model
from unitail.learners.pretrained import FOLDER
from unitail.nn.episode_model import Visibility
from unitail.tail.model import Tail
from unitail.training import run_folder
from unitail.training.recipe import BankChoice, read_recipe
from unitail.training.run_folder import (
    RECIPE_FILE,
    Progress,
    RunFolder,
    RunRecord,
    TrainingState,
)

RECIPES = sorted((Path(__file__).parents[3] / "recipes").glob("**/*.toml"))
RECIPE = short_recipe()
RECORD = RunRecord(RECIPE, {})
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


def test_a_checkpoint_says_what_it_was_trained_for(tmp_path: Path) -> None:
    both = (Visibility.ISOLATED, Visibility.JOINT)
    saved = RunFolder(tmp_path).save(RECIPE.model, STATE, Progress(7, 0.5), both)
    assert load_model(saved).trained_for == both


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
    folder.claim(RECORD)
    folder.release()
    folder.claim(RunRecord(short_recipe(), {}))
    folder.release()
    with pytest.raises(UserError, match=r"holds the run of another recipe.*--out"):
        folder.claim(RunRecord(short_recipe(training={"seed": 1}), {}))
    with pytest.raises(UserError, match="on other data"):
        folder.claim(RunRecord(RECIPE, {"a/b": "another hash"}))


def test_a_run_does_not_go_on_where_a_seed_means_other_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run")
    monkeypatch.setattr(run_folder, "EPISODES_VERSION", 1)
    folder.claim(RECORD)
    folder.release()
    monkeypatch.undo()
    with pytest.raises(UserError, match="of another version"):
        folder.claim(RECORD)
    assert RunRecord.read(folder.path) == RECORD, "what it was trained on can still be told"


def test_a_folder_is_worked_on_by_one_run_at_a_time(tmp_path: Path) -> None:
    first, second = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run")
    first.claim(RECORD)
    with pytest.raises(CannotWrite, match=r"another process is writing .*run: got a locked file"):
        second.claim(RECORD)
    first.release()
    second.claim(RECORD)
    second.release()


def test_what_a_kill_left_half_done_is_fixed_when_the_folder_is_claimed(tmp_path: Path) -> None:
    """Between the renames, and after them, in every place that is replaced."""
    lost, doubled = tmp_path / ".best.old", tmp_path / ".model.old"
    checkpoint = tmp_path / "checkpoints" / ".step-00000004.old"
    for folder in (lost, doubled, tmp_path / "model", checkpoint):
        folder.mkdir(parents=True)
        (folder / "file").touch()
    folder = RunFolder(tmp_path)
    folder.claim(RECORD)
    folder.release()
    assert (tmp_path / "best" / "file").exists()
    assert not lost.exists()
    assert not doubled.exists()
    assert [path.name for path in folder.checkpoints()] == ["step-00000004"]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_settings_of_a_run_are_read_back_unchanged(path: Path, tmp_path: Path) -> None:
    record = RunRecord(read_recipe(path), {"net/birds": "hash"})
    (tmp_path / RECIPE_FILE).write_text(record.text())
    assert RunRecord.read(tmp_path) == record


def test_the_shipped_model_says_what_it_was_trained_on() -> None:
    record = RunRecord.read(FOLDER)
    assert record is not None
    [choice] = [each for each in record.recipe.sources if isinstance(each, BankChoice)]
    assert "tiny_imagenet" in choice.held_out_from
    assert {type(each).__name__ for each in record.recipe.sources} == {
        *("BankChoice", "GaussianTasks", "RandomNetworkTasks", "RandomBagTasks"),
        "RandomTableTasks",
    }
    assert "efflite0/tiny_imagenet" in record.data


def test_a_folder_without_a_record_has_none(tmp_path: Path) -> None:
    assert RunRecord.read(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{}", '{"learner": "tail", "recipe": {}, "data": {}}'])
def test_an_incomplete_record_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / RECIPE_FILE).write_text(text)
    with pytest.raises(InvalidCheckpoint, match="does not say what the model was trained on"):
        RunRecord.read(tmp_path)


def test_a_checkpoint_that_was_being_removed_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill in the middle of removing one once gave what was left of it its name again."""
    folder = RunFolder(tmp_path)
    for step in (5, 10):
        folder.save(RECIPE.model, STATE, Progress(step, None))

    def killed(path: Path, ignore_errors: bool) -> None:
        if path.exists() and "00000005" in path.name:
            (path / "state.json").unlink()
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_folder.shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            folder.save(RECIPE.model, STATE, Progress(20, None))
    folder.claim(RECORD)
    folder.release()
    assert [path.name for path in folder.checkpoints()] == ["step-00000010", "step-00000020"]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2
