"""Image encoders of `transformers`: vision towers of CLIP-like models, or any vision model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.hub import combine, load_errors, load_pretrained, quiet
from unitail.encoders.images import read_image, whole_square
from unitail.encoders.model_folder import cannot_load, check_folder, locate, read_settings
from unitail.errors import optional

TOWERS = {
    "clip": "CLIPVisionModelWithProjection",
    "siglip": "SiglipVisionModel",
    "siglip2": "Siglip2VisionModel",
    "metaclip_2": "MetaClip2VisionModelWithProjection",
}
"""Classes of the vision towers of text-image models, by model type; only the tower is loaded."""
IMAGENET_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
IMAGENET_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
"""Per channel (red, green, blue), for values between 0 and 1."""
Inputs = Mapping[str, torch.Tensor]
"""Output of the image processor for one image, by the names of the model's arguments."""


class VisionEncoder(Encoder[Inputs]):
    """A vision model's image embedding, pooled output, or mean over its tokens or feature map.

    Resizing, cropping and scaling are the model's own. `model` is a hub id or a folder.
    """

    modality = Modality.IMAGE
    way = "image_embeds, else pooler_output, else mean of last_hidden_state"
    """How the vector is computed; part of the fingerprint."""

    def __init__(self, model: str, device: torch.device) -> None:
        folder = locate(model)
        check_folder(folder, model)
        model_class, config = _tower(folder, model)
        loaded = load_pretrained(
            model,
            model_class=model_class,
            processor_class="AutoImageProcessor",
            device=device,
            config=config,
        )
        self._model, self._processor, self._device = loaded.model, loaded.processor, device
        self._has_pooler = "pooler" not in loaded.untrained
        super().__init__(
            name=model,
            width=self._probe(model),
            fingerprint=combine(loaded.fingerprint, self.way),
            batch_size=32,
        )

    def read(self, item: object) -> Inputs:
        """Return the model's inputs for one image, with a batch dimension of one."""
        inputs: Inputs = dict(self._processor(images=read_image(item), return_tensors="pt"))
        return inputs

    @torch.inference_mode()
    def embed(self, batch: Sequence[Inputs]) -> NDArray[np.float32]:
        """Return the vectors (n, d_T)."""
        if not batch:
            return np.empty((0, self.width), np.float32)
        vectors = torch.cat([self._forward(inputs) for inputs in _stacked(batch)])
        return vectors.float().cpu().numpy()

    def _forward(self, inputs: Inputs) -> torch.Tensor:
        outputs = self._model(**{name: value.to(self._device) for name, value in inputs.items()})
        embedding: torch.Tensor | None = getattr(outputs, "image_embeds", None)
        if embedding is None and self._has_pooler:
            embedding = getattr(outputs, "pooler_output", None)
        if embedding is not None:
            return embedding.flatten(1)
        states: torch.Tensor = outputs.last_hidden_state  # (n, tokens, d) or (n, d, height, width)
        return states.mean(1) if states.ndim == 3 else states.mean((2, 3))

    def _probe(self, model: str) -> int:
        """Return the width by embedding one image twice; a model that is random is an error."""
        with load_errors(model):
            grey = self.read(np.full((64, 64, 3), 127, np.uint8))
            first, second = self.embed([grey, grey])
        if not np.allclose(first, second, rtol=1e-3, atol=1e-5):
            raise cannot_load(model, "different vectors for the same image")
        return len(first)


class PaperVisionEncoder(VisionEncoder):
    """The pooled state of CLIP's vision tower, before its projection: the paper's phi for images.

    The paper (appendix D.1) resizes images to 224 x 224, ignoring their aspect ratio, and uses
    ImageNet's normalisation; CLIP itself crops the middle and has its own constants. The paper does
    not state which output it uses: ViT-H's pooled state is 1280 wide, like the paper's d_data.
    """

    way = "pooler_output; bilinear resize to a square; ImageNet's mean and deviation"

    def read(self, item: object) -> Inputs:
        """Return the model's inputs for one image, with a batch dimension of one."""
        config: Any = self._model.config
        pixels = whole_square(read_image(item), config.image_size) / np.float32(255)
        scaled = (pixels - IMAGENET_MEAN) / IMAGENET_DEVIATION
        return {"pixel_values": torch.from_numpy(scaled).permute(2, 0, 1)[None]}

    def _forward(self, inputs: Inputs) -> torch.Tensor:
        tower: Any = self._model.vision_model
        state: torch.Tensor = tower(inputs["pixel_values"].to(self._device)).pooler_output
        return state


def _tower(folder: Path, name: str) -> tuple[str, object]:
    """Return the class to load, and the tower's configuration if the model has a text half too."""
    settings = read_settings(folder, "config.json")
    kind = settings.get("model_type")
    if "text_config" not in settings and "vision_config" not in settings:
        stated = (settings.get("architectures") or [""])[0]
        return (stated if stated in TOWERS.values() else "AutoModel"), None
    if kind not in TOWERS:
        raise cannot_load(name, f"a {kind} model, which is more than an image encoder")
    transformers = optional("transformers", extra="encoders")
    with quiet(transformers), load_errors(name):
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
    tower: Any = config.vision_config
    if hasattr(config, "projection_dim"):  # the tower's own value may be a wrong default
        tower.projection_dim = config.projection_dim
    return TOWERS[kind], tower


def _stacked(batch: Sequence[Inputs]) -> list[Inputs]:
    """Stack the inputs into one batch, or return them one by one if their shapes differ."""
    shapes = {tuple((name, value.shape) for name, value in inputs.items()) for inputs in batch}
    if len(shapes) > 1:
        return list(batch)
    return [{name: torch.cat([inputs[name] for inputs in batch]) for name in batch[0]}]
