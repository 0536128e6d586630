"""Means with confidence intervals, and Holm's correction for multiple tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from unitail.errors import UserError

LEVEL = 0.95
"""The default confidence level of all intervals.

Titles, legends and help texts spell out "95 %": change them together with this; a test lists them.
"""


@dataclass(frozen=True)
class MeanInterval:
    """A mean with its Student interval: mean ± half_width, from `count` values."""

    mean: float
    half_width: float
    count: int

    @classmethod
    def of(cls, values: ArrayLike, level: float = LEVEL) -> Self:
        """Estimate the mean of independent values."""
        sample = np.asarray(values, dtype=float).ravel()
        if sample.size < 2:
            raise UserError(
                "an interval needs at least two values",
                got=f"{sample.size}",
                allowed="2 or more",
                remedy="Measure more episodes or draws.",
            )
        quantile = stats.t.ppf((1 + level) / 2, sample.size - 1)
        error = sample.std(ddof=1) / np.sqrt(sample.size)
        return cls(float(sample.mean()), float(quantile * error), int(sample.size))

    @property
    def low(self) -> float:
        """The lower end."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """The upper end."""
        return self.mean + self.half_width

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        return f"{self.mean:{spec}} ± {self.half_width:{spec}}"

    def __str__(self) -> str:
        return f"{self:.4f} (n={self.count})"


def holm(p_values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Adjust p-values for many tests by Holm's step-down method.

    Rejecting where the adjusted value is below a level keeps the probability of even one false
    rejection below that level, whatever the dependence of the tests.
    """
    raw = np.asarray(p_values, dtype=float)
    order = np.argsort(raw, kind="stable")
    steps = raw[order] * np.arange(raw.size, 0, -1)
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
