"""Runs that begin with the weights of another."""

from pathlib import Path

import pytest
import torch

from helpers.short_runs import entries, same_weights, short_recipe, weights
from unitail.errors import UserError
from unitail.training.data import build_sources
from unitail.training.processes import Processes
from unitail.training.recipe import Recipe
from unitail.training.run_folder import RunRecord
from unitail.training.trainer import Trainer


def train(recipe: Recipe, folder: Path, start: Path | None = None) -> Trainer:
    sources, processes = build_sources(recipe, None), Processes(cpu=True)
    trainer = Trainer(recipe, folder, sources, processes=processes, start=start)
    trainer.run()
    return trainer


def test_a_run_can_begin_with_the_weights_of_another(tmp_path: Path) -> None:
    """Training starts from them, the record names them, and only the same start may resume."""
    first, second = tmp_path / "first", tmp_path / "second"
    train(short_recipe(training={"seed": 1}), first)
    hardly = short_recipe(training={"steps": 1, "learning_rate": 1e-9, "checkpoint_every": 1})
    trainer = train(hardly, second, start=first / "model")
    begun, ended = weights(first / "model"), weights(second / "model")
    assert all(torch.allclose(begun[name], ended[name], atol=1e-6) for name in begun)
    record = RunRecord.read(second)
    assert record == trainer.record
    assert record.start is not None
    assert record.start.record == RunRecord.read(first)
    with pytest.raises(UserError, match="holds the run of another recipe"):
        train(hardly, second)
    with pytest.raises(UserError, match=r"does not hold weights.*the folder `model`"):
        train(hardly, tmp_path / "third", start=first)
    (first / "recipe.json").unlink()
    with pytest.raises(UserError, match=r"does not say what it was trained on.*leave --start out"):
        train(hardly, tmp_path / "third", start=first / "model")


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    first = tmp_path / "first"
    train(short_recipe(), first)
    other = short_recipe(model={"hidden_dim": 32})
    with pytest.raises(UserError, match=r"do not fit the recipe's \[model\]"):
        train(other, tmp_path / "second", start=first / "best")


def test_the_last_weights_can_be_averaged_with_the_first(tmp_path: Path) -> None:
    """Resumed or not, the mean is taken once, and it is what is validated and kept."""
    first, alone, mean = (tmp_path / name for name in ("first", "alone", "mean"))
    train(short_recipe(training={"seed": 1}), first)
    start = first / "model"
    train(short_recipe(), alone, start)
    averaged = short_recipe(training={"start_share": 0.3})
    train(averaged, mean, start)
    begun, trained, kept = (weights(each / "model") for each in (first, alone, mean))
    for name in begun:
        expected = 0.3 * begun[name] + 0.7 * trained[name]
        assert torch.allclose(kept[name], expected, atol=1e-7), name
    assert not same_weights(kept, trained)
    last = [entries(run)[-1]["validation"] for run in (alone, mean)]
    assert last[0] != last[1]
    train(averaged, mean, start)
    assert same_weights(weights(mean / "model"), kept)
    for gone in ("model", "checkpoints/step-00000012"):
        (mean / gone).rename(tmp_path / f"away-{Path(gone).name}")
    assert train(averaged, mean, start).started == 8
    assert same_weights(weights(mean / "model"), kept)


def test_a_mean_with_no_first_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"start_share = 0.5, and a run from random.*--start"):
        train(short_recipe(training={"start_share": 0.5}), tmp_path)
