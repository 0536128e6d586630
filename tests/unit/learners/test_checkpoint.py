import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.builders import random_episode, small_model
from unitail.errors import CannotWrite, InvalidCheckpoint, InvalidConfig
from unitail.learners.checkpoint import load_model, save_model
from unitail.nn.episode_model import Visibility
from unitail.randomness import stream
from unitail.relational.config import PRESETS
from unitail.relational.model import Relational


def test_a_loaded_model_gives_the_same_scores(tmp_path: Path) -> None:
    model = small_model(visibility=Visibility.JOINT).float()
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    episode = random_episode(dtype=torch.float32)
    draw = model.draw(episode.support, stream(0))
    assert loaded.config == model.config
    assert torch.equal(loaded(episode, draw), model(episode, draw))


def test_saving_again_replaces_the_model_and_leaves_nothing_behind(tmp_path: Path) -> None:
    save_model(small_model(), tmp_path / "model")
    save_model(small_model(label_dim=8, hidden_dim=20), tmp_path / "model")
    assert load_model(tmp_path / "model").config.label_dim == 8
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidCheckpoint, match="is not a model folder: got FileNotFoundError"):
        load_model(tmp_path)


def test_truncated_weights_are_refused(tmp_path: Path) -> None:
    folder = save_model(small_model(), tmp_path / "model")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:500])
    with pytest.raises(InvalidCheckpoint, match="cannot be loaded"):
        load_model(folder)


def test_weights_that_are_missing_are_refused_on_one_line(tmp_path: Path) -> None:
    """The message of torch has a line for each."""
    folder = save_model(small_model(), tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    save_file({f"other.{n}": each for n, each in weights.items()}, folder / "model.safetensors")
    with pytest.raises(InvalidCheckpoint, match="cannot be loaded: got RuntimeError") as raised:
        load_model(folder)
    assert "Missing key" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 700


def test_weights_of_another_config_are_refused(tmp_path: Path) -> None:
    folder = save_model(small_model(), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["config"]["dictionary_size"] = 9
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InvalidCheckpoint, match="size mismatch"):
        load_model(folder)


def test_an_unknown_key_in_the_config_is_refused(tmp_path: Path) -> None:
    folder = save_model(small_model(), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["config"]["dropout"] = 0.1
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InvalidConfig, match=r"unknown key in .*: got dropout"):
        load_model(folder)


def test_another_json_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(InvalidCheckpoint, match="does not describe a model"):
        load_model(tmp_path)


def test_a_config_with_a_gap_is_refused(tmp_path: Path) -> None:
    """A default in its place could make another learner of it."""
    folder = save_model(small_model(visibility=Visibility.JOINT), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    del config["config"]["visibility"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InvalidCheckpoint, match="does not describe a model"):
        load_model(folder)


def test_a_model_from_before_a_field_was_added_is_read(tmp_path: Path) -> None:
    folder = save_model(Relational(PRESETS["tiny"]), tmp_path / "model")
    table = json.loads((folder / "config.json").read_text())
    del table["config"]["coordinate_limit"]
    (folder / "config.json").write_text(json.dumps(table))
    assert load_model(folder).config == PRESETS["tiny"]


def test_what_a_model_was_trained_for_is_kept(tmp_path: Path) -> None:
    model = small_model(visibility=Visibility.JOINT)
    assert load_model(save_model(model, tmp_path / "one")).trained_for == (Visibility.JOINT,)
    model.trained_visibilities = (Visibility.ISOLATED, Visibility.JOINT, Visibility.JOINT)
    loaded = load_model(save_model(model, tmp_path / "both"))
    assert loaded.trained_for == (Visibility.JOINT, Visibility.ISOLATED)


def test_a_folder_with_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(CannotWrite, match=r"something other than a model: got thesis\.txt"):
        save_model(small_model(), tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def test_a_model_is_read_while_it_is_being_replaced(tmp_path: Path) -> None:
    folder = save_model(small_model(), tmp_path / "model")
    folder.rename(tmp_path / ".model.old")
    assert load_model(folder).config == small_model().config
    assert not folder.exists(), "a reader changes nothing"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("hidden_dim", 10**6, "far fewer numbers than the network would have"),
        ("dictionary_size", 10**12, "far fewer numbers than the network would have"),
        ("layers", 10**7, "tensors for 10000000 layers"),
        ("mlp_dim", 10**30, "cannot be loaded: got "),
    ],
)
def test_a_small_folder_does_not_take_all_memory(
    tmp_path: Path, field: str, value: int, message: str
) -> None:
    folder = save_model(small_model(), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["config"][field] = value
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InvalidCheckpoint, match=message):
        load_model(folder)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, number: float) -> None:
    model = small_model()
    with torch.no_grad():
        next(model.parameters()).view(-1)[0] = number
    with pytest.raises(InvalidCheckpoint, match="got ValueError: numbers that are not finite"):
        load_model(save_model(model, tmp_path / "model"))
