r"""Confidence intervals of accuracy from repeated splits of few rows into support and queries.

Let c_si be 1 if row i was answered correctly in split s, and 0 otherwise. Its mean over splits,
then over rows, estimates A: the expected accuracy on new rows like these, over supports of that
size. Splits share their rows, so their number hardly reduces the uncertainty. Consider the model
c_si = A + a_s + b_i + e_si, with effects of the support and of the query. With N rows, of which the
support takes the share f, in R splits,

    Var = var(p_i) / N + v (f + (1 - f) / R),

where p_i is the mean of c_si over s. The first term is due to the choice of queries, the second to
the choice of supports: v is the variance of accuracy from one support to another, of which a mean
over the supports within N rows keeps at most the share f (Hoeffding, *A class of statistics with
asymptotically normal distribution*, 1948). This bound is too large, which makes up for a neglected
effect: a row that is easy to answer is often a good example, too. v is the mean product of the
deviations c_si - p_i of different rows in the same split, divided by 1 - f, as supports drawn from
the same rows are similar. Beyond f = 1/2 this estimate is unreliable: v is carried over from
smaller supports, where it is larger.

The interval is Wilson's for the number of independent answers that would have this variance, with
Student's quantile. The tests draw few rows from large data sets and count how often the interval
contains the truth.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from unitail.framework.statistics import LEVEL

MAX_PER_ROW = 4
"""Largest number of independent answers that a row may count as in an interval."""
HALF = 0.5
EXACT = 12
"""Digits of a mean: the rest is rounding error, and a perfect score should be exactly 1."""


@dataclass(frozen=True, eq=False)
class Marks:
    """The queries of some splits with a number for the answer to each: (T,)."""

    split: NDArray[np.int64]
    """Index of the split."""
    row: NDArray[np.int64]
    """Index of the row that was the query."""
    value: NDArray[np.float64]
    """1 for a correct answer, 0 for a wrong one; or the difference of two learners' marks."""
    classes: NDArray[np.int64]
    """Class of every row, whether it was a query or not: (N,)."""

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
    """The mean of marks with the parts of its variance."""

    mean: float
    variance: float
    support_variance: float
    """v, the variance from one support to another."""
    rows: int
    """Number of rows that were queries."""

    @classmethod
    def of(cls, marks: Marks, share: float, carried: float | None = None) -> "MarkMoments":
        """Estimate the moments; `share` is f. Above one half, `carried` is used for v."""
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
        """Return the mean of marks 0 and 1 with Wilson's interval."""
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
        """Return the mean of differences of marks with Student's interval."""
        reach = float(self._quantile() * np.sqrt(self.variance))
        return Estimate(self.mean, self.mean - reach, self.mean + reach)

    def _quantile(self) -> float:
        return float(stats.t.ppf((1 + LEVEL) / 2, max(1, self.rows - 1)))


def forecast(shots: list[float], accuracies: list[Estimate], target: float) -> Estimate:
    """Extend a curve by the power law error = a shots^-b through its last points.

    b is fitted to the last three points, within 0 and 1, and a to the last one. The interval is
    that of the last point, extended so that the gain may be nothing or twice the forecast.
    """
    last = accuracies[-1]
    errors = [max(1 - each.mean, 1e-3) for each in accuracies[-3:]]
    several = len(set(shots[-3:])) > 1
    slope = np.polyfit(np.log(shots[-3:]), np.log(errors), 1)[0] if several else 0.0
    factor = (target / shots[-1]) ** -np.clip(-slope, 0, 1)
    gain = float((1 - last.mean) * (1 - factor))
    return Estimate(last.mean + gain, last.low, min(1.0, last.high + 2 * gain))


def _means(marks: Marks) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return p_i and the weight of each row.

    Weights are equal, unless only some rows of a class were queries by chance: these then stand
    for the other rows of the class as well. A class without queries has no weight.
    """
    counts = np.bincount(marks.row, minlength=len(marks.classes))
    means = np.bincount(marks.row, marks.value, minlength=len(counts)) / np.maximum(counts, 1)
    size, queried = np.bincount(marks.classes), np.bincount(marks.classes, counts > 0)
    weights = np.where(counts > 0, (size / np.maximum(queried, 1))[marks.classes], 0.0)
    return means, weights / weights.sum()


def _support_variance(marks: Marks, row_means: NDArray[np.float64]) -> float:
    """Return the mean product of the deviations of two different rows in the same split."""
    deviation = marks.value - row_means[marks.row]
    count = np.bincount(marks.split)
    sums = np.bincount(marks.split, deviation)
    squares = np.bincount(marks.split, deviation**2)
    several = count > 1
    if not several.any():
        return 0.0
    products = (sums**2 - squares)[several] / (count * (count - 1))[several]
    return max(0.0, float(products.mean()))
