import json
import logging
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from helpers.tiny_models import save_tiny_bert, save_tiny_resnet, save_tiny_vit
from unitail.encoders.hub import Pretrained, combine, load_pretrained
from unitail.errors import UnknownEncoder

CPU = torch.device("cpu")


def load_text(name: str) -> Pretrained:
    return load_pretrained(
        name, model_class="AutoModel", processor_class="AutoTokenizer", device=CPU
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_bert(tmp_path_factory.mktemp("hub") / "bert")


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """Return a copy to spoil, in a folder with a space and an umlaut."""
    return Path(shutil.copytree(saved, tmp_path / "mein Mödell"))


def test_a_folder_is_loaded_frozen_in_float32_with_the_weights_of_the_file(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    save_file(
        {name: tensor.half() for name, tensor in weights.items()},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "float16"}))
    loaded = load_text(str(folder))
    assert not loaded.model.training
    assert all(not part.requires_grad for part in loaded.model.parameters())
    for name, tensor in loaded.model.state_dict().items():
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor, weights[name].half().float(), rtol=0, atol=0)
    assert loaded.processor(["the cat"])["input_ids"] == [[2, 5, 6, 3]]


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "tokenizer.json"])
def test_the_fingerprint_is_of_the_contents(file: str, saved: Path, folder: Path) -> None:
    original = load_text(str(saved)).fingerprint
    assert load_text(str(folder)).fingerprint == original
    if file == "model.safetensors":
        weights = load_file(folder / file)
        weights["embeddings.word_embeddings.weight"] += 1
        save_file(weights, folder / file, {"format": "pt"})
    else:
        (folder / file).write_text((folder / file).read_text() + "\n")
    assert load_text(str(folder)).fingerprint != original


def test_the_fingerprint_names_the_classes(tmp_path: Path) -> None:
    folder = save_tiny_resnet(tmp_path)
    fingerprints = {
        load_pretrained(
            str(folder), model_class=name, processor_class="AutoImageProcessor", device=CPU
        ).fingerprint
        for name in ("AutoModel", "AutoModelForImageClassification")
    }
    assert len(fingerprints) == 2


def test_parts_are_combined_in_their_order() -> None:
    assert len({combine("ab", "c"), combine("a", "bc"), combine("c", "ab"), combine("abc")}) == 4


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "tokenizer.json"])
def test_broken_files_are_refused(file: str, folder: Path) -> None:
    (folder / file).write_bytes(b"\x00broken")
    with pytest.raises(UnknownEncoder, match="cannot be loaded") as raised:
        load_text(str(folder))
    assert "\n" not in str(raised.value)


def test_weights_that_would_be_random_are_refused(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UnknownEncoder, match=r"without the weights encoder\.layer\.1\.output"):
        load_text(str(folder))


def test_a_missing_pooler_is_reported(tmp_path: Path, saved: Path) -> None:
    loaded = load_pretrained(
        str(save_tiny_vit(tmp_path)),
        model_class="AutoModel",
        processor_class="AutoImageProcessor",
        device=CPU,
    )
    assert loaded.untrained == {"pooler"}
    assert load_text(str(saved)).untrained == set()


def test_a_model_with_code_of_its_own_is_refused(folder: Path) -> None:
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    config = {"model_type": "evil", "auto_map": {"AutoModel": "evil.M", "AutoConfig": "evil.C"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnknownEncoder, match="cannot be loaded"):
        load_text(str(folder))


def test_loading_says_nothing_and_leaves_logging_as_it_was(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = save_tiny_resnet(tmp_path)  # the head is in the file and not in the model
    level = transformers.utils.logging.get_verbosity()
    capfd.readouterr()
    load_pretrained(
        str(folder), model_class="AutoModel", processor_class="AutoImageProcessor", device=CPU
    )
    assert capfd.readouterr() == ("", "")
    assert transformers.utils.logging.get_verbosity() == level == logging.WARNING
    assert transformers.utils.logging.is_progress_bar_enabled()
