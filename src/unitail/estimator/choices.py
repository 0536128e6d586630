"""Which model answers, where, and in which number type."""

import copy
from enum import StrEnum
from pathlib import Path

import torch

from unitail.configuration import choice
from unitail.errors import InvalidConfig
from unitail.learners.checkpoint import load_model
from unitail.learners.pretrained import load_default
from unitail.nn.episode_model import AnyModel, EpisodeModel

DEFAULT = "default"
"""The name of the model that comes with the package."""
DOUBLE_UP_TO = 256
"""Supports of so many rows are worked on in double precision, larger ones in single precision."""


class Precision(StrEnum):
    """The number type of the computation."""

    AUTO = "auto"
    """Double for small supports, where it costs little, single for larger ones."""
    SINGLE = "single"
    DOUBLE = "double"

    def dtype(self, num_support: int, device: torch.device) -> torch.dtype:
        """Decide for a support; queries have no say, so an answer never depends on their number."""
        small = num_support <= DOUBLE_UP_TO and device.type != "mps"  # mps has no doubles
        double = self is Precision.DOUBLE or (self is Precision.AUTO and small)
        return torch.float64 if double else torch.float32


def choose_precision(name: object) -> Precision:
    """Return the precision called `name`."""
    return choice(Precision, name, "precision")


def choose_model(model: object) -> AnyModel | None:
    """Return the model that an argument means; None is the shipped one."""
    if isinstance(model, EpisodeModel):
        return model
    if isinstance(model, str) and model == DEFAULT:
        return None
    if isinstance(model, str | Path):
        return load_model(model)
    raise InvalidConfig(
        "model is unknown",
        got=type(model).__name__,
        allowed=f"'{DEFAULT}', the folder of a model, or a model",
    )


def prepared(model: AnyModel | None, device: torch.device, dtype: torch.dtype) -> AnyModel:
    """Return a copy of the model, ready to answer; None is the shipped one."""
    if model is None:
        return load_default(device, dtype)
    ready = copy.deepcopy(model).to(device, dtype)
    return ready.eval().requires_grad_(False)
