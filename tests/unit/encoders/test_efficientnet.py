import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from unitail.encoders import efficientnet
from unitail.encoders.efficientnet import PREPROCESSING, WEIGHTS_SHA256, EfficientNetLite0
from unitail.encoders.hub import combine
from unitail.errors import MissingExtra, UnknownEncoder, Unreadable

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def encoder() -> EfficientNetLite0:
    return EfficientNetLite0(CPU)


def noise(height: int, width: int, seed: int = 0) -> Image.Image:
    generator = np.random.default_rng(seed)
    return Image.fromarray(generator.integers(0, 256, (height, width, 3), np.uint8))


def test_features_are_the_mean_of_the_map_before_the_head(encoder: EfficientNetLite0) -> None:
    images = [noise(224, 224, seed) for seed in range(2)]
    features = encoder.embed([encoder.read(image) for image in images])
    assert features.shape == (2, encoder.width) == (2, 1280)
    assert features.dtype == np.float32
    inputs = torch.tensor(np.stack(images)).permute(0, 3, 1, 2)
    model = encoder._model
    with torch.no_grad():
        logits = model((inputs.float() - 127) / 128)
        expected = model._fc(torch.from_numpy(features))
    torch.testing.assert_close(expected, logits, rtol=1e-3, atol=1e-4)


def test_pixels_are_scaled_as_in_training(
    encoder: EfficientNetLite0, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []

    def record(inputs: torch.Tensor) -> torch.Tensor:
        seen.append(inputs)
        return torch.zeros(1, 1280, 7, 7)

    monkeypatch.setattr(encoder._model, "extract_features", record)
    square = np.zeros((224, 224, 3), np.uint8)
    square[0, 1] = (127, 255, 63)
    encoder.embed([square])
    assert seen[0].shape == (1, 3, 224, 224)
    assert seen[0][0, :, 0, 1].tolist() == [0, 1, -0.5]
    assert seen[0].min() == -127 / 128


def test_the_network_sees_the_middle_square(encoder: EfficientNetLite0) -> None:
    image = np.zeros((224, 424, 3), np.uint8)
    image[:, 100:324] = np.asarray(noise(224, 224))
    np.testing.assert_array_equal(encoder.read(image), image[:, 100:324])
    np.testing.assert_array_equal(
        encoder.read(image.transpose(1, 0, 2)), image[:, 100:324].transpose(1, 0, 2)
    )
    assert encoder.read(noise(1, 3)).shape == (224, 224, 3)
    # Vectors of another crop must not be found under this key.
    assert PREPROCESSING.startswith("short side to 224 bicubic, centre crop, (x - 127) / 128")
    assert encoder.fingerprint == combine(WEIGHTS_SHA256, PREPROCESSING)


def test_a_vector_depends_on_its_image_alone(encoder: EfficientNetLite0) -> None:
    squares = [encoder.read(noise(40, 60, seed)) for seed in range(3)]
    together = encoder.embed(squares)
    alone = np.concatenate([encoder.embed([square]) for square in squares])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6 * np.abs(alone).max() * 5)
    assert np.abs(together[0] - together[1]).max() > 0.1
    assert encoder.embed([]).shape == (0, 1280)


def test_bad_items_are_refused(encoder: EfficientNetLite0, tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="No such file"):
        encoder.read(tmp_path / "nothing.png")


def test_other_weights_are_refused_unopened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = efficientnet._weights()
    path = tmp_path / "weights.pth"
    path.write_bytes(original.read_bytes() + b"\0")
    monkeypatch.setattr(efficientnet, "_weights", lambda: path)
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("opened"))
    with pytest.raises(UnknownEncoder, match="not those this package was made for"):
        EfficientNetLite0(CPU)
    path.unlink()
    with pytest.raises(UnknownEncoder, match="got no file"):
        EfficientNetLite0(CPU)


def test_weights_are_read_as_tensors_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **options: object) -> None:
        assert options["weights_only"] is True
        raise InterruptedError

    monkeypatch.setattr(torch, "load", refuse)
    with pytest.raises(InterruptedError):
        EfficientNetLite0(CPU)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(efficientnet, "find_spec", lambda _: None)
        with pytest.raises(MissingExtra, match=r"pip install 'unitail\[offline\]'"):
            EfficientNetLite0(CPU)
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(MissingExtra, match=r"pip install 'unitail\[offline\]'"):
        EfficientNetLite0(CPU)
