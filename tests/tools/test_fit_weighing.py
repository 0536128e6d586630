"""The tool that trains the weighing leaves blocks as they are, and what it writes can be loaded."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.known_learners import write_blobs
from helpers.scripts import run_script
from helpers.short_runs import write_recipe
from unitail.learners.checkpoint import load_model, save_model
from unitail.nn.episode_model import Visibility
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational
from unitail.training.run_folder import RunRecord

CHANGES = {
    "model": {"learner": "relational", "preset": "tiny"},
    "sources": {"banks": {"banks": ["toy/*"], "held_out_from": ["blobs"], "held_out": 0.4}},
    "training": {"steps": 16, "visibilities": ["isolated", "joint"], "pools": 0.4},
}


def test_the_weighing_is_trained_and_blocks_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_blobs(tmp_path / "banks", classes=8)
    recipe = write_recipe(tmp_path / "recipe.toml", **CHANGES)
    blocks, out = tmp_path / "blocks", tmp_path / "run"
    save_model(Relational(PRESETS["tiny"], seed=5), blocks)
    given = load_file(blocks / "model.safetensors")
    earlier = {name: each for name, each in given.items() if not name.startswith("weighing.")}
    save_file({**earlier, "guess": torch.ones(5)}, blocks / "model.safetensors")
    options = ("--blocks", blocks, "--banks", tmp_path / "banks", "--out", out)
    run_script("tools/fit_weighing.py", recipe, *options, monkeypatch=monkeypatch)

    model = load_model(out / "model")
    assert model.trained_for == (Visibility.ISOLATED, Visibility.JOINT)
    weights = model.state_dict()
    assert all(torch.equal(weights[name], each) for name, each in earlier.items())
    assert weights["weighing.last.weight"].any()
    entry = json.loads((out / "log.jsonl").read_text())
    before, after = (entry["held_out"][when] for when in ("before", "after"))
    assert set(after) == set(before) <= {"isolated", "joint", "pool"}
    assert entry["step"] == 16
    record = RunRecord.read(out)
    assert record is not None
    assert list(record.data) == ["toy/blobs"], "as of any run"


def test_other_blocks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_blobs(tmp_path / "banks", classes=8)
    recipe = write_recipe(tmp_path / "recipe.toml", **CHANGES)
    save_model(Relational(PRESETS["tiny"]), tmp_path / "blocks")
    path = tmp_path / "blocks" / "model.safetensors"
    save_file({f"other.{name}": each for name, each in load_file(path).items()}, path)
    options = ("--blocks", tmp_path / "blocks", "--banks", tmp_path / "banks", "--out", tmp_path)
    with pytest.raises(SystemExit, match="has other blocks"):
        run_script("tools/fit_weighing.py", recipe, *options, monkeypatch=monkeypatch)
