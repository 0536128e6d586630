"""Data sets that come with scikit-learn, as tasks and as feature banks that need no folder."""

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from unitail.banks.bank import FeatureBank
from unitail.banks.manifest import BankManifest, FeatureType
from unitail.tasks.arrays import ArrayTask

LOADERS = {
    "digits": datasets.load_digits,
    "wine": datasets.load_wine,
    "breast cancer": datasets.load_breast_cancer,
}
ENCODER = "scikit-learn"
"""Encoder name of these banks; columns are standardised over all rows."""


def bundled_tasks() -> list[ArrayTask]:
    """Return scikit-learn's digits, wine and breast cancer sets as tasks.

    Columns are standardised over all rows: a simple frozen encoder that needs no labels.
    """
    return [_task(name) for name in LOADERS]


def bundled_arrays(name: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return a data set's standardised features (rows, d_T) and class indices (rows,)."""
    features, class_indices = LOADERS[name](return_X_y=True)
    spread = features.std(axis=0)
    encoded = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return encoded.astype(np.float32), class_indices.astype(np.int64)


def _task(name: str) -> ArrayTask:
    features, class_indices = bundled_arrays(name)
    return ArrayTask(name=name, features=features, class_indices=class_indices)


def bundled_names() -> list[str]:
    """Return the names of the data sets."""
    return [_name(loader) for loader in LOADERS]


def bundled_bank(name: str) -> FeatureBank:
    """Return a data set as a bank in memory."""
    features, indices = bundled_arrays(next(each for each in LOADERS if _name(each) == name))
    manifest = BankManifest(
        name=name,
        encoder=ENCODER,
        preprocessing="columns standardised over all rows",
        rows=len(features),
        feature_dim=features.shape[1],
        dtype=FeatureType.FLOAT32,
        features_sha256=hashlib.sha256(features.tobytes()).hexdigest(),
        labels_sha256=hashlib.sha256(indices.tobytes()).hexdigest(),
    )
    return FeatureBank(
        folder=Path(ENCODER) / name,
        manifest=manifest,
        name=name,
        encoder=ENCODER,
        features=features,
        class_indices=indices,
        class_names=tuple(f"class {number}" for number in range(int(indices.max()) + 1)),
    )


def _name(title: str) -> str:
    return title.replace(" ", "_")
