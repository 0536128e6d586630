"""The preprocessing of columns: standardisation, missing values, and the view of a table.

`array_or_table.py` decides whether the columns of an array are scaled at all: the features of an
encoder must not be.

Standardisation is that of `unitail.encoders.tables`: (x - mean) / deviation, clipped at
`MAX_DEVIATIONS`, with the median in place of a missing value, and an indicator column if the
support has missing values in that column. A column that is constant in the support is zero for all
rows. Tables, from arrays or data frames, then get steps and weights
(`unitail.encoders.table_view`), the only step here that uses labels. Vectors with parts are
processed part by part.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from unitail.encoders.table_view import CHUNK, TableView, numeric_coordinates
from unitail.encoders.tables import MAX_DEVIATIONS, TableEncoder, weight
from unitail.errors import InvalidConfig, require
from unitail.estimator.array_or_table import is_table, vary
from unitail.estimator.rows import Rows
from unitail.inputs.input_encoder import InputEncoder, MixedEncoder
from unitail.learners.parts import check_widths, split_columns

Floats = NDArray[np.float64]


class Scale(StrEnum):
    """How the columns of vectors are preprocessed."""

    AUTO = "auto"
    """As a table if the array looks like one, otherwise none."""
    NONE = "none"
    STANDARD = "standard"
    TABLE = "table"
    """Standardised, then given steps and weights."""
    COLUMNS = "columns"
    """Given steps and weights only: the encoder of tables has already scaled them."""

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
    def after_unlabelled(self) -> "Scale":
        """The scaling still to do after `Scaling.unlabelled`."""
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


def after_unlabelled(scale: Scales) -> Scales:
    """Return the scaling still to do after `unlabelled`."""
    if isinstance(scale, tuple):
        return tuple(each.after_unlabelled for each in scale)
    return scale.after_unlabelled


def plain(scale: Scales) -> str | list[str]:
    """Convert a scaling to the strings that users write and JSON stores."""
    names = list(map(str, scale)) if isinstance(scale, tuple) else [str(scale)]
    return names[0] if len(set(names)) == 1 else names


def from_plain(scale: str | list[str]) -> Scales:
    """Convert strings from `plain` back to a scaling."""
    return Scale(scale) if isinstance(scale, str) else tuple(map(Scale, scale))


@dataclass(frozen=True, eq=False)
class Scaling:
    """The preprocessing of columns, learned from the rows of a support."""

    rows: Rows
    """The support, (n, d_T)."""
    choice: Scale
    """The resolved scaling; never "auto"."""
    labelled: Rows | None = None
    """The rows whose labels may be used; None: all of the support."""
    tells_missing: bool = True
    """Whether standardised columns with missing values get an indicator column."""
    widths = None
    """Widths of parts: there are none, unlike in `PartsScaling`."""

    @classmethod
    def of(cls, rows: Rows, scale: Scales, *, tells_missing: bool = True) -> "Scaling":
        """Build the scaling for a support, resolving "auto"."""
        assert isinstance(scale, Scale)
        if scale is Scale.AUTO:
            scale = Scale.TABLE if is_table(rows) else Scale.NONE
        return cls(rows, scale, tells_missing=tells_missing)

    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Scale rows (m, d_T) and impute missing values; the result may be wider."""
        scaled = self.unlabelled(rows)
        if not self.choice.views:
            return scaled
        viewed = np.empty((len(scaled), self._view.width))
        size = max(1, CHUNK // self._view.width)
        for start in range(0, len(scaled), size):
            chunk = torch.from_numpy(scaled[start : start + size]).double()
            viewed[start : start + size] = self._view(chunk[None])[0].numpy()
        return viewed

    def unlabelled(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Apply the part that uses no labels: standardise and impute."""
        absent = np.isnan(rows)
        if not self.choice.standardises and not absent.any():
            return rows
        filled = np.where(absent, self._medians, rows)
        if not self.choice.standardises:
            return filled
        mean, factor, missing = self._standard
        scaled = ((filled - mean) * factor).clip(-MAX_DEVIATIONS, MAX_DEVIATIONS)
        indicated = missing > 0
        return np.concatenate([scaled, absent[:, indicated] * missing[indicated]], axis=1)

    def learned_by(self, labelled: Rows) -> "Scaling":
        """Return the same scaling, with weights learned from the labels of these rows only."""
        return replace(self, labelled=labelled)

    @property
    def width(self) -> int:
        """Number of columns after scaling."""
        if self.choice.views:
            return self._view.width
        return int(self.unlabelled(self.rows.features[:1]).shape[1])

    @cached_property
    def _view(self) -> TableView:
        support = torch.from_numpy(self.unlabelled(self.rows.features))
        rows = self.rows if self.labelled is None else self.labelled
        features = torch.from_numpy(self.unlabelled(rows.features))
        return TableView.of(
            features[None],
            torch.from_numpy(rows.class_indices)[None],
            rows.ways,
            numeric_coordinates(support),
        )

    @cached_property
    def _sorted(self) -> NDArray[Any]:
        """Each column sorted, missing values last, so sums do not depend on the order of rows."""
        support = self.rows.features
        return np.sort(np.where(np.isnan(support).all(axis=0), 0, support), axis=0)

    @cached_property
    def _medians(self) -> Floats:
        return np.asarray(np.nanmedian(self._sorted, axis=0), dtype=np.float64)

    @cached_property
    def _standard(self) -> tuple[Floats, Floats, Floats]:
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
        # Without indicators, `unlabelled` keeps the columns: only steps make parts wider.
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

    def unlabelled(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Apply the part that uses no labels: standardise and impute, (m, d_T)."""
        blocks = zip(self.each, split_columns(rows, self.given), strict=True)
        return np.concatenate([part.unlabelled(block) for part, block in blocks], axis=1)

    def learned_by(self, labelled: Rows) -> "PartsScaling":
        """Return the same scaling, with weights learned from the labels of these rows only."""
        each = zip(self.each, _columns(labelled, self.given), strict=True)
        return PartsScaling(tuple(part.learned_by(rows) for part, rows in each), self.given)


AnyScaling: TypeAlias = Scaling | PartsScaling


def _columns(rows: Rows, parts: tuple[int, ...]) -> list[Rows]:
    """Return the rows with the columns of each part."""
    return [rows.with_features(block) for block in split_columns(rows.features, parts)]
