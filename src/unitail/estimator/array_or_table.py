r"""Whether an array is a table, whose columns have units of their own, or features of an encoder.

The model reads distances and angles, so a column in grams outweighs one in tons. The features of an
encoder must not be scaled: the spread of each shows how much it matters. Whether an array is a
table is decided by the variances v_j of its d non-constant columns over the n support rows, with
f = n - 1:

    few carry it        1 + ((Σ v)² / Σ v² - 1) (1 + 2/f)  <  MAX_CARRIERS
    and spreads differ  log(mean v) - mean(log v) - bias - error  >  MIN_DISPARITY

The first is the effective number of columns behind the distances: dozens or hundreds for an
encoder, only those with the largest numbers for a table. The factor removes what chance adds to
Σ v² (a sample variance has E v² = (1 + 2/f) (E v)²). The second is the log ratio of the arithmetic
to the geometric mean of the variances, zero if all are equal; bias = log(f/2) - ψ(f/2) is what
chance adds to it, and error = √(ψ'(f/2) / d) is its standard error (both as in Bartlett's test). A
unit or shift common to all columns changes nothing. Fewer than `MIN_ROWS` rows cannot show
differences in spread. An array with missing values is a table, too. So is one of at most
`MAX_NARROW` columns, which no encoder makes, if it has `MIN_NARROW` rows per class: with fewer
rows, steps show no more than lines do, and scales are poorly estimated.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.estimator.rows import Rows

MAX_CARRIERS = 8.0
"""Encoders of 50 to 2,048 features have 16 or more, tables with mixed units at most 5."""
MIN_DISPARITY = 1.0
"""Reached by two columns if one spreads five times as far as the other."""
MIN_ROWS = 3
MAX_NARROW, MIN_NARROW = 8, 20
"""Most columns of a narrow array, and the rows per class from which it counts as a table."""
MAX_POWER = 1000
"""Largest power of two to rescale by: squares then neither overflow nor vanish."""
CONSTANT = 1e-12
"""Columns that vary by less, relative to their values, are constant up to rounding."""

Floats = NDArray[np.float64]


def is_table(rows: Rows) -> bool:
    """Return whether the columns of labelled rows are to be scaled like those of a table."""
    narrow = rows.features.shape[1] <= MAX_NARROW and len(rows) >= MIN_NARROW * rows.ways
    return narrow or looks_like_table(rows.features)


def looks_like_table(support: NDArray[Any]) -> bool:
    """Return whether columns (n, d_T) have units of their own, by the rule above."""
    if np.isnan(support).any():
        return True
    freedom = len(support) - 1
    # Only ratios matter; rescaling by a power of two keeps squares from overflowing.
    lowest, highest = (np.asarray(each(axis=0), np.float64) for each in (support.min, support.max))
    size = np.frexp(max(-lowest.min(), highest.max()))[1]
    unit = np.ldexp(1.0, np.clip(-size, -MAX_POWER, MAX_POWER))
    support = np.multiply(support, unit, dtype=np.float64)
    varies = vary(lowest * unit, highest * unit)
    variances = support.var(axis=0)[varies]
    variances = variances[variances > 0]
    if len(support) < MIN_ROWS or len(variances) < 2:
        return False
    few = carriers(variances, freedom) < MAX_CARRIERS
    return bool(few and disparity(variances, freedom) > MIN_DISPARITY)


def carriers(variances: Floats, freedom: int) -> float:
    """Return the effective number of columns, given their variances over freedom + 1 rows."""
    observed = variances.sum() ** 2 / np.square(variances).sum()
    return float(1 + (observed - 1) * (1 + 2 / freedom))


def disparity(variances: Floats, freedom: int) -> float:
    """Return a lower bound on how much variances, over freedom + 1 rows, differ."""
    from scipy.special import digamma, polygamma

    bias = np.log(freedom / 2) - digamma(freedom / 2)
    error = np.sqrt(polygamma(1, freedom / 2) / len(variances))
    return float(np.log(variances.mean()) - np.log(variances).mean() - bias - error)


def vary(lowest: NDArray[Any], highest: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which columns vary by more than rounding, given their extremes."""
    largest = np.maximum(np.abs(lowest), np.abs(highest))
    return np.asarray(highest - lowest > CONSTANT * largest)
