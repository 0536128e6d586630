"""Scores of held-out rows, kept with what they belong to: another support never gets them."""

import hashlib
import json
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.configuration import to_table
from unitail.estimator.rows import Rows
from unitail.estimator.settings import Settings
from unitail.learners.pretrained import fingerprint, shipped_folder
from unitail.nn.episode_model import EpisodeModel

WITHOUT_EFFECT = frozenset({"device", "chunk_size", "visibility", "class_shares"})
"""Settings that do not change the scores, which are of rows asked in isolation."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """What prediction sets are made with."""

    scores: NDArray[np.float64]
    """1 - p(true class) of the rows that were left out."""
    key: str
    """The hash of the rows and settings that they belong to."""

    @classmethod
    def of(cls, scores: NDArray[np.float64], rows: Rows, settings: Settings) -> Self:
        """Bind scores to their rows and settings."""
        return cls(scores=scores, key=calibration_key(rows, settings))

    def scores_for(self, rows: Rows, settings: Settings) -> NDArray[np.float64] | None:
        """Return the scores if they belong to these rows and settings."""
        return self.scores if self.key == calibration_key(rows, settings) else None


def calibration_key(rows: Rows, settings: Settings) -> str:
    """Hash all that decides the scores: each field, so that a new one is never forgotten."""
    digest = hashlib.sha256()
    for each in fields(rows):
        _add(digest, each.name, getattr(rows, each.name))
    for each in fields(settings):
        if each.name not in WITHOUT_EFFECT:
            value = getattr(settings, each.name)  # shares are saved as lists
            _add(digest, each.name, value.tolist() if isinstance(value, np.ndarray) else value)
    return digest.hexdigest()


def _add(digest: Any, name: str, value: Any) -> None:  # noqa: ANN401 - hashlib names no type
    """Hash one field."""
    digest.update(f"{name}:".encode())
    if isinstance(value, EpisodeModel):
        digest.update(json.dumps(to_table(value.config), default=str).encode())
        for key, tensor in value.state_dict().items():
            raw = tensor.cpu().contiguous().reshape(-1).view(torch.uint8)  # numpy has no bfloat16
            _add(digest, f"{key} {tensor.dtype} {tuple(tensor.shape)}", raw.numpy())
    elif name == "model":
        digest.update(fingerprint(shipped_folder(value)).encode())
    elif isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    else:
        plain = value if isinstance(value, str) else np.asarray(value).tolist()
        digest.update(json.dumps(plain, default=str).encode())
