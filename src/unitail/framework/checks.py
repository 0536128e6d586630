"""Checks on the arrays of an episode and on answers, each with a message that says what to do."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unitail.errors import InvalidEpisode, UserError

ArrayLike = Tensor | NDArray[np.generic] | list[object]
TOLERANCE = 0.05
"""How far the logarithm of the sum of an answer's probabilities may be from zero."""


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


def check_finite(features: Tensor, name: str) -> None:
    """Refuse NaN and infinite features."""
    finite = features.isfinite()
    if not finite.all():
        count = int((~finite).sum())
        raise InvalidEpisode(
            f"{name} features are not finite",
            got=f"{count} NaN or infinite values of {features.numel()}",
            allowed="finite numbers",
            remedy="Impute or drop the rows concerned.",
        )


def check_log_probabilities(answers: Tensor, shape: tuple[int, ...], name: str) -> None:
    """Refuse answers of the learner `name` that are not log-probabilities of this shape."""
    if answers.shape != shape:
        raise UserError(
            f"the answers of {name} have the wrong shape",
            got=tuple(answers.shape),
            allowed=f"{shape}",
        )
    if answers.isnan().any():  # argmax would take NaN for the most probable class
        raise UserError(
            f"the log-probabilities of {name} are not numbers",
            got=f"{int(answers.isnan().sum())} NaN of {answers.numel()} values",
            allowed="log-probabilities",
            remedy="Correct or retrain the learner.",
        )
    excess = float(answers.float().logsumexp(dim=-1).abs().max())
    if excess > TOLERANCE:
        raise UserError(
            f"the answers of {name} are not log-probabilities",
            got=f"probabilities with a sum of up to exp(±{excess:.3g})",
            allowed="a sum of 1 for each query",
            remedy="End the learner with `log_softmax(dim=-1)`.",
        )


def check_features(features: Tensor, name: str) -> None:
    """Refuse features of the wrong type or shape, and none at all."""
    if not features.is_floating_point():
        raise InvalidEpisode(
            f"{name} features have the wrong type",
            got=features.dtype,
            allowed="a floating-point type",
            remedy="Convert with `features.float()`.",
        )
    if features.ndim != 3:
        raise InvalidEpisode(
            f"{name} features have the wrong shape",
            got=tuple(features.shape),
            allowed="(episodes, examples, width)",
            remedy="Add the missing dimensions, or build with `from_arrays`.",
        )
    if 0 in features.shape:
        raise InvalidEpisode(
            f"the {name} is empty",
            got=f"{features.shape[1]} examples of width {features.shape[2]}"
            f" in {features.shape[0]} episodes",
            allowed="at least one of each",
            remedy=f"Give the {name} at least one example.",
        )


def check_class_indices(class_indices: Tensor, features: Tensor, name: str) -> None:
    """Refuse class indices of the wrong type, or not one for each example."""
    if class_indices.dtype != torch.int64:
        raise InvalidEpisode(
            f"{name} class indices have the wrong type",
            got=class_indices.dtype,
            allowed="torch.int64",
            remedy="Number the classes 0..K-1 and convert with `.long()`.",
        )
    if class_indices.shape != features.shape[:2]:
        raise InvalidEpisode(
            f"{name} class indices do not match the features",
            got=tuple(class_indices.shape),
            allowed=f"{tuple(features.shape[:2])}, one for each example",
        )


def check_range(class_indices: Tensor, ways: int, name: str) -> None:
    """Refuse class indices outside 0..K-1."""
    low, high = (int(bound) for bound in class_indices.aminmax())
    if low < 0 or high >= ways:
        raise InvalidEpisode(
            f"{name} class indices are out of range",
            got=f"values from {low} to {high}",
            allowed=f"0 to {ways - 1}, with {ways} classes",
            remedy="Number the classes 0..K-1.",
        )
