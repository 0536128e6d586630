"""How vectors lie to each other, kept while labels change.

Most of what a fit and its answers take for relations (`relational/relations.py`) depends on vectors
alone: distances, angles, kernels and their inverses. Somebody who corrects a label changes none of
these. So they are kept by the vectors that they belong to, number by number: whatever changes, a
labelled item more or less, a file, a basis, finds nothing here that was kept for others.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from unitail.relational.relations import Among, Ground, Meeting

MAX_KEPT = 2**24
"""Numbers that are kept for the labelled vectors of one moment: 64 MB."""


@dataclass(frozen=True, eq=False)
class KeptGround(Ground):
    """Labelled vectors that remember how those that they met lie to them; threads may share it.

    Nobody changes what is kept, and where there is no more room nothing more is.
    """

    _met: dict[bytes, tuple[Tensor, Meeting]] = field(default_factory=dict)
    """By the first of the vectors: all of them, and how they lie."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def meet(self, features: Tensor) -> Meeting:
        """Compare other vectors (1, m, d_T) with the seen ones, or remember it."""
        if features.device.type != "cpu" or features.shape[1] < 2:
            return super().meet(features)
        key = features[0, 0].numpy().tobytes()
        known = self._met.get(key)
        if known is not None and torch.equal(known[0], features):
            return known[1]
        met = super().meet(features)
        with self._lock:
            self._met.pop(key, None)  # it began alike
            kept = sum(_numbers(*each) for each in self._met.values())
            if kept + _numbers(features, met) <= MAX_KEPT:
                self._met[key] = features, met
        return met


class KeptRelations:
    """Compares labelled vectors as `Among.of` does, and remembers the last."""

    def __init__(self) -> None:
        self._last: tuple[Tensor, tuple[object, ...], Among] | None = None

    def __call__(
        self,
        features: Tensor,
        num_labelled: int,
        fitted: Sequence[float],
        *,
        origin: bool,
        limit: float | None = None,
    ) -> Among:
        """Compare vectors (B, seen, d_T) with each other, or remember it."""
        settings, last = (num_labelled, fitted, origin, limit), self._last
        if last is not None and last[1] == settings and torch.equal(last[0], features):
            return last[2]
        among = Among.of(features, num_labelled, fitted, origin=origin, limit=limit)
        ground = among.ground
        if len(features) == 1:
            among = replace(
                among, ground=KeptGround(ground.geometry, ground.origin, ground.solutions)
            )
        self._last = features, settings, among
        return among


def _numbers(features: Tensor, met: Meeting) -> int:
    return sum(each.numel() for each in (features, met.channels, met.operators, met.kernels))
