"""Feature tables whose features tell which row they are."""

from collections.abc import Sequence

import numpy as np

from unitail.banks.table import FeatureTable


def numbered_table(
    sizes: Sequence[int],
    *,
    name: str = "set",
    encoder: str = "encoder",
    first: int = 0,
    width: int = 3,
    dtype: str = "float32",
    seed: int = 0,
) -> FeatureTable:
    """Return `sizes[k]` rows of class k in random order; coordinate 0 counts rows from `first`."""
    classes = np.repeat(np.arange(len(sizes)), sizes)
    classes = np.random.default_rng(seed).permutation(classes)
    numbers = np.arange(first, first + len(classes))
    features = np.repeat(numbers[:, None], width, axis=1).astype(dtype)
    names = tuple(f"{name} {index}" for index in range(len(sizes)))
    return FeatureTable(
        name=name, encoder=encoder, features=features, class_indices=classes, class_names=names
    )
