"""Labelled rows as learners see them: checked, numbered, weighed, taken apart."""

import warnings
from dataclasses import dataclass, replace
from numbers import Number
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from unitail.errors import InvalidConfig, InvalidEpisode, WeightWarning
from unitail.framework.episode import Support
from unitail.inputs.encode import converted
from unitail.randomness import content_ranks
from unitail.wording import numbered, some

KINDS = {"b": "booleans", "U": "strings", "O": "strings"}
"""What arrays hold, by numpy's character; all others hold numbers."""
CLASS_KINDS = "biuU"
"""What can only be classes; others may be measurements, which scikit-learn tells apart."""
MAX_COPIES = 10_000
"""The rows that weighted ones may stand for, or twice their number if that is more."""
MAX_ROUNDED = 1000
"""As many, where weights differ by more than copies can say: each costs time, and says little."""
MAX_TOLD = 1e12
"""Larger numbers of copies are told by their order of magnitude."""
MAX_UNITS, MAX_ERROR = 10, 0.05
"""Into how many copies the least weight is cut at most, and by what share others may be off."""
MAX_POOL = 1000
"""The unlabelled rows that are kept and read."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Labelled rows."""

    features: NDArray[Any]
    """(n, d_T)."""
    class_indices: NDArray[np.int64]
    """(n,), 0..K-1, each at least once."""
    ways: int
    """K."""
    counts: NDArray[np.int64] | None = None
    """How many equal rows each stands for, (n,); None: each for itself alone."""
    weights: NDArray[np.float64] | None = None
    """What each weighs, as it was given, (n,); None: what it counts."""

    def __len__(self) -> int:
        return len(self.class_indices)

    def take(self, places: NDArray[Any]) -> "Rows":
        """Keep some rows, by place or by mask."""
        counts, weights = (
            None if each is None else each[places] for each in (self.counts, self.weights)
        )
        return Rows(self.features[places], self.class_indices[places], self.ways, counts, weights)

    def with_features(self, features: NDArray[Any]) -> "Rows":
        """Put other vectors in place of these."""
        if features is self.features:
            return self
        return replace(self, features=features)

    def repeated(self) -> "Rows":
        """Put as many equal rows in place of each as it stands for."""
        if self.counts is None:
            return self
        copies = self.take(np.repeat(np.arange(len(self)), self.counts))
        return replace(copies, counts=None, weights=None)

    def weighing(self, weights: NDArray[np.float64]) -> "Rows":
        """Let each row stand for as many equal ones as these weights, all above zero, say."""
        if (weights == 1).all():
            return replace(self, counts=None, weights=None)
        counts = repeats(weights)
        return replace(self, counts=None if (counts == 1).all() else counts, weights=weights)

    @property
    def given_weights(self) -> NDArray[np.float64]:
        """What each row weighs, (n,)."""
        known = self.counts if self.weights is None else self.weights
        return np.ones(len(self)) if known is None else known.astype(np.float64)

    @property
    def total(self) -> int:
        """How many rows they stand for."""
        return len(self) if self.counts is None else int(self.counts.sum())

    @property
    def shots(self) -> NDArray[np.int64]:
        """The number of rows of each class, (K,)."""
        return np.bincount(self.class_indices, minlength=self.ways)

    def members(self) -> list[NDArray[np.int64]]:
        """List the places of each class."""
        order = np.argsort(self.class_indices, kind="stable")
        return np.split(order, np.cumsum(self.shots)[:-1])


def as_support(*rows: Rows) -> Support:
    """Build a batch of supports of equal size, a support of each."""
    return Support(
        features=torch.from_numpy(np.stack([each.features for each in rows])),
        class_indices=torch.from_numpy(np.stack([each.class_indices for each in rows])),
        ways=rows[0].ways,
    )


def repeats(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return how many equal rows each row stands for, given weights above zero.

    Whole numbers are taken as they are. Of others the smallest becomes as few copies, `MAX_UNITS`
    at most, as keep all ratios to `MAX_ERROR`. Too many copies are made fewer, with a warning: each
    row keeps one, and ratios are kept as nearly as that allows.
    """
    copies = weights
    if not (weights == np.round(weights)).all():
        with np.errstate(over="ignore"):
            ratios = np.minimum(weights / weights.min(), 1 / np.finfo(np.float64).eps)
        tries = (units * ratios for units in range(1, MAX_UNITS + 1))
        copies = next(each for each in tries if _rounds_well(each))
    limit = copies_limit(len(weights))
    total = float(np.round(copies).sum())
    if total > limit:
        limit = max(MAX_ROUNDED, 2 * len(weights))
        # Rounded, or raised to one, each is at most one more: all together stay within the limit.
        shares = weights / weights.max()
        copies = shares * ((limit - len(shares)) / shares.sum())
        told = f"{total:,.0f}" if total < MAX_TOLD else f"{total:.1e}"
        warnings.warn(
            f"sample_weight stands for {told} rows: {limit:,} at most are made of them, so"
            " weights are rounded; give weights of more similar size to have them kept.",
            WeightWarning,
            stacklevel=2,
        )
    return np.maximum(np.round(copies), 1).astype(np.int64)


def copies_limit(rows: int) -> int:
    """Return the most copies that `rows` rows may stand for."""
    return max(MAX_COPIES, 2 * rows)


def _rounds_well(copies: NDArray[np.float64]) -> bool:
    """Tell whether rounding keeps numbers to `MAX_ERROR`; of ten or more it always does."""
    off = np.abs(np.round(copies) - copies)
    return bool((off <= MAX_ERROR * copies + 1e-9).all())


def weighted_rows(
    features: NDArray[Any], labels: NDArray[Any], weight: ArrayLike | None
) -> tuple[Rows, NDArray[Any]]:
    """Return the rows that count, and the different labels, sorted."""
    if weight is None:
        classes, indices = encode_labels(labels)
        return Rows(features, indices, len(classes)), classes
    weights = _check_sample_weight(weight, features, dtype=np.float64, ensure_non_negative=True)
    present = weights > 0
    if not present.any():
        raise InvalidEpisode(
            "all weights are zero",
            got=numbered(len(weights), "row") + " of weight 0",
            allowed="weights of which some are above zero",
            remedy="Leave sample_weight out to let all rows count alike.",
        )
    rows, classes = weighted_rows(features[present], labels[present], None)
    return rows.weighing(weights[present]), classes


def plain_labels(labels: Any) -> Any:  # noqa: ANN401 - whatever users give
    """Return labels, those of pandas' own dtypes as numpy has them; refuse what is no label.

    Others make floats of integers and booleans that may be missing, and strings of numbers that
    stand beside strings.
    """
    labels = labels if isinstance(labels, np.ndarray) else converted(labels)
    dtype = getattr(labels, "dtype", None)
    is_plain = isinstance(dtype, np.dtype) and dtype.kind not in "Of"
    if getattr(labels, "ndim", 1) != 1 or (is_plain and not np.ma.isMaskedArray(labels)):
        return labels
    given = labels.tolist() if hasattr(labels, "tolist") else labels
    if not isinstance(given, list | tuple):
        return labels
    missing = [place for place, label in enumerate(given) if _is_missing(label)]
    if missing:
        raise InvalidEpisode(
            "there are rows without a label",
            got=f"{given[missing[0]]} in {numbered(len(missing), 'row')} ({some(missing)})",
            allowed="a label for each row",
            remedy="Leave them out of X and y; `fit(X, y, pool=...)` reads rows without a label.",
        )
    _check_kinds(given)
    is_of_pandas = hasattr(labels, "isna") and not isinstance(dtype, np.dtype)
    return np.array(given) if is_of_pandas else labels


def _check_kinds(labels: list[Any] | tuple[Any, ...]) -> None:
    kinds = sorted({_kind_of(label) for label in labels})
    if len(kinds) > 1 or not set(kinds) <= {"booleans", "numbers", "sequences", "strings"}:
        raise InvalidEpisode(
            "the labels are not of one kind that can be sorted",
            got=" and ".join(kinds),
            allowed="strings, numbers or booleans",
            remedy="Write them as strings: [str(label) for label in y].",
        )


def _kind_of(label: object) -> str:
    if isinstance(label, bool | np.bool_):
        return "booleans"
    if isinstance(label, str):
        return "strings"
    if isinstance(label, Number):
        return "numbers"
    is_sequence = isinstance(label, list | tuple | np.ndarray)
    return "sequences" if is_sequence else f"{type(label).__name__} objects"


def _is_missing(label: object) -> bool:
    """Tell whether it is None, a NaN, or one of pandas, of which NA cannot be compared."""
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, float | np.floating) and bool(label != label)


def encode_labels(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the different labels, sorted (K,), and the class index of each row (n,)."""
    if labels.dtype.kind not in CLASS_KINDS:
        with warnings.catch_warnings():
            # Few examples for each class are no sign of a regression here.
            warnings.filterwarnings("ignore", message="The number of unique classes is greater")
            warnings.filterwarnings("ignore", message="invalid value encountered in cast")
            with np.errstate(over="ignore", invalid="ignore"):  # of sums that look for infinity
                check_classification_targets(labels)
    classes, indices = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        alone = f" ({classes.tolist()[0]!r})" if len(classes) else ""
        raise InvalidEpisode(
            "a classifier needs at least two classes",
            got=f"{numbered(len(classes), 'class')}{alone}",
            allowed="2 or more",
            remedy="Add labelled examples of another class.",
        )
    return classes, indices.astype(np.int64)


def check_same_kind(known: NDArray[Any], new: NDArray[Any]) -> None:
    """Refuse labels that numpy would silently turn into something else beside the known ones."""
    old_kind, new_kind = (KINDS.get(labels.dtype.kind, "numbers") for labels in (known, new))
    if old_kind != new_kind:
        raise InvalidEpisode(
            "the new labels are of another kind than the known ones",
            got=new_kind,
            allowed=f"{old_kind}, as in `fit`",
            remedy="Convert the labels.",
        )


def drawn_pool(pool: NDArray[Any], seed: int) -> NDArray[np.float64]:
    """Return at most `MAX_POOL` of the unlabelled rows (u, d_T), drawn by the seed.

    Every row has a random rank, a hash of its numbers, and the lowest are kept, in that order. So
    the order in which rows come is without effect, and to draw from those that were kept and
    further ones is to draw from all. Rows are drawn, not summarised by centres as a large support
    is: without labels, centres would lie between the classes.
    """
    lowest = np.argsort(content_ranks(pool, seed), kind="stable")[:MAX_POOL]
    return np.asarray(pool[lowest], dtype=np.float64)


def check_expected(expected: NDArray[Any], labels: NDArray[Any]) -> None:
    """Refuse labels that the first call of `partial_fit` did not name."""
    strange = np.setdiff1d(labels, expected)
    if len(strange):
        raise InvalidEpisode(
            "there are labels that the first call did not name",
            got=some(map(repr, strange.tolist()), 5),
            allowed=some(map(repr, expected.tolist()), 5),
            remedy="Name all labels in `classes` at the first call, or leave it out.",
        )


def check_later_classes(
    given: NDArray[Any], expected: NDArray[Any] | None, known: NDArray[Any]
) -> None:
    """Refuse classes, sorted, other than those named before, or that lack a known one."""
    covers = set(known.tolist()) <= set(given.tolist())
    if covers if expected is None else np.array_equal(given, expected):
        return
    demand, before = ("at least", known) if expected is None else ("just", expected)
    raise InvalidConfig(
        "classes do not fit the earlier calls",
        got=some(map(repr, given.tolist()), 5),
        allowed=f"{demand} {some(map(repr, before.tolist()), 5)}",
        remedy="Leave `classes` out, or call `fit` to start anew.",
    )


def check_places(places: ArrayLike, count: int) -> NDArray[np.int64]:
    """Return places among `count` rows, each once; refuse any other."""
    array = np.asarray(places)
    known = array.dtype.kind in "iu" and bool(((array >= 0) & (array < count)).all())
    if array.ndim != 1 or not (known or array.size == 0):
        raise InvalidEpisode(
            "there are no such rows",
            got=f"places {array.tolist()!r:.60}",
            allowed=f"a list of integers from 0 to {count - 1}",
            remedy="Count the rows as kept_examples() has them.",
        )
    return np.unique(array.astype(np.int64))
