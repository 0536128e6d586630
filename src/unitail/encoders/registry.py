"""Registry of all encoders by name: the only file that knows every one of them."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import torch

from unitail.encoder_names import DEFAULTS, encoder_name
from unitail.encoders.efficientnet import EfficientNetLite0
from unitail.encoders.encoder import Encoder, Modality
from unitail.encoders.log_mel import LogMelEncoder
from unitail.encoders.speech import SpeechEncoder
from unitail.encoders.text import TextEncoder, minilm_folder
from unitail.encoders.vision import PaperVisionEncoder, VisionEncoder
from unitail.errors import UnknownEncoder
from unitail.processes import choose_device


@dataclass(frozen=True)
class RegisteredEncoder:
    """A named encoder and its modality."""

    modality: Modality
    make: Callable[[torch.device], Encoder[Any]]


ENCODERS: dict[str, RegisteredEncoder] = {
    "efficientnet-lite0": RegisteredEncoder(Modality.IMAGE, EfficientNetLite0),
    "openclip-vit-h-14": RegisteredEncoder(
        Modality.IMAGE, partial(VisionEncoder, "laion/CLIP-ViT-H-14-laion2B-s32B-b79K")
    ),
    "openclip-vit-h-14-paper": RegisteredEncoder(
        Modality.IMAGE, partial(PaperVisionEncoder, "laion/CLIP-ViT-H-14-laion2B-s32B-b79K")
    ),
    "resnet-18": RegisteredEncoder(Modality.IMAGE, partial(VisionEncoder, "microsoft/resnet-18")),
    "minilm": RegisteredEncoder(Modality.TEXT, lambda device: TextEncoder(minilm_folder(), device)),
    "distilbert": RegisteredEncoder(Modality.TEXT, partial(TextEncoder, "distilbert-base-uncased")),
    "log-mel": RegisteredEncoder(Modality.AUDIO, LogMelEncoder),
    "wav2vec2": RegisteredEncoder(Modality.AUDIO, partial(SpeechEncoder, "facebook/wav2vec2-base")),
}
"""Encoders with a name."""

MODELS: dict[Modality, Callable[[str, torch.device], Encoder[Any]]] = {
    Modality.IMAGE: VisionEncoder,
    Modality.TEXT: TextEncoder,
    Modality.AUDIO: SpeechEncoder,
}
"""Encoder classes for any other transformers model."""


def make_encoder(
    name: str, modality: Modality | None = None, *, device: str = "auto"
) -> Encoder[Any]:
    """Create an encoder by its name, or from a transformers model by hub id or folder.

    `modality` is that of the items: required for a transformers model, and an error for a named
    encoder of another modality.
    """
    name, where = encoder_name(name), choose_device(device)
    make = _named if name in ENCODERS else _model
    encoder = make(name, modality, where)
    encoder.name = name
    return encoder


def default_encoder(modality: Modality) -> str:
    """Return the name of the encoder that is used if none is named."""
    if modality not in DEFAULTS:
        raise UnknownEncoder(
            f"{modality} items have no frozen encoder",
            got=modality,
            allowed=", ".join(DEFAULTS),
            remedy="Tables are encoded by a TableEncoder, fitted to their labelled rows.",
        )
    return DEFAULTS[modality]


def encoder_names() -> dict[str, Modality]:
    """Return the modality of every named encoder."""
    return {name: entry.modality for name, entry in ENCODERS.items()}


def _named(name: str, modality: Modality | None, device: torch.device) -> Encoder[Any]:
    entry = ENCODERS[name]
    if modality not in (None, entry.modality):
        raise UnknownEncoder(
            f"encoder {name!r} takes {entry.modality} items",
            got=f"{modality} items",
            allowed=", ".join(_names(modality)) or "no frozen encoder for these",
        )
    return entry.make(device)


def _model(name: str, modality: Modality | None, device: torch.device) -> Encoder[Any]:
    short = "/" not in name and not Path(name).is_dir()
    if modality not in MODELS:
        raise _unknown(name, modality, "no such name") if short else _no_modality(name, modality)
    try:
        return MODELS[modality](name, device)
    except UnknownEncoder as error:
        if short:  # a typo is more likely than one of the few hub ids without an owner
            reason = f"no such name or folder here, and from the hub: {error.got}"
            raise _unknown(name, modality, reason) from error
        raise


def _no_modality(name: str, modality: Modality | None) -> UnknownEncoder:
    return UnknownEncoder(
        f"model {name!r} needs a modality, as it is not a named encoder",
        got=f"modality {modality}",
        allowed=", ".join(MODELS),
        remedy="Name the modality of the items.",
    )


def _unknown(name: str, modality: Modality | None, reason: str) -> UnknownEncoder:
    near = get_close_matches(name, ENCODERS, n=3)
    hint = f"; perhaps you meant {' or '.join(near)}" if near else ""
    names = _names(modality) or list(ENCODERS)
    return UnknownEncoder(
        f"unknown encoder {name!r}{hint}",
        got=reason,
        allowed=f"{', '.join(names)}, or the id or folder of a transformers model",
    )


def _names(modality: Modality | None) -> list[str]:
    return [name for name, entry in ENCODERS.items() if entry.modality == modality]
