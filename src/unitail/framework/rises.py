"""Tests for a rise of the risk with more data, on all pairs of sizes of learning curves.

Neighbouring sizes alone are not enough: a slow drift shows only over many sizes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from unitail.framework.curves import LearningCurve
from unitail.framework.statistics import holm

ROUNDING = 1e-6
"""Risks within this relative difference count as equal: they come from 32-bit predictions."""


@dataclass(frozen=True, kw_only=True)
class Rise:
    """A statistically significant rise of the risk with more data."""

    smaller: int
    """n before the rise."""
    larger: int
    """n after it."""
    amount: float
    """The increase of the mean risk."""
    p_value: float
    """p-value, adjusted for all pairs that were tested together."""

    def __str__(self) -> str:
        return (
            f"{self.amount:.4f} from n={self.smaller} to n={self.larger}"
            f" (adjusted p={self.p_value:.2g})"
        )


@dataclass(frozen=True, kw_only=True)
class RiseFinding:
    """The result of the tests on one curve."""

    rises: tuple[Rise, ...]
    """The significant rises, most certain first."""
    largest_rise: float
    """Upper confidence bound on the true rise of any pair of sizes."""


def find_rises(curves: Sequence[LearningCurve], level: float) -> list[RiseFinding]:
    """Test every pair of sizes of every curve, and return a finding for each curve.

    The probability of even one false rise, in all curves together, is at most `level` (Holm), and
    so is that of even one bound being too low (Bonferroni).
    """
    families = [_Pairs.of(curve.risks) for curve in curves]
    tests = sum(family.amounts.size for family in families)
    adjusted = holm([p_value for family in families for p_value in family.p_values()])
    ends = np.cumsum([family.amounts.size for family in families], dtype=int)
    return [
        RiseFinding(
            rises=_significant(curve, family, p_values, level),
            largest_rise=float(family.upper_bounds(level / tests).max()),
        )
        for curve, family, p_values in zip(
            curves, families, np.split(adjusted, ends)[:-1], strict=True
        )
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Pairs:
    """Welch's comparison of the mean risks of all pairs of sizes, each entry one pair."""

    smaller: NDArray[np.int64]
    larger: NDArray[np.int64]
    amounts: NDArray[np.float64]
    errors: NDArray[np.float64]
    """Standard errors of the amounts; zero where neither risk varies."""
    freedom: NDArray[np.float64]
    """Degrees of freedom by Welch and Satterthwaite."""

    @classmethod
    def of(cls, risks: NDArray[np.float64]) -> Self:
        """Compare the rows of risks (sizes, draws)."""
        draws = risks.shape[1]
        means, squares = risks.mean(axis=1), risks.var(axis=1, ddof=1) / draws
        first, second = np.triu_indices(len(risks), k=1)
        amounts, square = means[second] - means[first], squares[first] + squares[second]
        rounding = ROUNDING * np.maximum(abs(means[first]), abs(means[second]))
        constant = square <= rounding**2
        spread = np.where(constant, 1.0, squares[first] ** 2 + squares[second] ** 2)
        return cls(
            smaller=first,
            larger=second,
            amounts=np.where(abs(amounts) <= rounding, 0.0, amounts),
            errors=np.where(constant, 0.0, np.sqrt(square)),
            freedom=np.where(constant, 1.0, square**2 * (draws - 1) / spread),
        )

    def p_values(self) -> NDArray[np.float64]:
        """Return the p-value of "no rise" for each pair; 0 or 1 where the risks do not vary."""
        varies = self.errors > 0
        certain = np.where(self.amounts > 0, 0.0, 1.0)
        scores = self.amounts / np.where(varies, self.errors, 1.0)
        return np.where(varies, stats.t.sf(scores, self.freedom), certain)

    def upper_bounds(self, level: float) -> NDArray[np.float64]:
        """Return an upper bound on each rise, which is too low with probability `level`."""
        quantiles: NDArray[np.float64] = stats.t.isf(level, self.freedom)
        return self.amounts + quantiles * self.errors


def _significant(
    curve: LearningCurve, pairs: _Pairs, p_values: NDArray[np.float64], level: float
) -> tuple[Rise, ...]:
    """Return the pairs with an adjusted p-value below the level, most certain first."""
    chosen = [index for index in np.argsort(p_values, kind="stable") if p_values[index] < level]
    return tuple(
        Rise(
            smaller=curve.sizes[pairs.smaller[index]],
            larger=curve.sizes[pairs.larger[index]],
            amount=float(pairs.amounts[index]),
            p_value=float(p_values[index]),
        )
        for index in chosen
    )
