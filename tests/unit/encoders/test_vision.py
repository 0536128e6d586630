import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from helpers.tiny_models import (
    save_tiny_bert,
    save_tiny_clip,
    save_tiny_mae,
    save_tiny_resnet,
    save_tiny_vit,
)
from unitail.encoders.vision import PaperVisionEncoder, VisionEncoder
from unitail.errors import UnknownEncoder, Unreadable

CPU = torch.device("cpu")


def drawn(seed: int, size: tuple[int, int] = (48, 40)) -> Image.Image:
    generator = np.random.default_rng(seed)
    return Image.fromarray(generator.integers(0, 256, (*size, 3), np.uint8))


IMAGES = [drawn(0), drawn(1, (32, 64)), drawn(2, (90, 30))]


def vectors(encoder: VisionEncoder) -> np.ndarray:
    return encoder.embed([encoder.read(image) for image in IMAGES])


def test_only_the_vision_tower_of_clip_with_its_projection(tmp_path: Path) -> None:
    folder = save_tiny_clip(tmp_path, projection=12)
    encoder = VisionEncoder(str(folder), CPU)
    assert type(encoder._model) is transformers.CLIPVisionModelWithProjection
    assert encoder.width == 12
    whole = transformers.CLIPModel.from_pretrained(folder).eval()
    processor = transformers.CLIPImageProcessorPil.from_pretrained(folder)
    with torch.no_grad():
        inputs = processor(images=IMAGES, return_tensors="pt")
        expected = whole.visual_projection(whole.vision_model(**inputs).pooler_output)
    np.testing.assert_allclose(vectors(encoder), expected.numpy(), rtol=1e-4, atol=1e-5)


def test_the_papers_way_is_the_pooled_state_of_the_whole_image(tmp_path: Path) -> None:
    folder = save_tiny_clip(tmp_path, projection=12)
    encoder, usual = PaperVisionEncoder(str(folder), CPU), VisionEncoder(str(folder), CPU)
    tower = transformers.CLIPModel.from_pretrained(folder).eval().vision_model
    side = tower.config.image_size
    squares = [image.resize((side, side), Image.Resampling.BILINEAR) for image in IMAGES]
    pixels = torch.tensor(np.stack([np.asarray(each) for each in squares]) / 255)
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    inputs = ((pixels - mean) / deviation).permute(0, 3, 1, 2).float()
    with torch.no_grad():
        expected = tower(pixel_values=inputs).pooler_output
    np.testing.assert_allclose(vectors(encoder), expected.numpy(), rtol=1e-4, atol=1e-5)
    assert encoder.width == tower.config.hidden_size != usual.width
    assert encoder.fingerprint != usual.fingerprint


def test_a_tower_that_was_saved_alone(tmp_path: Path) -> None:
    whole = VisionEncoder(str(save_tiny_clip(tmp_path / "whole")), CPU)
    whole._model.save_pretrained(tmp_path / "tower")
    whole._processor.save_pretrained(tmp_path / "tower")
    tower = VisionEncoder(str(tmp_path / "tower"), CPU)
    np.testing.assert_array_equal(vectors(tower), vectors(whole))


def test_the_pooled_output_of_a_resnet(tmp_path: Path) -> None:
    folder = save_tiny_resnet(tmp_path, width=16)
    encoder = VisionEncoder(str(folder), CPU)
    assert encoder.width == 16
    with torch.no_grad():
        inputs = encoder._processor(images=IMAGES, return_tensors="pt")
        states = transformers.ResNetModel.from_pretrained(folder).eval()(**inputs).last_hidden_state
    np.testing.assert_allclose(vectors(encoder), states.mean((2, 3)).numpy(), rtol=1e-4, atol=1e-5)


def test_the_mean_over_tokens_where_the_pooler_is_untrained(tmp_path: Path) -> None:
    folder = save_tiny_vit(tmp_path, width=16)
    encoder = VisionEncoder(str(folder), CPU)
    again = VisionEncoder(str(folder), CPU)  # its pooler has other random weights
    np.testing.assert_array_equal(vectors(encoder), vectors(again))
    with torch.no_grad():
        inputs = encoder._processor(images=IMAGES, return_tensors="pt")
        states = encoder._model(**inputs).last_hidden_state
    np.testing.assert_allclose(vectors(encoder), states.mean(1).numpy(), rtol=1e-5, atol=1e-6)


def test_a_vector_depends_on_its_image_alone(tmp_path: Path) -> None:
    encoder = VisionEncoder(str(save_tiny_clip(tmp_path)), CPU)
    together = vectors(encoder)
    alone = np.concatenate([encoder.embed([encoder.read(image)]) for image in IMAGES])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-5)
    assert np.abs(together[0] - together[1]).max() > 0.01
    assert together.dtype == np.float32
    assert encoder.embed([]).shape == (0, encoder.width)


def test_images_of_different_shapes_are_embedded_one_by_one(tmp_path: Path) -> None:
    folder = save_tiny_resnet(tmp_path)
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    settings |= {"do_resize": False, "do_center_crop": False}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    encoder = VisionEncoder(str(folder), CPU)
    read = [encoder.read(image) for image in IMAGES]
    assert len({inputs["pixel_values"].shape for inputs in read}) == len(IMAGES)
    alone = np.concatenate([encoder.embed([inputs]) for inputs in read])
    np.testing.assert_array_equal(encoder.embed(read), alone)


def test_torchvision_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    encoder = VisionEncoder(str(save_tiny_resnet(tmp_path)), CPU)
    assert type(encoder._processor).__name__.endswith("Pil")


def test_a_model_that_throws_dice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownEncoder, match="different vectors for the same image"):
        VisionEncoder(str(save_tiny_mae(tmp_path)), CPU)


def test_models_of_other_things_are_refused(tmp_path: Path) -> None:
    folder = save_tiny_bert(tmp_path / "bert")
    with pytest.raises(UnknownEncoder, match="cannot be loaded"):
        VisionEncoder(str(folder), CPU)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "talker", "text_config": {}, "vision_config": {}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnknownEncoder, match="a talker model, which is more than"):
        VisionEncoder(str(folder), CPU)


def test_bad_items_are_refused(tmp_path: Path) -> None:
    encoder = VisionEncoder(str(save_tiny_resnet(tmp_path)), CPU)
    with pytest.raises(Unreadable, match="cannot be read as an image"):
        encoder.read(b"nonsense")


def test_the_fingerprint_is_of_the_contents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (
        VisionEncoder(str(save_tiny_resnet(tmp_path / name)), CPU) for name in ("a", "b")
    )
    assert first.fingerprint == second.fingerprint
    other = VisionEncoder(str(save_tiny_resnet(tmp_path / "c", width=8)), CPU)
    assert other.fingerprint != first.fingerprint
    monkeypatch.setattr(VisionEncoder, "way", "another")
    assert VisionEncoder(str(tmp_path / "a"), CPU).fingerprint != first.fingerprint
    assert first.name == str(tmp_path / "a")
