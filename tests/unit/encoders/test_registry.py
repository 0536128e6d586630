import sys
from collections.abc import Callable
from pathlib import Path

import huggingface_hub.constants
import pytest

from helpers.tiny_models import save_tiny_bert, save_tiny_resnet, save_tiny_wav2vec2
from unitail.encoders.encoder import Modality
from unitail.encoders.registry import default_encoder, encoder_names, make_encoder
from unitail.errors import InvalidConfig, MissingExtra, UnknownEncoder

MODALITIES = [Modality.IMAGE, Modality.TEXT, Modality.AUDIO]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("modality", MODALITIES)
def test_the_default_works_without_network(modality: Modality) -> None:
    name = default_encoder(modality)
    assert encoder_names()[name] is modality
    encoder = make_encoder(name, modality, device="cpu")
    assert (encoder.name, encoder.modality) == (name, modality)
    assert encoder.width > 0
    assert len(encoder.fingerprint) == 64


@pytest.mark.parametrize(
    ("modality", "name"),
    [
        (Modality.IMAGE, "efficientnet-lite0"),
        (Modality.TEXT, "minilm"),
        (Modality.AUDIO, "log-mel"),
    ],
)
def test_the_default_is_named(modality: Modality, name: str) -> None:
    """Whatever is registered first: vectors of banks and saved classifiers go by it."""
    assert default_encoder(modality) == name


def test_tables_have_no_frozen_encoder() -> None:
    with pytest.raises(UnknownEncoder, match="table items have no frozen encoder"):
        default_encoder(Modality.TABLE)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("openclip-vit-h-14", "laion/CLIP-ViT-H-14-laion2B-s32B-b79K"),
        ("resnet-18", "microsoft/resnet-18"),
        ("distilbert", "distilbert-base-uncased"),
        ("wav2vec2", "facebook/wav2vec2-base"),
    ],
)
def test_the_papers_encoders_are_models_of_the_hub(name: str, model: str) -> None:
    with pytest.raises(UnknownEncoder, match=f"model '{model}' is neither a folder nor"):
        make_encoder(name, device="cpu")


@pytest.mark.parametrize(
    ("save", "modality"),
    [
        (save_tiny_resnet, Modality.IMAGE),
        (save_tiny_bert, Modality.TEXT),
        (save_tiny_wav2vec2, Modality.AUDIO),
    ],
)
def test_any_other_model_needs_its_modality(
    save: Callable[[Path], Path],
    modality: Modality,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save(tmp_path / "model")
    encoder = make_encoder(str(tmp_path / "model"), modality, device="cpu")
    assert encoder.modality is modality
    assert encoder.name == str(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    assert make_encoder("model", modality, device="cpu").fingerprint == encoder.fingerprint
    with pytest.raises(
        UnknownEncoder, match="needs a modality, as it is not a named encoder: got modality None"
    ):
        make_encoder("model")
    with pytest.raises(UnknownEncoder, match="got modality table; allowed: image, text, audio"):
        make_encoder(str(tmp_path / "model"), Modality.TABLE)


@pytest.mark.parametrize("modality", [None, Modality.IMAGE, Modality.TABLE])
def test_a_slip_in_a_name_gets_suggestions(modality: Modality | None) -> None:
    with pytest.raises(UnknownEncoder, match="perhaps you meant efficientnet-lite0") as raised:
        make_encoder("efficientnet_lite", modality, device="cpu")
    assert "openclip-vit-h-14" in str(raised.value)
    assert ("minilm" in str(raised.value)) == (modality is not Modality.IMAGE)
    with pytest.raises(UnknownEncoder, match=r"unknown encoder 'zzz': got .*allowed: .*resnet-18"):
        make_encoder("zzz", modality, device="cpu")


def test_an_encoder_of_another_modality_is_refused() -> None:
    message = "encoder 'minilm' takes text items: got image items; allowed: efficientnet-lite0, "
    with pytest.raises(UnknownEncoder, match=message):
        make_encoder("minilm", Modality.IMAGE)
    with pytest.raises(UnknownEncoder, match="got table items; allowed: no frozen encoder"):
        make_encoder("minilm", Modality.TABLE)


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="device is unknown"):
        make_encoder("minilm", device="abacus")


def test_without_transformers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r"pip install 'unitail\[encoders\]'"):
        make_encoder("minilm", device="cpu")
