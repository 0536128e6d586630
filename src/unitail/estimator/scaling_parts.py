"""What is done to the columns of vectors that have parts: to each part by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unitail.configuration import choice, require
from unitail.estimator.rows import Rows
from unitail.estimator.scaling import Scale, Scales, Scaling
from unitail.inputs.input_encoder import InputEncoder, MixedEncoder
from unitail.learners.parts import check_widths, split_columns


@dataclass(frozen=True, eq=False)
class PartsScaling:
    """What is done to each part, learned from its own columns of a support."""

    each: tuple[Scaling, ...]
    given: tuple[int, ...]
    """The columns of each part as they come."""

    @classmethod
    def of(cls, rows: Rows, scales: tuple[Scale, ...], parts: tuple[int, ...]) -> "PartsScaling":
        """Decide what "auto" comes to for each."""
        check_widths(parts, rows.features.shape[1])
        each = zip(_columns(rows, parts), scales, strict=True)
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


def scaling_of(rows: Rows, scale: Scales, parts: tuple[int, ...] | None) -> AnyScaling:
    """Decide what is done to the columns of a support, or to those of its parts."""
    if parts is None:
        assert isinstance(scale, Scale)
        return Scaling.of(rows, scale)
    return PartsScaling.of(rows, for_parts(scale, parts), parts)


def read_scale(given: object, parts: tuple[int, ...] | None) -> Scales:
    """Read what users say: one for all, or one for each part; parts are left alone by default."""
    if isinstance(given, str) or parts is None:
        one = choice(Scale, given if isinstance(given, str) else repr(given), "scale")
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
    return tuple(choice(Scale, str(one), "scale") for one in each)


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


def _columns(rows: Rows, parts: tuple[int, ...]) -> list[Rows]:
    """Return the rows of each part."""
    return [rows.with_features(block) for block in split_columns(rows.features, parts)]
