r"""Columns of arrays brought to one scale, where they are those of a table.

The model reads distances and angles, so a column in grams outweighs one in tons. Features of an
encoder must stay as they are: how far each of them spreads says how much it matters. Which of the
two an array holds is decided by the variances v_j of its d columns over the n support rows, those
that are constant left out, with f = n - 1:

    few carry it        1 + ((Σ v)² / Σ v² - 1) (1 + 2/f)  <  MAX_CARRIERS
    and spreads differ  log(mean v) - mean(log v) - bias - error  >  MIN_DISPARITY

The first is the number of columns that the distances depend on: of an encoder dozens or hundreds,
in a table those with the largest numbers. The factor takes off what chance adds to Σ v² (a sample
variance has E v² = (1 + 2/f) (E v)²). The second is the logarithm of arithmetic over geometric mean
of the variances, zero if all are equal; bias = log(f/2) - ψ(f/2) is what chance adds to it,
error = √(ψ'(f/2) / d) how much it varies (both as in Bartlett's test). A unit and a shift common to
all columns change nothing. Fewer than `MIN_ROWS` rows say nothing about spreads. Missing values
are those of a table, too. So are at most `MAX_NARROW` columns, which no encoder makes, from
`MIN_NARROW` rows a class on: fewer rows tell no more than what lines tell, and make poor scales.

Standardised columns are those of `unitail.encoders.tables`: (x - mean) / deviation, ended at
`MAX_DEVIATIONS`, the median where a value is missing, and a second coordinate that says so if the
support has missing values there. A column that is constant in the support is zero for all rows.
Tables, from arrays or data frames, are then seen with steps and weights
(`unitail.encoders.table_view`), the only thing here that looks at labels. Vectors that have parts
are treated part by part.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.encoders.table_view import CHUNK, TableView, varied
from unitail.encoders.tables import MAX_DEVIATIONS, TableEncoder, weight
from unitail.errors import InvalidConfig, require
from unitail.estimator.rows import Rows
from unitail.inputs.input_encoder import InputEncoder, MixedEncoder
from unitail.learners.parts import check_widths, split_columns

MAX_CARRIERS = 8.0
"""Encoders of 50 to 2,048 features have 16 or more, tables with units of all kinds up to 5."""
MIN_DISPARITY = 1.0
"""Two columns reach it where one spreads five times as far as the other."""
MIN_ROWS = 3
MAX_NARROW, MIN_NARROW = 8, 20
"""Columns of narrow arrays, and the rows a class from which on these are tables."""
MAX_POWER = 1000
"""Of two: what is left of numbers after it has squares that are finite, and not zero."""
CONSTANT = 1e-12
"""Columns that vary by less, relative to their numbers, are constant but for rounding."""

Floats = NDArray[np.float64]


class Scale(StrEnum):
    """Whether columns are brought to one scale."""

    AUTO = "auto"
    """As a table if they look like one, else not."""
    NONE = "none"
    STANDARD = "standard"
    TABLE = "table"
    """Standardised, then seen with steps and weights."""
    COLUMNS = "columns"
    """Seen with steps and weights as they are: the encoder of tables has scaled them."""

    def after(self, encoder: object) -> "Scale":
        """Return what is left to do to what an encoder made; None: the user's own vectors."""
        if encoder is None or self not in (Scale.AUTO, Scale.TABLE):
            return self
        return Scale.COLUMNS if isinstance(encoder, TableEncoder) else Scale.NONE

    @property
    def standardises(self) -> bool:
        """Whether columns are brought to one scale here."""
        return self in (Scale.STANDARD, Scale.TABLE)

    @property
    def after_unlabelled(self) -> "Scale":
        """What is left to do to what `Scaling.unlabelled` made."""
        return Scale.COLUMNS if self.views else Scale.NONE

    @property
    def views(self) -> bool:
        """Whether columns have steps and weights."""
        return self in (Scale.TABLE, Scale.COLUMNS)


Scales: TypeAlias = Scale | tuple[Scale, ...]
"""What is done to all columns, or to those of each part."""


def read_scale(given: object, parts: tuple[int, ...] | None) -> Scales:
    """Read what users say: one for all, or one for each part; parts are left alone by default."""
    if isinstance(given, str) or parts is None:
        one = _named(given if isinstance(given, str) else repr(given))
        if parts is None:
            return one
        return for_parts(Scale.NONE if one is Scale.AUTO else one, parts)
    each = list(given) if isinstance(given, Sequence | np.ndarray) else []
    require(
        len(each) == len(parts),
        "scale",
        got=repr(given),
        allowed=f"one of {', '.join(Scale)}, or {len(parts)} of them, one for each part",
    )
    return tuple(_named(str(one)) for one in each)


def _named(scale: str) -> Scale:
    if scale not in list(Scale):
        raise InvalidConfig("scale is unknown", got=scale, allowed=", ".join(Scale))
    return Scale(scale)


def for_parts(scale: Scales, parts: Sequence[int]) -> tuple[Scale, ...]:
    """Return what is done to each part."""
    return scale if isinstance(scale, tuple) else (scale,) * len(parts)


def scale_after(
    scale: Scales, encoder: InputEncoder | None, parts: tuple[int, ...] | None = None
) -> Scales:
    """Return what is left to do to what an encoder made; None: the user's own vectors.

    Of a mixed table each part is treated as what its own encoder made.
    """
    if isinstance(scale, Scale) and isinstance(encoder, MixedEncoder) and encoder.widths:
        return tuple(scale.after(part.encoder) for part in encoder.parts)
    scale = scale.after(encoder) if isinstance(scale, Scale) else scale
    return for_parts(scale, parts) if parts else scale


def after_unlabelled(scale: Scales) -> Scales:
    """Return what is left to do to what `unlabelled` made."""
    if isinstance(scale, tuple):
        return tuple(one.after_unlabelled for one in scale)
    return scale.after_unlabelled


def plain(scale: Scales) -> str | list[str]:
    """Write it as users would, and JSON can."""
    each = list(map(str, scale)) if isinstance(scale, tuple) else [str(scale)]
    return each[0] if len(set(each)) == 1 else each


def from_plain(scale: str | list[str]) -> Scales:
    """Read what `plain` returned."""
    return Scale(scale) if isinstance(scale, str) else tuple(map(Scale, scale))


@dataclass(frozen=True, eq=False)
class Scaling:
    """What is done to the columns of all rows, learned from those of a support."""

    rows: Rows
    """The support, (n, d_T)."""
    choice: Scale
    """Not "auto" any more."""
    labelled: Rows | None = None
    """Those whose labels have a say; None: all of the support."""
    tells_missing: bool = True
    """Whether standardised columns with missing values get another that says so."""
    widths = None
    """Of parts: there are none."""

    @classmethod
    def of(cls, rows: Rows, scale: Scales, *, tells_missing: bool = True) -> "Scaling":
        """Decide what "auto" comes to."""
        assert isinstance(scale, Scale)
        if scale is Scale.AUTO:
            narrow = rows.features.shape[1] <= MAX_NARROW and len(rows) >= MIN_NARROW * rows.ways
            table = narrow or looks_like_table(rows.features)
            scale = Scale.TABLE if table else Scale.NONE
        return cls(rows, scale, tells_missing=tells_missing)

    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Scale rows (m, d_T), and fill in what is missing; vectors may become wider."""
        scaled = self.unlabelled(rows)
        if not self.choice.views:
            return scaled
        shown = np.empty((len(scaled), self._view.width))
        size = max(1, CHUNK // self._view.width)
        for start in range(0, len(scaled), size):
            some = torch.from_numpy(scaled[start : start + size]).double()
            shown[start : start + size] = self._view(some[None])[0].numpy()
        return shown

    def unlabelled(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Do what needs no labels: scale and fill in."""
        absent = np.isnan(rows)
        if not self.choice.standardises and not absent.any():
            return rows
        filled = np.where(absent, self._medians, rows)
        if not self.choice.standardises:
            return filled
        mean, factor, missing = self._standard
        scaled = ((filled - mean) * factor).clip(-MAX_DEVIATIONS, MAX_DEVIATIONS)
        told = missing > 0
        return np.concatenate([scaled, absent[:, told] * missing[told]], axis=1)

    def learned_by(self, labelled: Rows) -> "Scaling":
        """Return the same scaling of the same support, with weights that only these rows teach."""
        return replace(self, labelled=labelled)

    @property
    def width(self) -> int:
        """The columns of what comes out."""
        if self.choice.views:
            return self._view.width
        return int(self.unlabelled(self.rows.features[:1]).shape[1])

    @cached_property
    def _view(self) -> TableView:
        support = torch.from_numpy(self.unlabelled(self.rows.features))
        rows = self.rows if self.labelled is None else self.labelled
        known = torch.from_numpy(self.unlabelled(rows.features))
        return TableView.of(
            known[None], torch.from_numpy(rows.class_indices)[None], rows.ways, varied(support)
        )

    @cached_property
    def _sorted(self) -> NDArray[Any]:
        """Each column in order, the missing last: sums are then rounded alike in any order."""
        support = self.rows.features
        return np.sort(np.where(np.isnan(support).all(axis=0), 0, support), axis=0)

    @cached_property
    def _medians(self) -> Floats:
        return np.asarray(np.nanmedian(self._sorted, axis=0), dtype=np.float64)

    @cached_property
    def _standard(self) -> tuple[Floats, Floats, Floats]:
        """Mean, one over the deviation, and what says "missing" (0: nothing), (d_T,) each."""
        values = self._sorted
        # Squares of huge numbers overflow: powers of two take the size away, and no digit.
        size = np.frexp(np.nanmax(np.abs(values), axis=0))[1]
        small = np.ldexp(values, -size)
        deviation = np.ldexp(np.nanstd(small, axis=0), size)
        varies = _vary(np.nanmin(values, axis=0), np.nanmax(values, axis=0)) & (deviation > 0)
        factor = np.divide(1, deviation, out=np.zeros_like(deviation), where=varies)
        absent = np.isnan(values).sum(axis=0) * self.tells_missing
        # One coordinate that is 0 or √2 w is as far apart as two that are 0 or w.
        missing = [np.sqrt(2) * weight([len(values) - n, n]) if n else 0.0 for n in absent.tolist()]
        return np.ldexp(np.nanmean(small, axis=0), size), factor, np.array(missing)


def looks_like_table(support: NDArray[Any]) -> bool:
    """Tell whether columns (n, d_T) have units of their own, by the rule above."""
    if np.isnan(support).any():
        return True
    freedom = len(support) - 1
    # Only ratios count: a power of two takes the size away, so that no square overflows.
    lowest, highest = (np.asarray(each(axis=0), np.float64) for each in (support.min, support.max))
    size = np.frexp(max(-lowest.min(), highest.max()))[1]
    unit = np.ldexp(1.0, np.clip(-size, -MAX_POWER, MAX_POWER))
    support = np.multiply(support, unit, dtype=np.float64)
    varies = _vary(lowest * unit, highest * unit)
    variances = support.var(axis=0)[varies]
    variances = variances[variances > 0]
    if len(support) < MIN_ROWS or len(variances) < 2:
        return False
    few = carriers(variances, freedom) < MAX_CARRIERS
    return bool(few and disparity(variances, freedom) > MIN_DISPARITY)


def carriers(variances: Floats, freedom: int) -> float:
    """Return how many columns distances depend on, by their variances over freedom + 1 rows."""
    seen = variances.sum() ** 2 / np.square(variances).sum()
    return float(1 + (seen - 1) * (1 + 2 / freedom))


def disparity(variances: Floats, freedom: int) -> float:
    """Return how much variances differ at least, by those over freedom + 1 rows."""
    from scipy.special import digamma, polygamma

    bias = np.log(freedom / 2) - digamma(freedom / 2)
    error = np.sqrt(polygamma(1, freedom / 2) / len(variances))
    return float(np.log(variances.mean()) - np.log(variances).mean() - bias - error)


def _vary(lowest: NDArray[Any], highest: NDArray[Any]) -> NDArray[np.bool_]:
    largest = np.maximum(np.abs(lowest), np.abs(highest))
    return np.asarray(highest - lowest > CONSTANT * largest)


@dataclass(frozen=True, eq=False)
class PartsScaling:
    """What is done to each part, learned from its own columns of a support."""

    each: tuple[Scaling, ...]
    given: tuple[int, ...]
    """The columns of each part as they come."""

    @classmethod
    def of(cls, rows: Rows, scale: Scales, parts: tuple[int, ...]) -> "PartsScaling":
        """Decide what "auto" comes to for each."""
        check_widths(parts, rows.features.shape[1])
        each = zip(_columns(rows, parts), for_parts(scale, parts), strict=True)
        # What `unlabelled` returns has the columns that came: nothing but steps makes parts wider.
        return cls(tuple(Scaling.of(part, one, tells_missing=False) for part, one in each), parts)

    @property
    def choice(self) -> tuple[Scale, ...]:
        """What is done to each; not "auto" any more."""
        return tuple(part.choice for part in self.each)

    @property
    def widths(self) -> tuple[int, ...]:
        """The columns of each part as they come out."""
        return tuple(part.width for part in self.each)

    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Scale rows (m, d_T), and fill in what is missing; parts that are tables become wider."""
        blocks = zip(self.each, split_columns(rows, self.given), strict=True)
        return np.concatenate([part(block) for part, block in blocks], axis=1)

    def unlabelled(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Do what needs no labels: scale and fill in, (m, d_T)."""
        blocks = zip(self.each, split_columns(rows, self.given), strict=True)
        return np.concatenate([part.unlabelled(block) for part, block in blocks], axis=1)

    def learned_by(self, labelled: Rows) -> "PartsScaling":
        """Return the same scaling of the same support, with weights that only these rows teach."""
        each = zip(self.each, _columns(labelled, self.given), strict=True)
        return PartsScaling(tuple(part.learned_by(rows) for part, rows in each), self.given)


AnyScaling: TypeAlias = Scaling | PartsScaling


def _columns(rows: Rows, parts: tuple[int, ...]) -> list[Rows]:
    """Return the rows of each part."""
    return [rows.with_features(block) for block in split_columns(rows.features, parts)]
