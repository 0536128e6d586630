"""pi, a map of features of any width d_T to R^d_data, drawn per episode (paper, 4.1 and A.4)."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, Protocol, Self

import torch
from torch import Tensor

from unitail.errors import WrongWidth
from unitail.randomness import random_injections


class ProjectionKind(StrEnum):
    """Distribution of pi for features that are at most `projected_dim` wide."""

    PERMUTATION = "permutation"
    """A uniform extended permutation: the paper's choice."""
    DENSE = "dense"
    """A Gaussian matrix: the paper's first ablation."""
    NONE = "none"
    """Zeros are appended, and nothing is random: the paper's second ablation."""


class WidthReduction(StrEnum):
    """How features wider than `projected_dim` are reduced, as there is no injection."""

    ORTHONORMAL = "orthonormal"
    """A random orthonormal projection; every coordinate contributes."""
    SUBSET = "subset"
    """A random subset of the coordinates, different in each draw."""


class Projection(Protocol):
    """A drawn pi: one for each episode of a batch, or one for all of them."""

    @property
    def feature_dim(self) -> int:
        """d_T, the input width."""
        ...

    @property
    def projected_dim(self) -> int:
        """d_data, the output width."""
        ...

    def __call__(self, features: Tensor) -> Tensor:
        """Project (B, rows, d_T) to (B, rows, d_data)."""
        ...

    def select(self, episodes: slice) -> "Projection":
        """Keep some episodes of the batch."""
        ...

    def to(self, device: torch.device | str) -> "Projection":
        """Move to a device."""
        ...


@dataclass(frozen=True, eq=False)
class DrawnMap:
    """Base class of all maps for a batch of episodes."""

    shared: ClassVar[tuple[str, ...]] = ()
    """Names of tensors that all episodes share; others have a row for each episode."""

    def select(self, episodes: slice) -> Self:
        """Keep some episodes of the batch."""
        split = {name: value for name, value in self._tensors().items() if name not in self.shared}
        return replace(self, **{name: value[episodes] for name, value in split.items()})

    def to(self, device: torch.device | str) -> Self:
        """Move to a device."""
        return replace(self, **{name: value.to(device) for name, value in self._tensors().items()})

    def _tensors(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}


@dataclass(frozen=True, eq=False)
class ExtendedPermutation(DrawnMap):
    """Coordinate i goes to place `places[i]`, and the other places are zero (appendix A.4)."""

    places: Tensor
    """An injection [d_T] -> [d_data] for each episode, (B, d_T)."""
    projected_dim: int

    @property
    def feature_dim(self) -> int:
        """d_T."""
        return self.places.shape[1]

    def __call__(self, features: Tensor) -> Tensor:
        """Scatter coordinates to their places."""
        projected = features.new_zeros(*features.shape[:2], self.projected_dim)
        return projected.scatter(2, self.places.unsqueeze(1).expand_as(features), features)


@dataclass(frozen=True, eq=False)
class LinearMap(DrawnMap):
    """x -> x W, with one matrix W for each episode."""

    matrix: Tensor
    """W, (B, d_T, d_data)."""

    @property
    def feature_dim(self) -> int:
        """d_T."""
        return self.matrix.shape[1]

    @property
    def projected_dim(self) -> int:
        """d_data."""
        return self.matrix.shape[2]

    def __call__(self, features: Tensor) -> Tensor:
        """Multiply by W."""
        return features @ self.matrix.to(features.dtype)


@dataclass(frozen=True, eq=False)
class OrthonormalReduction(DrawnMap):
    """x -> (signs * x[order]) Q: one uniform orthonormal Q, with an order and signs per episode.

    The factorisation for Q costs as much as thousands of projections, so a batch shares it. Orders
    and signs make the projections of its episodes differ; each of them is again uniform.
    """

    shared = ("matrix",)

    order: Tensor
    """A permutation of [d_T] for each episode, (B, d_T)."""
    signs: Tensor
    """1 or -1, (B, d_T)."""
    matrix: Tensor
    """Orthonormal columns, (d_T, d_data)."""

    @property
    def feature_dim(self) -> int:
        """d_T."""
        return self.matrix.shape[0]

    @property
    def projected_dim(self) -> int:
        """d_data."""
        return self.matrix.shape[1]

    def __call__(self, features: Tensor) -> Tensor:
        """Permute, change signs and project."""
        permuted = features.gather(2, self.order.unsqueeze(1).expand_as(features))
        signed = permuted * self.signs.unsqueeze(1).to(features.dtype)
        return signed @ self.matrix.to(features.dtype)


@dataclass(frozen=True, eq=False)
class CoordinateSubset(DrawnMap):
    """Place j takes coordinate `sources[j]`: the reverse of an extended permutation."""

    sources: Tensor
    """An injection [d_data] -> [d_T] for each episode, (B, d_data)."""
    feature_dim: int

    @property
    def projected_dim(self) -> int:
        """d_data."""
        return self.sources.shape[1]

    def __call__(self, features: Tensor) -> Tensor:
        """Gather the coordinates that were drawn."""
        sources = self.sources.unsqueeze(1).expand(-1, features.shape[1], -1)
        return features.gather(2, sources)


@dataclass(frozen=True, eq=False)
class Unchanged(DrawnMap):
    """x -> x."""

    feature_dim: int

    @property
    def projected_dim(self) -> int:
        """d_data = d_T."""
        return self.feature_dim

    def __call__(self, features: Tensor) -> Tensor:
        """Return the features."""
        return features


@dataclass(frozen=True)
class FixedWidth:
    """No projection: features must have the width that the model was built for."""

    projected_dim: int

    def draw(self, episodes: int, feature_dim: int, generator: torch.Generator) -> Unchanged:
        """Return the identity, or refuse other widths."""
        if feature_dim != self.projected_dim:
            raise WrongWidth(
                "the model was built for features of another width",
                got=f"width {feature_dim}",
                allowed=f"width {self.projected_dim}",
            )
        return Unchanged(feature_dim)


@dataclass(frozen=True, kw_only=True)
class ProjectionLaw:
    """The distribution that projections are drawn from.

    All maps preserve the scale of features: the root mean square of coordinates if d_T >= d_data,
    and the length of vectors if d_T < d_data.
    """

    kind: ProjectionKind
    reduction: WidthReduction
    projected_dim: int

    def draw(self, episodes: int, feature_dim: int, generator: torch.Generator) -> Projection:
        """Draw a projection for each of `episodes` episodes of width `feature_dim`."""
        width, device = self.projected_dim, generator.device
        if feature_dim > width:
            return self._reduce(episodes, feature_dim, generator)
        if self.kind is ProjectionKind.DENSE:
            shape = (episodes, feature_dim, width)
            return LinearMap(torch.randn(shape, generator=generator, device=device) * width**-0.5)
        if self.kind is ProjectionKind.NONE:
            places = torch.arange(feature_dim, device=device).expand(episodes, -1)
        else:
            places = random_injections(episodes, feature_dim, width, generator)
        return ExtendedPermutation(places, width)

    def _reduce(self, episodes: int, feature_dim: int, generator: torch.Generator) -> Projection:
        if self.reduction is WidthReduction.SUBSET:
            sources = random_injections(episodes, self.projected_dim, feature_dim, generator)
            return CoordinateSubset(sources, feature_dim)
        device = generator.device
        shape = (feature_dim, self.projected_dim)
        q, r = torch.linalg.qr(torch.randn(shape, generator=generator, device=device))
        signs = torch.randint(2, (episodes, feature_dim), generator=generator, device=device)
        return OrthonormalReduction(
            order=random_injections(episodes, feature_dim, feature_dim, generator),
            signs=2 * signs - 1,
            matrix=q * r.diagonal().sign(),  # QR fixes these signs; free ones make Q uniform
        )
