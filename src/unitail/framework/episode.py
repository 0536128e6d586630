"""Support, query and episode: the batches that every learner reads.

An episode is an N-shot instance (S, Q) of a task (paper, section 3.4). All tensors hold a batch of
B episodes that agree in n, m, d_T and K; the shots of the classes may differ.

Shapes and types are checked on construction. Values (finite features, class indices in range,
every class present) are checked by `check_values`, which `from_arrays` and all learners call. On a
GPU, reading values synchronises with the device, so the training loop skips these checks.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unitail.errors import InvalidEpisode

ArrayLike = Tensor | NDArray[np.generic] | list[object]


def as_features(array: ArrayLike, name: str) -> Tensor:
    """Convert an array (rows, d_T) or (B, rows, d_T) of numbers to a batch of float features."""
    features = _as_tensor(array, name, "features", kinds="fiu", allowed="numbers")
    if not features.is_floating_point():
        features = features.to(torch.get_default_dtype())
    if features.shape == (0,):  # an empty list has no width
        features = features.unsqueeze(1)
    return features.unsqueeze(0) if features.ndim == 2 else features


def as_class_indices(array: ArrayLike, name: str) -> Tensor:
    """Convert an array (rows,) or (B, rows) of integers to a batch of class indices."""
    indices = _as_tensor(array, name, "class indices", kinds="iu", allowed="integers 0..K-1").long()
    return indices.unsqueeze(0) if indices.ndim == 1 else indices


def _as_tensor(array: ArrayLike, name: str, noun: str, *, kinds: str, allowed: str) -> Tensor:
    """Convert an array to a tensor; refuse numpy kinds of dtypes that are not in `kinds`."""
    if isinstance(array, Tensor):
        other = "c" if array.is_complex() else "b" if array.dtype == torch.bool else "i"
        kind = "f" if array.is_floating_point() else other
        dtype: object = array.dtype
    else:
        array = np.asarray(array)
        kind, dtype = array.dtype.kind, array.dtype
    if kind not in kinds and 0 not in array.shape:
        raise InvalidEpisode(
            f"{name} {noun} have the wrong type",
            got=dtype,
            allowed=allowed,
            remedy="Encode them as numbers first, for instance with scikit-learn's "
            + ("LabelEncoder." if noun == "class indices" else "OrdinalEncoder."),
        )
    if isinstance(array, Tensor):
        return array
    # Copied in native byte order: torch rejects reversed or byte-swapped memory and warns about
    # read-only memory, and the caller may modify the array later.
    return torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("="), order="C"))


@dataclass(frozen=True, kw_only=True, eq=False)
class Support:
    """S: the labelled examples of a batch of episodes."""

    features: Tensor
    """Encoded inputs phi_T(x), (B, n, d_T)."""
    class_indices: Tensor
    """The class of each example, 0..K-1, (B, n)."""
    ways: int
    """K, the number of classes."""

    def __post_init__(self) -> None:
        check_features(self.features, "support")
        check_class_indices(self.class_indices, self.features, "support")
        if self.ways < 2:
            raise InvalidEpisode(
                "a task needs at least two classes",
                got=f"ways={self.ways}",
                allowed="2 or more",
                remedy="Add labelled examples of another class.",
            )

    @classmethod
    def from_arrays(
        cls, features: ArrayLike, class_indices: ArrayLike, ways: int | None = None
    ) -> Self:
        """Build a checked support from arrays (n, d_T) and (n,), or batches of them.

        Without `ways`, K is the largest class index plus one.
        """
        indices = as_class_indices(class_indices, "support")
        if ways is None:
            ways = int(indices.max()) + 1 if indices.numel() else 0
        support = cls(features=as_features(features, "support"), class_indices=indices, ways=ways)
        support.check_values()
        return support

    @property
    def num_episodes(self) -> int:
        """B, the number of episodes."""
        return self.features.shape[0]

    @property
    def num_support(self) -> int:
        """n, the number of labelled examples in each episode."""
        return self.features.shape[1]

    @property
    def feature_dim(self) -> int:
        """d_T, the width of the features."""
        return self.features.shape[2]

    def shots(self) -> Tensor:
        """Count the examples of each class, (B, K)."""
        counts = self.class_indices.new_zeros(self.num_episodes, self.ways)
        return counts.scatter_add(1, self.class_indices, torch.ones_like(self.class_indices))

    def check_values(self) -> None:
        """Refuse non-finite features, indices outside 0..K-1 and classes without examples."""
        check_finite(self.features, "support")
        self.check_classes()

    def check_classes(self) -> None:
        """Refuse indices outside 0..K-1 and classes without examples."""
        check_range(self.class_indices, self.ways, "support")
        empty = (self.shots() == 0).nonzero()
        if len(empty):
            raise InvalidEpisode(
                "a class has no example in the support",
                got=f"class {int(empty[0, 1])} of {self.ways} without examples",
                allowed="at least one example for each class",
                remedy="Add an example of it, or renumber the classes with examples as 0..K-1.",
            )

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> Self:
        """Move to a device and, if given, another floating-point type."""
        return replace(
            self,
            features=self.features.to(device, dtype or self.features.dtype),
            class_indices=self.class_indices.to(device),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Query:
    """Q: the examples to classify, with their true classes if these are known."""

    features: Tensor
    """Encoded inputs phi_T(x), (B, m, d_T)."""
    class_indices: Tensor | None = None
    """The true classes, 0..K-1, (B, m); None if unknown."""

    def __post_init__(self) -> None:
        check_features(self.features, "query")
        if self.class_indices is not None:
            check_class_indices(self.class_indices, self.features, "query")

    @classmethod
    def from_arrays(cls, features: ArrayLike, class_indices: ArrayLike | None = None) -> Self:
        """Build a query with checked features from arrays (m, d_T) and (m,), or batches of them."""
        indices = None if class_indices is None else as_class_indices(class_indices, "query")
        query = cls(features=as_features(features, "query"), class_indices=indices)
        check_finite(query.features, "query")
        return query

    @property
    def num_query(self) -> int:
        """m, the number of queries in each episode."""
        return self.features.shape[1]

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> Self:
        """Move to a device and, if given, another floating-point type."""
        indices = self.class_indices
        return replace(
            self,
            features=self.features.to(device, dtype or self.features.dtype),
            class_indices=None if indices is None else indices.to(device),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Episode:
    """(S, Q): an N-shot instance of a task, or a batch of them."""

    support: Support
    query: Query

    def __post_init__(self) -> None:
        check_query_fits(self.support, self.query.features)

    @classmethod
    def from_arrays(
        cls,
        support_features: ArrayLike,
        support_class_indices: ArrayLike,
        query_features: ArrayLike,
        query_class_indices: ArrayLike | None = None,
        ways: int | None = None,
    ) -> Self:
        """Build a checked episode from arrays, batched or not."""
        support = Support.from_arrays(support_features, support_class_indices, ways)
        query = Query.from_arrays(query_features, query_class_indices)
        if query.class_indices is not None:
            check_range(query.class_indices, support.ways, "query")
        return cls(support=support, query=query)

    @property
    def ways(self) -> int:
        """K, the number of classes."""
        return self.support.ways

    def check_values(self) -> None:
        """Check the values of support and query; see `Support.check_values`."""
        self.support.check_values()
        check_finite(self.query.features, "query")
        if self.query.class_indices is not None:
            check_range(self.query.class_indices, self.ways, "query")

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> Self:
        """Move to a device and, if given, another floating-point type."""
        return replace(
            self, support=self.support.to(device, dtype), query=self.query.to(device, dtype)
        )


def check_query_fits(support: Support, query_features: Tensor, name: str = "query") -> None:
    """Refuse queries whose width, number of episodes or dtype differs from the support's.

    A pool of unlabelled rows is checked in the same way; `name` is used in messages.
    """
    check_features(query_features, name)
    expected = support.features
    for what, got, allowed in (
        ("the feature width", query_features.shape[2], expected.shape[2]),
        ("the number of episodes", query_features.shape[0], expected.shape[0]),
        ("the feature type", query_features.dtype, expected.dtype),
    ):
        if got != allowed:
            raise InvalidEpisode(
                f"{what} of the {name} differs from the support's",
                got=got,
                allowed=f"{allowed}, as in the support",
                remedy=f"Encode support and {name} in the same way.",
            )


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


def check_features(features: Tensor, name: str) -> None:
    """Refuse features of the wrong dtype or shape, and empty ones."""
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
    """Refuse class indices of the wrong dtype, or a number of them other than of examples."""
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
