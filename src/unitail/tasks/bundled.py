"""Real tasks that come with scikit-learn, for demonstrations without a download."""

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from unitail.tasks.arrays import ArrayTask

LOADERS = {
    "digits": datasets.load_digits,
    "wine": datasets.load_wine,
    "breast cancer": datasets.load_breast_cancer,
}


def bundled_tasks() -> list[ArrayTask]:
    """Return scikit-learn's digits, wine and breast cancer sets as tasks.

    Columns are standardised over all rows: a simple frozen encoder that needs no labels.
    """
    return [_task(name) for name in LOADERS]


def bundled_arrays(name: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the rows (rows, d_T) of one of them, standardised, and their classes (rows,)."""
    features, class_indices = LOADERS[name](return_X_y=True)
    spread = features.std(axis=0)
    encoded = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return encoded.astype(np.float32), class_indices.astype(np.int64)


def _task(name: str) -> ArrayTask:
    features, class_indices = bundled_arrays(name)
    return ArrayTask(name=name, features=features, class_indices=class_indices)
