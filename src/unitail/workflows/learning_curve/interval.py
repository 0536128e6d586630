r"""How sure an accuracy is that was measured on few rows, which took turns in support and question.

Let c_si tell whether row i was answered rightly in split s. Averaged over splits, then over rows,
it estimates A: the accuracy on new rows like these, expected over supports of that size. Splits
share their rows, so that their number says little about how sure this is. Think of
c_si = A + a_s + b_i + e_si, with effects of the support and of the row asked. With N rows, of which
the support takes the share f, in R splits,

    Var = var(p_i) / N + v (f + (1 - f) / R),

where p_i is the mean of c_si over s. The first term says that other rows could have been asked, the
second that other supports could have been drawn: v is the variance of accuracy from one support to
another, of which an average over the supports within N rows keeps at most the share f (Hoeffding,
*A class of statistics with asymptotically normal distribution*, 1948). That is too much, and makes
up for what is left out: a row that is easy to answer is often a good example, too. v is the mean
product of different rows' c_si - p_i in the same split, over 1 - f, as supports drawn from the same
rows are alike. Beyond f = 1/2 that would be guesswork: v is carried over from smaller supports,
where it is larger.

The interval is Wilson's, of as many independent answers as would have this variance, with Student's
quantile. The tests draw few rows from data sets of many and count how often it holds the truth.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from unitail.framework.statistics import LEVEL

MAX_PER_ROW = 4
"""Independent answers that a row may stand for in an interval."""
HALF = 0.5
EXACT = 12
"""Digits of a mean: beyond them is rounding, and all right should be exactly 1."""


@dataclass(frozen=True, eq=False)
class Marks:
    """Questions of some splits and what came of them, one number each: (T,)."""

    split: NDArray[np.int64]
    """In which split it was asked."""
    row: NDArray[np.int64]
    """Which row was asked."""
    value: NDArray[np.float64]
    """1 for a right answer, 0 for a wrong one; or the difference of two learners' marks."""
    classes: NDArray[np.int64]
    """The class of each row, asked or not: (N,)."""

    def among(self, counted: NDArray[np.bool_]) -> "Marks":
        """Keep the questions about some rows (N,), which then stand for these rows alone."""
        kept = counted[self.row]
        number = np.cumsum(counted) - 1
        rows = number[self.row[kept]]
        return Marks(self.split[kept], rows, self.value[kept], self.classes[counted])


@dataclass(frozen=True)
class Estimate:
    """A mean over rows with its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """The longer side of the interval."""
        return max(self.high - self.mean, self.mean - self.low)


@dataclass(frozen=True)
class MarkMoments:
    """The mean of marks and what its variance is made of."""

    mean: float
    variance: float
    support_variance: float
    """v, from one support to another."""
    rows: int
    """How many rows were asked."""

    @classmethod
    def of(cls, marks: Marks, share: float, carried: float | None = None) -> "MarkMoments":
        """Estimate them; `share` is f, and beyond one half `carried` is v."""
        means, weights = _means(marks)
        if carried is None or share <= HALF:
            carried = _support_variance(marks, means) / (1 - min(share, HALF))
        mean = round(float(weights @ means), EXACT)
        rows = int(np.count_nonzero(weights))
        spread = float(weights**2 @ (means - mean) ** 2) * rows / max(1, rows - 1)
        splits = int(marks.split.max()) + 1
        variance = spread + carried * (share + (1 - share) / splits)
        return cls(mean, variance, carried, rows)

    def accuracy(self) -> Estimate:
        """Give the mean of marks 0 and 1 with Wilson's interval."""
        p, size = self.mean, float(self.rows)
        if 0 < p < 1 and self.variance > 0:
            size = min(p * (1 - p) / self.variance, MAX_PER_ROW * size)
        square = self._quantile() ** 2
        middle = (p + square / (2 * size)) / (1 + square / size)
        reach = np.sqrt(square * (p * (1 - p) / size + square / (4 * size**2))) / (
            1 + square / size
        )
        return Estimate(p, float(min(p, middle - reach)), float(max(p, middle + reach)))

    def difference(self) -> Estimate:
        """Give the mean of differences of marks with Student's interval."""
        reach = float(self._quantile() * np.sqrt(self.variance))
        return Estimate(self.mean, self.mean - reach, self.mean + reach)

    def _quantile(self) -> float:
        return float(stats.t.ppf((1 + LEVEL) / 2, max(1, self.rows - 1)))


def forecast(shots: list[float], accuracies: list[Estimate], target: float) -> Estimate:
    """Extend a curve by the power law error = a shots^-b through its last points.

    b is fitted to the last three points, within 0 and 1, and a to the last. The interval is that of
    the last point, and on both sides as much more as is gained: it may be nothing, or twice that.
    """
    last = accuracies[-1]
    errors = [max(1 - each.mean, 1e-3) for each in accuracies[-3:]]
    several = len(set(shots[-3:])) > 1
    slope = np.polyfit(np.log(shots[-3:]), np.log(errors), 1)[0] if several else 0.0
    factor = (target / shots[-1]) ** -np.clip(-slope, 0, 1)
    gain = float((1 - last.mean) * (1 - factor))
    return Estimate(last.mean + gain, last.low, min(1.0, last.high + 2 * gain))


def _means(marks: Marks) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return p_i and the weight of each row: alike, but for rows that stand for others.

    Where chance asked only some rows of a class, they stand for the others, too. A class of which
    no row can be asked has no weight.
    """
    asked = np.bincount(marks.row, minlength=len(marks.classes))
    means = np.bincount(marks.row, marks.value, minlength=len(asked)) / np.maximum(asked, 1)
    size, known = np.bincount(marks.classes), np.bincount(marks.classes, asked > 0)
    weights = np.where(asked > 0, (size / np.maximum(known, 1))[marks.classes], 0.0)
    return means, weights / weights.sum()


def _support_variance(marks: Marks, row_means: NDArray[np.float64]) -> float:
    """Average products of different rows' deviations in the same split."""
    deviation = marks.value - row_means[marks.row]
    count = np.bincount(marks.split)
    sums = np.bincount(marks.split, deviation)
    squares = np.bincount(marks.split, deviation**2)
    several = count > 1
    if not several.any():
        return 0.0
    products = (sums**2 - squares)[several] / (count * (count - 1))[several]
    return max(0.0, float(products.mean()))
