"""Learners whose answers are known, and small banks to test them on."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unitail.banks.bank import FeatureBank
from unitail.banks.manifest import BankManifest
from unitail.banks.writer import BankWriter
from unitail.errors import TooManyClasses
from unitail.framework.episode import Support
from unitail.framework.learner import Paradigm


class SureOfFirst:
    """Gives class 0 a fixed probability and shares out the rest."""

    paradigm = Paradigm.EXPLICIT

    def __init__(self, probability: float = 0.6) -> None:
        self.probability = probability

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        ways = support.ways
        answers = torch.full((*query_features.shape[:2], ways), (1 - self.probability) / (ways - 1))
        answers[..., 0] = self.probability
        return answers.log()


class SolvesNothing:
    """Refuses every task."""

    paradigm = Paradigm.EXPLICIT

    def infer(self, support: Support, query_features: Tensor) -> Tensor:
        raise TooManyClasses("too many classes", got=support.ways, allowed="none")


def write_blobs(
    root: Path,
    name: str = "blobs",
    *,
    encoder: str = "toy",
    classes: int = 6,
    rows: int = 12,
    width: int = 4,
    noise: float = 0.5,
    seed: int = 0,
) -> FeatureBank:
    """Write a bank of classes with different means to ROOT/ENCODER/NAME."""
    generator = np.random.default_rng(seed)
    means = generator.normal(size=(classes, width))
    indices = np.repeat(np.arange(classes), rows)
    features = means[indices] + noise * generator.normal(size=(len(indices), width))
    manifest = BankManifest(name=name, encoder=encoder, rows=len(indices), feature_dim=width)
    folder = root / encoder / name
    with BankWriter(folder, manifest, [f"class {number}" for number in range(classes)]) as writer:
        writer.append(features.astype(np.float32), indices)
    return FeatureBank.open(folder)
