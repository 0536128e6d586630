r"""The preprocessing of columns: standardisation, missing values, and the view of a table.

Standardisation is that of `unitail.encoders.tables`: (x - mean) / deviation, clipped at
`MAX_DEVIATIONS`, with the median in place of a missing value, and an indicator column if the
support has missing values in that column. A column that is constant in the support is zero for all
rows. Tables, from arrays or data frames, then get steps and weights
(`unitail.encoders.table_view`), the only step here that uses labels. Vectors with parts are
processed part by part.

Whether an array is a table, whose columns have units of their own, or features of an encoder, is
decided by `is_table`. The model reads distances and angles, so a column in grams outweighs one in
tons. The features of an encoder must not be scaled: the spread of each shows how much it matters.
What decides is the variances v_j of the d non-constant columns over the n support rows, with f = n
- 1:

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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unitail.encoders.table_view import CHUNK, TableView, numeric_coordinates
from unitail.encoders.tables import MAX_DEVIATIONS, TableEncoder, weight
from unitail.errors import InvalidConfig, require
from unitail.estimator.rows import Rows
from unitail.inputs.input_encoder import InputEncoder, MixedEncoder
from unitail.learners.parts import check_widths, split_columns

Floats = NDArray[np.float64]
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


class Scale(StrEnum):
    """How the columns of vectors are preprocessed."""

    AUTO = "auto"
    """As a table if the array looks like one, otherwise none."""
    NONE = "none"
    STANDARD = "standard"
    TABLE = "table"
    """Standardised, then given steps and weights."""
    COLUMNS = "columns"
    """Given steps and weights only: vectors of the encoder of tables, which has scaled them."""

    def after(self, encoder: object) -> "Scale":
        """Return the scaling still to do after an encoder; None means the user's own vectors."""
        if encoder is None or self not in (Scale.AUTO, Scale.TABLE):
            return self
        return Scale.COLUMNS if isinstance(encoder, TableEncoder) else Scale.NONE

    @property
    def standardises(self) -> bool:
        """Whether columns are standardised."""
        return self in (Scale.STANDARD, Scale.TABLE)

    @property
    def after_label_free(self) -> "Scale":
        """The scaling still to do after `Scaling.label_free`."""
        return Scale.COLUMNS if self.views else Scale.NONE

    @property
    def views(self) -> bool:
        """Whether columns get steps and weights (`table_view`)."""
        return self in (Scale.TABLE, Scale.COLUMNS)


Scales: TypeAlias = Scale | tuple[Scale, ...]
"""One scaling for all columns, or one for each part."""


def read_scale(given: object, parts: tuple[int, ...] | None) -> Scales:
    """Parse `scale` as users give it: one for all, or one per part; "auto" is "none" for parts."""
    if isinstance(given, str) or parts is None:
        scale = _named(given if isinstance(given, str) else repr(given))
        if parts is None:
            return scale
        return for_parts(Scale.NONE if scale is Scale.AUTO else scale, parts)
    names = list(given) if isinstance(given, Sequence | np.ndarray) else []
    require(
        len(names) == len(parts),
        "scale",
        got=repr(given),
        allowed=f"one of {', '.join(Scale)}, or {len(parts)} of them, one for each part",
    )
    return tuple(_named(str(name)) for name in names)


def _named(scale: str) -> Scale:
    if scale not in list(Scale):
        raise InvalidConfig("scale is unknown", got=scale, allowed=", ".join(Scale))
    return Scale(scale)


def for_parts(scale: Scales, parts: Sequence[int]) -> tuple[Scale, ...]:
    """Return the scaling of each part."""
    return scale if isinstance(scale, tuple) else (scale,) * len(parts)


def scale_after(
    scale: Scales, encoder: InputEncoder | None, parts: tuple[int, ...] | None = None
) -> Scales:
    """Return the scaling still to do after an encoder; None means the user's own vectors.

    In a mixed table, the scaling of each part depends on the encoder of that part.
    """
    if isinstance(scale, Scale) and isinstance(encoder, MixedEncoder) and encoder.widths:
        return tuple(scale.after(part.encoder) for part in encoder.parts)
    scale = scale.after(encoder) if isinstance(scale, Scale) else scale
    return for_parts(scale, parts) if parts else scale


def after_label_free(scale: Scales) -> Scales:
    """Return the scaling still to do after the part that uses no labels."""
    if isinstance(scale, tuple):
        return tuple(each.after_label_free for each in scale)
    return scale.after_label_free


def plain(scale: Scales) -> str | list[str]:
    """Convert a scaling to the strings that users write and JSON stores."""
    names = list(map(str, scale)) if isinstance(scale, tuple) else [str(scale)]
    return names[0] if len(set(names)) == 1 else names


def from_plain(scale: str | list[str]) -> Scales:
    """Convert strings from `plain` back to a scaling."""
    return Scale(scale) if isinstance(scale, str) else tuple(map(Scale, scale))


@dataclass(frozen=True, eq=False)
class LabelFreeScaling:
    """The part of the preprocessing that uses no labels: columns are standardised and imputed."""

    support: NDArray[Any]
    """The rows that it is learned from, (n, d_T)."""
    choice: Scale
    """The resolved scaling; never "auto"."""
    tells_missing: bool = True
    """Whether standardised columns with missing values get an indicator column."""

    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Standardise and impute rows (m, d_T); the result may be wider."""
        absent = np.isnan(rows)
        if absent.any():
            rows = np.where(absent, self.medians, rows)
        if not self.choice.standardises:
            return rows
        mean, factor, missing = self.moments
        scaled = ((rows - mean) * factor).clip(-MAX_DEVIATIONS, MAX_DEVIATIONS)
        indicated = missing > 0
        return np.concatenate([scaled, absent[:, indicated] * missing[indicated]], axis=1)

    @cached_property
    def stepped(self) -> Tensor:
        """Indices of the scaled columns that have steps in the view of a table, (c,)."""
        return numeric_coordinates(torch.from_numpy(self(self.support)))

    @cached_property
    def _sorted(self) -> NDArray[Any]:
        """Each column sorted, missing values last, so sums do not depend on the order of rows."""
        return np.sort(np.where(np.isnan(self.support).all(axis=0), 0, self.support), axis=0)

    @cached_property
    def medians(self) -> Floats:
        """What stands for a missing value in each column, (d_T,)."""
        return np.asarray(np.nanmedian(self._sorted, axis=0), dtype=np.float64)

    @cached_property
    def moments(self) -> tuple[Floats, Floats, Floats]:
        """Mean, 1 / deviation, and value of the "missing" indicator (0: none), (d_T,) each."""
        values = self._sorted
        # Squares of huge numbers overflow; rescaling by a power of two is exact and avoids it.
        size = np.frexp(np.nanmax(np.abs(values), axis=0))[1]
        small = np.ldexp(values, -size)
        deviation = np.ldexp(np.nanstd(small, axis=0), size)
        varies = vary(np.nanmin(values, axis=0), np.nanmax(values, axis=0)) & (deviation > 0)
        factor = np.divide(1, deviation, out=np.zeros_like(deviation), where=varies)
        absent = np.isnan(values).sum(axis=0) * self.tells_missing
        # One coordinate of 0 or √2 w gives the same distance as a one-hot pair of 0 or w.
        missing = [np.sqrt(2) * weight([len(values) - n, n]) if n else 0.0 for n in absent.tolist()]
        return np.ldexp(np.nanmean(small, axis=0), size), factor, np.array(missing)


@dataclass(frozen=True, eq=False)
class Scaling:
    """The preprocessing of columns, learned from the rows of a support."""

    label_free: LabelFreeScaling
    labelled: Rows
    """The rows whose labels may be used."""
    widths = None
    """Widths of parts: there are none, unlike in `PartsScaling`."""

    @classmethod
    def of(cls, rows: Rows, scale: Scales, *, tells_missing: bool = True) -> "Scaling":
        """Build the scaling for a support, resolving "auto"."""
        assert isinstance(scale, Scale)
        if scale is Scale.AUTO:
            scale = Scale.TABLE if is_table(rows) else Scale.NONE
        return cls(LabelFreeScaling(rows.features, scale, tells_missing), rows)

    @property
    def choice(self) -> Scale:
        """The resolved scaling; never "auto"."""
        return self.label_free.choice

    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Scale rows (m, d_T) and impute missing values; the result may be wider."""
        scaled = self.label_free(rows)
        if not self.choice.views:
            return scaled
        viewed = np.empty((len(scaled), self.view.width))
        size = max(1, CHUNK // self.view.width)
        for start in range(0, len(scaled), size):
            chunk = torch.from_numpy(scaled[start : start + size]).double()
            viewed[start : start + size] = self.view(chunk[None])[0].numpy()
        return viewed

    def learned_by(self, labelled: Rows) -> "Scaling":
        """Return the same scaling, with weights learned from the labels of these rows only."""
        return replace(self, labelled=labelled)

    @property
    def width(self) -> int:
        """Number of columns after scaling."""
        if self.choice.views:
            return self.view.width
        return int(self.label_free(self.label_free.support[:1]).shape[1])

    @cached_property
    def view(self) -> TableView:
        """Steps and weights of a table's columns."""
        return TableView.of(
            torch.from_numpy(self.label_free(self.labelled.features))[None],
            torch.from_numpy(self.labelled.class_indices)[None],
            self.labelled.ways,
            self.label_free.stepped,
        )


@dataclass(frozen=True, eq=False)
class PartsScaling:
    """The preprocessing of each part, learned from its own columns of a support."""

    each: tuple[Scaling, ...]
    given: tuple[int, ...]
    """Number of columns of each part before scaling."""

    @classmethod
    def of(cls, rows: Rows, scale: Scales, parts: tuple[int, ...]) -> "PartsScaling":
        """Build the scaling of each part, resolving "auto"."""
        check_widths(parts, rows.features.shape[1])
        pairs = zip(_columns(rows, parts), for_parts(scale, parts), strict=True)
        # Without indicators, `label_free` keeps the columns: only steps make parts wider.
        each = tuple(Scaling.of(part, choice, tells_missing=False) for part, choice in pairs)
        return cls(each, parts)

    @property
    def choice(self) -> tuple[Scale, ...]:
        """The resolved scaling of each part; never "auto"."""
        return tuple(part.choice for part in self.each)

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of columns of each part after scaling."""
        return tuple(part.width for part in self.each)

    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Scale rows (m, d_T) and impute missing values; parts that are tables become wider."""
        blocks = zip(self.each, split_columns(rows, self.given), strict=True)
        return np.concatenate([part(block) for part, block in blocks], axis=1)

    def label_free(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Apply the part that uses no labels: standardise and impute, (m, d_T)."""
        blocks = zip(self.each, split_columns(rows, self.given), strict=True)
        return np.concatenate([part.label_free(block) for part, block in blocks], axis=1)

    def learned_by(self, labelled: Rows) -> "PartsScaling":
        """Return the same scaling, with weights learned from the labels of these rows only."""
        each = zip(self.each, _columns(labelled, self.given), strict=True)
        return PartsScaling(tuple(part.learned_by(rows) for part, rows in each), self.given)


AnyScaling: TypeAlias = Scaling | PartsScaling


def _columns(rows: Rows, parts: tuple[int, ...]) -> list[Rows]:
    """Return the rows with the columns of each part."""
    return [rows.with_features(block) for block in split_columns(rows.features, parts)]


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
