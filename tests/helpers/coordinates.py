"""The same features in another order, and projections that undo or redo it."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unitail.framework.episode import Episode
from unitail.nn.random_projection import (
    CoordinateSubset,
    ExtendedPermutation,
    LinearMap,
    OrthonormalReduction,
    Projection,
)
from unitail.nn.slot_model import Projections


def permute_features(episode: Episode, sigma: Tensor) -> Episode:
    """Let coordinate i be what coordinate sigma(i) was."""
    support = replace(episode.support, features=episode.support.features[..., sigma])
    query = replace(episode.query, features=episode.query.features[..., sigma])
    return Episode(support=support, query=query)


def compose(projection: Projection, sigma: Tensor) -> Projection:
    """Return pi o sigma: coordinate i goes where coordinate sigma(i) went."""
    if isinstance(projection, ExtendedPermutation):
        return ExtendedPermutation(projection.places[:, sigma], projection.projected_dim)
    if isinstance(projection, OrthonormalReduction):
        order = sigma.argsort()[projection.order]
        return OrthonormalReduction(order, projection.signs, projection.matrix)
    if isinstance(projection, CoordinateSubset):
        return CoordinateSubset(sigma.argsort()[projection.sources], projection.feature_dim)
    assert isinstance(projection, LinearMap)
    return LinearMap(projection.matrix[:, sigma])


@dataclass(frozen=True)
class FeaturesReordered:
    """The law of pi o sigma, for features that were permuted by sigma."""

    law: Projections
    sigma: Tensor

    @property
    def projected_dim(self) -> int:
        """d_data."""
        return self.law.projected_dim

    def draw(self, episodes: int, feature_dim: int, generator: torch.Generator) -> Projection:
        """Draw pi, and take it after sigma."""
        return compose(self.law.draw(episodes, feature_dim, generator), self.sigma)


@dataclass(frozen=True)
class PlacesReordered:
    """The law of sigma o pi: what pi sends to place j goes to place sigma(j)."""

    law: Projections
    sigma: Tensor

    @property
    def projected_dim(self) -> int:
        """d_data."""
        return self.law.projected_dim

    def draw(self, episodes: int, feature_dim: int, generator: torch.Generator) -> Projection:
        """Draw pi, and take it before sigma."""
        projection = self.law.draw(episodes, feature_dim, generator)
        assert isinstance(projection, ExtendedPermutation)
        return ExtendedPermutation(self.sigma[projection.places], projection.projected_dim)
