r"""Conformal prediction sets, which hold the true class with a stated probability.

Every support row that can be left out is classified as a query to the remaining rows. A row that is
alone in its class cannot be left out: without it the class is unknown. One row of every class is
left out at a time, or several of classes with more rows than there are folds. Leaving out single
rows would take K times as many readings, and put each row at a disadvantage, as only its own class
would lack an example.

The score of a row that was left out is 1 - p(true class). With the n scores, the set of a query is
{k : 1 - p_k <= q}, where q is the ceil((n + 1) coverage)-th smallest score. If there are fewer
scores than that, q is infinite and the set holds all classes.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from unitail.configuration import to_table
from unitail.errors import InvalidConfig, InvalidInput
from unitail.estimator.rows import Rows
from unitail.estimator.settings import Settings
from unitail.learners.pretrained import sealed_as, shipped_folder
from unitail.nn.episode_model import EpisodeModel

MAX_FOLDS = 20
"""Largest number of folds; classes with more rows than this leave out several at once."""
MANY_ROWS, FEW_FOLDS = 500, 5
"""With more rows than this, fewer folds are used: what remains still represents all rows."""
MAX_CALIBRATED = 2000
"""Largest number of rows of a large support that are left out for prediction sets."""
TOLERANCE = 1e-6
"""Largest allowed difference between the sum of given probabilities and one."""
WITHOUT_EFFECT = frozenset({"device", "chunk_size", "visibility", "class_shares", "weightless"})
"""Fields of rows and settings that do not affect the scores, which come from isolated queries."""
HASHED_IF_SET = frozenset({"counts", "weights", "class_weight", "pool", "parts"})
"""Fields added after the first format, so that scores in older folders stay valid."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows that were left out, and their class probabilities given the others."""

    places: NDArray[np.int64]
    """The places of the rows, (m,)."""
    probabilities: NDArray[np.float64]
    """Shape (m, K)."""

    @classmethod
    def joined(cls, pieces: Sequence[Self], ways: int) -> Self:
        """Concatenate several; there may be none."""
        places = [np.empty(0, np.int64), *(piece.places for piece in pieces)]
        probabilities = [np.empty((0, ways)), *(piece.probabilities for piece in pieces)]
        return cls(np.concatenate(places), np.concatenate(probabilities))

    def true_class_probabilities(self, rows: Rows) -> NDArray[np.float64]:
        """Return the probability of the true class of each row, (m,)."""
        probabilities: NDArray[np.float64] = self.probabilities[
            np.arange(len(self.places)), rows.class_indices[self.places]
        ]
        return probabilities


def folds(rows: Rows, limit: int = MAX_FOLDS) -> list[NDArray[np.int64]]:
    """Deal the rows of classes with two or more into folds; each leaves every class a row."""
    count = min(int(rows.shots.max()), limit)
    dealt: list[list[int]] = [[] for _ in range(count)]
    for places in rows.members():
        for rank, place in enumerate(places if len(places) > 1 else ()):
            dealt[rank % count].append(int(place))
    return [np.array(fold) for fold in dealt if fold]


def calibration_folds(rows: Rows) -> list[NDArray[np.int64]]:
    """Return the folds for calibration; fewer for many rows, as each costs as much as a fit."""
    return folds(rows, FEW_FOLDS if rows.total > MANY_ROWS else MAX_FOLDS)


def some_of(fold: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return at most `MAX_CALIBRATED` rows of a fold, keeping the shares of the classes."""
    return fold[:: -(-len(fold) // MAX_CALIBRATED)]


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedScores:
    """Scores for prediction sets, with the hash of the support and settings they are valid for."""

    scores: NDArray[np.float64]
    """1 - p(true class) of the rows that were left out."""
    key: str
    """Hash of the rows and settings that the scores belong to."""

    @classmethod
    def of(
        cls,
        scores: NDArray[np.float64],
        rows: Rows,
        settings: Settings,
        pool: NDArray[Any] | None = None,
    ) -> Self:
        """Build from scores and the rows and settings that they belong to."""
        return cls(scores=scores, key=scores_key(rows, settings, pool))

    def scores_for(
        self, rows: Rows, settings: Settings, pool: NDArray[Any] | None = None
    ) -> NDArray[np.float64] | None:
        """Return the scores if they belong to these rows and settings, otherwise None."""
        return self.scores if self.key == scores_key(rows, settings, pool) else None


def scores_key(rows: Rows, settings: Settings, pool: NDArray[Any] | None = None) -> str:
    """Hash everything that the scores depend on; all fields, so a new one cannot be forgotten."""
    digest = hashlib.sha256()
    decisive = {each.name: getattr(rows, each.name) for each in fields(rows)}
    for each in fields(settings):
        value = getattr(settings, each.name)  # hashed as lists: folders written so stay valid
        decisive[each.name] = value.tolist() if isinstance(value, np.ndarray) else value
    decisive["pool"] = pool
    for name, value in decisive.items():
        if name not in WITHOUT_EFFECT and (value is not None or name not in HASHED_IF_SET):
            _add(digest, name, value)
    return digest.hexdigest()


def _add(digest: Any, name: str, value: Any) -> None:  # noqa: ANN401 - hashlib names no type
    """Add one field to the hash."""
    digest.update(f"{name}:".encode())
    if isinstance(value, EpisodeModel):
        digest.update(json.dumps(to_table(value.config), default=str).encode())
        for key, tensor in value.state_dict().items():
            raw = tensor.cpu().contiguous().reshape(-1).view(torch.uint8)  # numpy has no bfloat16
            _add(digest, f"{key} {tensor.dtype} {tuple(tensor.shape)}", raw.numpy())
    elif name == "model":
        digest.update(sealed_as(shipped_folder(value)).encode())
    elif isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    else:
        plain = value if isinstance(value, str) else np.asarray(value).tolist()
        digest.update(json.dumps(plain, default=str).encode())


def checked_log_proba(log_proba: ArrayLike, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Return log-probabilities (m, K) that a user passes back, or refuse them."""
    array = np.asarray(log_proba, dtype=np.float64)
    if array.shape != shape or np.isnan(array).any():
        raise InvalidInput(
            "log_proba does not hold log-probabilities of these rows and classes",
            got="NaN" if np.isnan(array).any() else f"shape {array.shape}",
            allowed=f"shape {shape}, as predict_log_proba returns",
            remedy="Pass what predict_log_proba of this classifier returned for the same X.",
        )
    sums = np.exp(array).sum(axis=1)
    if not np.allclose(sums, 1, atol=TOLERANCE):
        raise InvalidInput(
            "log_proba does not hold log-probabilities",
            got=f"rows whose exponentials sum to {sums[np.abs(sums - 1).argmax()]:.3g}",
            allowed="rows whose exponentials sum to 1",
            remedy="Pass what predict_log_proba of this classifier returned.",
        )
    return array


def check_coverage(coverage: object, name: str = "coverage") -> None:
    """Refuse anything but a number above 0 and below 1."""
    if not isinstance(coverage, int | float | np.number) or not 0 < float(coverage) < 1:
        raise InvalidConfig(
            f"{name} is out of range",
            got=repr(coverage),
            allowed="a number above 0 and below 1",
            remedy="Give the share of sets that should hold the true class, such as 0.9.",
        )


def threshold(scores: NDArray[np.float64], coverage: float) -> float:
    """Return the largest score that a class in the set may have."""
    rank = math.ceil((len(scores) + 1) * coverage)
    return float(np.sort(scores)[rank - 1]) if rank <= len(scores) else math.inf


def prediction_sets(
    probabilities: NDArray[np.float64], scores: NDArray[np.float64], coverage: float
) -> NDArray[np.bool_]:
    """Return a mask (m, K) of the classes in each set, from probabilities (m, K) and scores (n,).

    Without scores, a set holds the most probable classes until their probabilities reach the
    coverage. The most probable class is always included.
    """
    check_coverage(coverage)
    if len(scores):
        member = 1 - probabilities <= threshold(scores, coverage)
    else:
        order = np.argsort(-probabilities, axis=1, kind="stable")
        ranked = np.take_along_axis(probabilities, order, axis=1)
        before = np.cumsum(ranked, axis=1) - ranked
        member = np.empty(probabilities.shape, dtype=bool)
        np.put_along_axis(member, order, before < coverage, axis=1)
    member[np.arange(len(member)), probabilities.argmax(axis=1)] = True
    return member
