"""Features on a common footing: statistics of the support, applied to support and query."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

import torch
from torch import Tensor


class Normalisation(StrEnum):
    """What is done to features before they are projected."""

    SUPPORT = "support"
    """Centre by the support mean, divide by the root mean square of the centred support."""
    LENGTH = "length"
    """The same, then stretch narrow features to the length of tokens that are filled."""
    NONE = "none"
    """Features are taken as they are."""


MAX_SCALED = 1e6
"""A feature this many times the support's scale is as far as it gets; squares stay finite."""


@dataclass(frozen=True, eq=False)
class FeatureScale:
    """x -> (x - centre) / scale, with one number for the scale of an episode."""

    centre: Tensor
    """(B, 1, d_T)."""
    scale: Tensor
    """(B, 1, 1)."""

    @classmethod
    def of(
        cls,
        support_features: Tensor,
        normalisation: Normalisation,
        projected_dim: int | None = None,
    ) -> Self:
        """Measure a support set (B, n, d_T) whose features will be `projected_dim` wide.

        Coordinates of root mean square one make vectors of length sqrt(d_T). Spread over more
        places, a narrow vector would be short beside the label; `LENGTH` makes it sqrt(d_data)
        long, so that zeros appended to all features change nothing.
        """
        if normalisation is Normalisation.NONE:
            zero = torch.zeros_like(at_least_float32(support_features[:, :1]))
            return cls(zero, torch.ones_like(zero[..., :1]))
        features = at_least_float32(support_features)
        centre = features.mean(dim=1, keepdim=True)
        centred = features - centre
        # Squares of very large or small features leave the range of the dtype: divide by
        # the peak first. Equal rows have no scale, though their mean may be off by rounding.
        peak = centred.abs().amax(dim=(1, 2), keepdim=True)
        rounding = 8 * torch.finfo(features.dtype).eps * features.abs().amax((1, 2), keepdim=True)
        peak = torch.where(peak > rounding, peak, torch.inf)
        rms = (centred / peak).pow(2).mean(dim=(1, 2), keepdim=True).sqrt()
        if normalisation is Normalisation.LENGTH and projected_dim is not None:
            rms = rms * min(1.0, features.shape[-1] / projected_dim) ** 0.5
        return cls(centre, torch.where(peak.isfinite(), peak * rms, torch.inf))

    def keeping_origin(self, max_distance: float) -> Self:
        """Scale alone, and move the origin only if it is farther from the mean than that."""
        offset = self.centre / self.scale  # (B, 1, d_T)
        size = offset.pow(2).mean(dim=(1, 2), keepdim=True).sqrt()
        kept = offset * (max_distance / size).clamp_max(1) * self.scale
        # Equal rows have no scale: they stay at zero.
        return replace(self, centre=self.centre - torch.where(self.scale.isfinite(), kept, 0))

    def __call__(self, features: Tensor) -> Tensor:
        """Centre and scale (B, rows, d_T), in at least single precision."""
        scaled = (at_least_float32(features) - self.centre).div_(self.scale)
        return scaled.clamp_(-MAX_SCALED, MAX_SCALED)


def at_least_float32(features: Tensor) -> Tensor:
    """Take features out of half precision, in which means and differences mean little."""
    return features.to(torch.promote_types(features.dtype, torch.float32))
