"""Arrays as users give them, turned into the tensors of an episode."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unitail.errors import InvalidEpisode

ArrayLike = Tensor | NDArray[np.generic] | list[object]


def as_features(array: ArrayLike, name: str) -> Tensor:
    """Turn an array (rows, d_T) or (B, rows, d_T) of numbers into a batch of float features."""
    features = _as_tensor(array, name, "features", kinds="fiu", allowed="numbers")
    if not features.is_floating_point():
        features = features.to(torch.get_default_dtype())
    if features.shape == (0,):  # an empty list has no width
        features = features.unsqueeze(1)
    return features.unsqueeze(0) if features.ndim == 2 else features


def as_class_indices(array: ArrayLike, name: str) -> Tensor:
    """Turn an array (rows,) or (B, rows) of whole numbers into a batch of class indices."""
    indices = _as_tensor(
        array, name, "class indices", kinds="iu", allowed="whole numbers 0..K-1"
    ).long()
    return indices.unsqueeze(0) if indices.ndim == 1 else indices


def _as_tensor(array: ArrayLike, name: str, noun: str, *, kinds: str, allowed: str) -> Tensor:
    """Convert, refusing arrays whose numpy kind is not among `kinds`."""
    if isinstance(array, Tensor):
        number = "c" if array.is_complex() else "b" if array.dtype == torch.bool else "i"
        kind = "f" if array.is_floating_point() else number
        given: object = array.dtype
    else:
        array = np.asarray(array)
        kind, given = array.dtype.kind, array.dtype
    if kind not in kinds and 0 not in array.shape:
        raise InvalidEpisode(
            f"{name} {noun} have the wrong type",
            got=given,
            allowed=allowed,
            remedy="Encode them as numbers first, for instance with scikit-learn's "
            + ("LabelEncoder." if noun == "class indices" else "OrdinalEncoder."),
        )
    if isinstance(array, Tensor):
        return array
    # A native copy: torch takes no reversed or byte-swapped memory and warns of read-only memory,
    # and the caller may go on to change the array.
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))
