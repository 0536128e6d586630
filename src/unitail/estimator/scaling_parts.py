"""What is done to the columns of vectors that have parts: to each part by itself."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from unitail.estimator.rows import Rows
from unitail.estimator.scaling import Scale, Scales, Scaling, for_parts
from unitail.learners.parts import check_widths, split_columns


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
