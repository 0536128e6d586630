"""Rows of a few classes, as arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def blobs(
    ways: int = 3, shots: int = 4, queries: int = 5, width: int = 6, seed: int = 0
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return support and query rows of classes with different means."""
    generator = np.random.default_rng(seed)
    means = 2 * generator.normal(size=(ways, width))
    y, asked = np.repeat(np.arange(ways), shots), np.repeat(np.arange(ways), queries)
    order = generator.permutation(len(y))
    support, query = (
        means[labels] + generator.normal(size=(len(labels), width)) for labels in (y[order], asked)
    )
    return support, y[order], query, asked
