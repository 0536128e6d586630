"""The data sets that come with scikit-learn, as feature banks that need no folder."""

import hashlib
from pathlib import Path

from unitail.banks.bank import FeatureBank
from unitail.banks.manifest import BankManifest, FeatureType
from unitail.tasks.bundled import LOADERS, bundled_arrays

ENCODER = "scikit-learn"
"""What stands for an encoder in their names; columns are standardised over all rows."""


def bundled_names() -> list[str]:
    """List the data sets."""
    return [_name(loader) for loader in LOADERS]


def bundled_bank(name: str) -> FeatureBank:
    """Return one of them as a bank in memory."""
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
