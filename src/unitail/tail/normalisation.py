"""Features on a common footing: statistics of the support, applied to support and query."""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from unitail.tail.config import Normalisation


@dataclass(frozen=True, eq=False)
class FeatureScale:
    """x -> (x - centre) / scale, with one number for the scale of an episode."""

    centre: Tensor
    """(B, 1, d_T)."""
    scale: Tensor
    """(B, 1, 1)."""

    @classmethod
    def of(cls, support_features: Tensor, normalisation: Normalisation) -> Self:
        """Measure a support set (B, n, d_T)."""
        if normalisation is Normalisation.NONE:
            zero = torch.zeros_like(support_features[:, :1])
            return cls(zero, torch.ones_like(zero[..., :1]))
        centre = support_features.mean(dim=1, keepdim=True)
        centred = support_features - centre
        # Squares of very large or small features leave the range of the number type: divide by
        # the peak first. A support of equal rows has no scale, and needs none: it is zero.
        peak = centred.abs().amax(dim=(1, 2), keepdim=True)
        peak = torch.where(peak > 0, peak, torch.ones_like(peak))
        rms = (centred / peak).pow(2).mean(dim=(1, 2), keepdim=True).sqrt()
        return cls(centre, peak * torch.where(rms > 0, rms, torch.ones_like(rms)))

    def __call__(self, features: Tensor) -> Tensor:
        """Centre and scale (B, rows, d_T)."""
        return (features - self.centre) / self.scale
