"""Features on a common footing: statistics of the support, applied to support and query.

Some encoders have few coordinates that are far larger than the rest, and angles are those of these
few. A limit c says how far a coordinate counts: x becomes x / (1 + (x / c s)^4)^(1/4), with s the
root mean square of the seen coordinates that are not zero. It hardly changes what is well below
c s, and nothing gets beyond. With a limit it matters which coordinates vectors are given in. Few
coordinates are columns that somebody chose: a large one counts as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor


class Normalisation(StrEnum):
    """What is done to features before they are projected."""

    SUPPORT = "support"
    """Centre by the support mean, divide by the root mean square of the centred support."""
    LENGTH = "length"
    """The same, then stretch narrow features to the length of tokens that are filled."""
    NONE = "none"
    """Features are taken as they are."""


MIN_LIMITED_WIDTH = 32
"""Vectors of fewer coordinates have no limit."""
MIN_SHARE = 1e-6
"""A coordinate below this share of the largest is zero, but for rounding."""
MAX_LIMITS = 1e6
"""A coordinate this many times the limit is as far beyond it as it gets; powers stay finite."""
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


def coordinate_limit(chunks: Sequence[Tensor], factor: float | None) -> Tensor | None:
    """Return how far coordinates of vectors (B, rows, d_T), in chunks of rows, count: (B, 1, 1).

    That is a factor times the root mean square of what is not zero.
    """
    if factor is None or chunks[0].shape[2] < MIN_LIMITED_WIDTH:
        return None
    peaks = [chunk.abs().amax(dim=(1, 2), keepdim=True) for chunk in chunks]
    peak = torch.stack(peaks).amax(dim=0)
    peak = torch.where(peak > 0, peak, 1)  # squares of very large or small features are not finite
    squares, count = torch.zeros_like(peak), torch.zeros_like(peak)
    for chunk in chunks:
        shares = chunk / peak
        squares = squares + shares.pow(2).sum(dim=(1, 2), keepdim=True)
        # Signs of what is not zero: to compare numbers and count the answers takes thrice as long.
        signs = F.hardshrink(shares, MIN_SHARE).sign()
        count = count + signs.abs().sum(dim=(1, 2), keepdim=True)
    return factor * peak * (squares / count.clamp_min(1)).sqrt()


def limited(features: Tensor, limit: Tensor | None) -> Tensor:
    """Let coordinates (B, rows, d_T) count up to a limit (B, 1, 1) at most, if there is one."""
    if limit is None:
        return features
    # Where all that was seen is zero, there is nothing to measure in, and nothing is limited.
    limit = torch.where(limit > 0, limit, torch.inf)
    most = MAX_LIMITS * limit
    ended = features.clamp(-most, most)
    powers = (ended / limit).square_().square_()
    # Twice one over a root is the root of a root, in half its time and a tenth of that of powers.
    return ended / powers.add_(1).rsqrt_().rsqrt_()
