"""Labelled rows: validation, class indices, weights as copies, selection, cluster centres."""

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from unitail.errors import InvalidConfig, InvalidEpisode, WeightWarning, warn_user
from unitail.framework.episode import Support
from unitail.inputs.conversion import converted
from unitail.randomness import content_ranks
from unitail.wording import numbered, some

KINDS = {"b": "booleans", "U": "strings", "O": "strings"}
"""Kinds of labels by numpy's dtype character; all other dtypes are numbers."""
CLASS_KINDS = "biuU"
"""Dtypes that are always classes; others may be measurements, so scikit-learn checks them."""
MAX_COPIES = 10_000
"""Largest number of copies that weighted rows become, or twice their number if that is more."""
MAX_ROUNDED = 1000
"""The same once weights have to be rounded: further copies cost time and add little precision."""
MAX_WRITTEN_OUT = 1e12
"""Larger numbers of copies are reported in scientific notation."""
MAX_UNITS, MAX_ERROR = 10, 0.05
"""Largest number of copies of the smallest weight, and largest relative error of the others."""
MAX_POOL = 1000
"""Largest number of unlabelled rows that are kept and read."""
MAX_ROUNDS = 10
"""Iterations of k-means."""


def no_places() -> NDArray[np.int64]:
    """Return the places of no rows."""
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Rows:
    """Labelled rows."""

    features: NDArray[Any]
    """Shape (n, d_T)."""
    class_indices: NDArray[np.int64]
    """Shape (n,), 0..K-1; every class occurs."""
    ways: int
    """K, the number of classes."""
    counts: NDArray[np.int64] | None = None
    """Number of copies that each row stands for, (n,), made of the weights; None: one each."""
    weights: NDArray[np.float64] | None = None
    """Weights as the user gave them, (n,); None: equal to `counts`."""
    weightless: NDArray[np.int64] = field(default_factory=no_places)
    """Places, among all rows that the user gave, of those of weight zero, which are not here."""

    def __len__(self) -> int:
        return len(self.class_indices)

    def take(self, places: NDArray[Any]) -> "Rows":
        """Select rows by place or by mask."""
        counts, weights = (
            None if each is None else each[places] for each in (self.counts, self.weights)
        )
        return Rows(self.features[places], self.class_indices[places], self.ways, counts, weights)

    def with_features(self, features: NDArray[Any]) -> "Rows":
        """Return the same rows with other vectors."""
        if features is self.features:
            return self
        return replace(self, features=features)

    def repeated(self) -> "Rows":
        """Repeat each row as often as it counts."""
        if self.counts is None:
            return self
        copies = self.take(np.repeat(np.arange(len(self)), self.counts))
        return replace(copies, counts=None, weights=None)

    def without(self, places: NDArray[np.int64]) -> "Rows":
        """Return the rows without those at these places among all that the user gave.

        Classes may lose all their rows.
        """
        weightless = np.delete(np.isin(np.arange(self.num_given), self.weightless), places)
        remaining = self.take(~np.isin(self.places, places))
        return replace(remaining, weightless=np.flatnonzero(weightless))

    def weighing(self, weights: NDArray[np.float64]) -> "Rows":
        """Return the rows with these weights, all above zero, turned into counts."""
        if (weights == 1).all():
            return replace(self, counts=None, weights=None)
        counts = repeats(weights)
        return replace(self, counts=None if (counts == 1).all() else counts, weights=weights)

    @property
    def given_weights(self) -> NDArray[np.float64]:
        """The weight of each row, (n,)."""
        weights = self.counts if self.weights is None else self.weights
        return np.ones(len(self)) if weights is None else weights.astype(np.float64)

    @property
    def num_given(self) -> int:
        """Number of rows that the user gave, counting those of weight zero."""
        return len(self) + len(self.weightless)

    @property
    def places(self) -> NDArray[np.int64]:
        """Place of each row among all rows that the user gave, (n,)."""
        return np.delete(np.arange(self.num_given), self.weightless)

    @property
    def total(self) -> int:
        """Number of rows, counting copies."""
        return len(self) if self.counts is None else int(self.counts.sum())

    @property
    def shots(self) -> NDArray[np.int64]:
        """Number of rows of each class, (K,)."""
        return np.bincount(self.class_indices, minlength=self.ways)

    def members(self) -> list[NDArray[np.int64]]:
        """Return the places of the rows of each class."""
        order = np.argsort(self.class_indices, kind="stable")
        return np.split(order, np.cumsum(self.shots)[:-1])


def as_support(*rows: Rows) -> Support:
    """Stack sets of rows of equal size into a batch of supports."""
    return Support(
        features=torch.from_numpy(np.stack([each.features for each in rows])),
        class_indices=torch.from_numpy(np.stack([each.class_indices for each in rows])),
        ways=rows[0].ways,
    )


def repeats(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the number of copies of each row for weights above zero.

    Whole numbers are used unchanged. For other weights, the smallest becomes as few copies, at most
    `MAX_UNITS`, as keep all ratios within `MAX_ERROR`. Too many copies are scaled down, with a
    warning: each row keeps at least one, and ratios are kept as closely as that allows.
    """
    copies = weights
    if not (weights == np.round(weights)).all():
        with np.errstate(over="ignore"):
            ratios = np.minimum(weights / weights.min(), 1 / np.finfo(np.float64).eps)
        candidates = (units * ratios for units in range(1, MAX_UNITS + 1))
        copies = next(each for each in candidates if _rounds_well(each))
    limit = copies_limit(len(weights))
    total = float(np.round(copies).sum())
    if total > limit:
        limit = max(MAX_ROUNDED, 2 * len(weights))
        # Rounding, or raising to one, adds at most one to each, so the total keeps the limit.
        shares = weights / weights.max()
        copies = shares * ((limit - len(shares)) / shares.sum())
        shown = f"{total:,.0f}" if total < MAX_WRITTEN_OUT else f"{total:.1e}"
        warn_user(
            f"sample_weight amounts to {shown} copies of rows: at most {limit:,} are made, so"
            " weights are rounded; give weights of more similar size to keep them exact.",
            WeightWarning,
        )
    return np.maximum(np.round(copies), 1).astype(np.int64)


def copies_limit(rows: int) -> int:
    """Return the largest number of copies that `rows` rows may stand for."""
    return max(MAX_COPIES, 2 * rows)


def _rounds_well(copies: NDArray[np.float64]) -> bool:
    """Return whether rounding errors are within `MAX_ERROR`; from 10 on they always are."""
    errors = np.abs(np.round(copies) - copies)
    return bool((errors <= MAX_ERROR * copies + 1e-9).all())


def weighted_rows(
    features: NDArray[Any], labels: NDArray[Any], weight: ArrayLike | None
) -> tuple[Rows, NDArray[Any]]:
    """Return the rows of weight above zero, and the sorted distinct labels (K,)."""
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
            remedy="Leave sample_weight out to give all rows the same weight.",
        )
    rows, classes = weighted_rows(features[present], labels[present], None)
    rows = replace(rows, weightless=np.flatnonzero(~present))
    return rows.weighing(weights[present]), classes


def more_rows(
    rows: Rows,
    classes: NDArray[Any],
    features: NDArray[Any],
    labels: NDArray[Any],
    weight: ArrayLike | None,
) -> tuple[Rows, NDArray[Any]]:
    """Return rows of these classes together with new ones, and the labels of all of them (K,)."""
    check_same_kind(classes, labels)
    weights = _check_sample_weight(weight, features, dtype=np.float64, ensure_non_negative=True)
    together, all_classes = weighted_rows(
        np.concatenate([rows.features, features]),
        np.concatenate([classes[rows.class_indices], labels]),
        np.concatenate([rows.given_weights, weights]),
    )
    weightless = np.concatenate([rows.weightless, rows.num_given + np.flatnonzero(weights == 0)])
    return replace(together, weightless=weightless), all_classes


def fewer_rows(rows: Rows, classes: NDArray[Any], places: ArrayLike) -> tuple[Rows, NDArray[Any]]:
    """Return rows of these classes without those at some places, and the labels that remain (K,).

    Places are those among all rows that the user gave.
    """
    remaining = rows.without(check_places(places, rows.num_given))
    kept_classes, indices = encode_labels(classes[remaining.class_indices])
    remaining = replace(remaining, class_indices=indices, ways=len(kept_classes))
    return remaining.weighing(remaining.given_weights), kept_classes


def plain_labels(labels: Any) -> Any:  # noqa: ANN401 - whatever users give
    """Return the labels, objects and pandas' own dtypes converted; refuse missing or mixed ones.

    Otherwise numpy would turn integers and booleans of pandas' nullable dtypes into floats, and
    numbers next to strings into strings; scikit-learn would refuse numbers among objects.
    """
    labels = labels if isinstance(labels, np.ndarray | list) else converted(labels)
    dtype = getattr(labels, "dtype", None)
    is_plain = isinstance(dtype, np.dtype) and dtype.kind not in "Of"
    if getattr(labels, "ndim", 1) != 1 or (is_plain and not np.ma.isMaskedArray(labels)):
        return labels
    values = labels.tolist() if hasattr(labels, "tolist") else labels
    if not isinstance(values, list | tuple):
        return labels
    missing = [place for place, label in enumerate(values) if _is_missing(label)]
    if missing:
        raise InvalidEpisode(
            "there are rows without a label",
            got=f"{values[missing[0]]} in {numbered(len(missing), 'row')} ({some(missing)})",
            allowed="a label for each row",
            remedy="Leave them out of X and y; `fit(X, y, pool=...)` reads rows without a label.",
        )
    kind = _common_kind(values)
    is_pandas_dtype = hasattr(labels, "isna") and not isinstance(dtype, np.dtype)
    are_objects = dtype == np.dtype(object) and kind in ("booleans", "numbers")
    return np.array(values) if is_pandas_dtype or are_objects else labels


def _common_kind(labels: list[Any] | tuple[Any, ...]) -> str | None:
    """Return the kind of all labels, None if there are none; refuse several kinds, or others."""
    kinds = sorted({_kind_of(label) for label in labels})
    if len(kinds) > 1 or not set(kinds) <= {"booleans", "numbers", "sequences", "strings"}:
        raise InvalidEpisode(
            "the labels are not of one kind that can be sorted",
            got=" and ".join(kinds),
            allowed="strings, numbers or booleans",
            remedy="Write them as strings: [str(label) for label in y].",
        )
    return kinds[0] if kinds else None


def _kind_of(label: object) -> str:
    if isinstance(label, bool | np.bool_):
        return "booleans"
    if isinstance(label, str):
        return "strings"
    if isinstance(label, int | float | np.integer | np.floating):
        return "numbers"
    is_sequence = isinstance(label, list | tuple | np.ndarray)
    return "sequences" if is_sequence else f"{type(label).__name__} objects"


def _is_missing(label: object) -> bool:
    """Return whether a label is None, NaN, or pandas' NA or NaT (NA cannot be compared)."""
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, float | np.floating) and bool(label != label)


def encode_labels(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the sorted distinct labels (K,), and the class index of each row (n,)."""
    if labels.dtype.kind not in CLASS_KINDS:
        with warnings.catch_warnings():
            # Few examples per class are normal here, not a sign of a regression target.
            warnings.filterwarnings("ignore", message="The number of unique classes is greater")
            warnings.filterwarnings("ignore", message="invalid value encountered in cast")
            with np.errstate(over="ignore", invalid="ignore"):  # the check for infinities sums
                check_classification_targets(labels)
    classes, indices = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        only = f" ({classes.tolist()[0]!r})" if len(classes) else ""
        raise InvalidEpisode(
            "a classifier needs at least two classes",
            got=f"{numbered(len(classes), 'class')}{only}",
            allowed="2 or more",
            remedy="Add labelled examples of another class.",
        )
    return classes, indices.astype(np.int64)


def check_same_kind(known: NDArray[Any], new: NDArray[Any]) -> None:
    """Refuse new labels of another kind, which numpy would convert silently on concatenation."""
    old_kind, new_kind = (KINDS.get(labels.dtype.kind, "numbers") for labels in (known, new))
    if old_kind != new_kind:
        raise InvalidEpisode(
            "the new labels are not of the same kind as the known ones",
            got=new_kind,
            allowed=f"{old_kind}, as in `fit`",
            remedy="Convert the labels.",
        )


def drawn_pool(pool: NDArray[Any], seed: int) -> NDArray[np.float64]:
    """Return at most `MAX_POOL` of the unlabelled rows (u, d_T), drawn by the seed.

    Every row has a random rank, a hash of its values, and the rows of lowest rank are kept, in that
    order. So the order of the input has no effect, and drawing from the kept rows together with
    new ones equals drawing from all. Rows are drawn rather than replaced by cluster centres, as in
    a large support, because without labels the centres would lie between the classes.
    """
    lowest = np.argsort(content_ranks(pool, seed), kind="stable")[:MAX_POOL]
    return np.asarray(pool[lowest], dtype=np.float64)


def check_expected(expected: NDArray[Any], labels: NDArray[Any]) -> None:
    """Refuse labels that the first call of `partial_fit` did not name."""
    unexpected = np.setdiff1d(labels, expected)
    if len(unexpected):
        raise InvalidEpisode(
            "there are labels that the first call did not name",
            got=some(map(repr, unexpected.tolist()), 5),
            allowed=some(map(repr, expected.tolist()), 5),
            remedy="Name all labels in `classes` at the first call, or leave it out.",
        )


def check_later_classes(
    given: NDArray[Any], expected: NDArray[Any] | None, known: NDArray[Any]
) -> None:
    """Refuse sorted classes that differ from those named before, or that lack a known class."""
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
    """Return the sorted distinct places among `count` rows; refuse any outside of them."""
    array = np.asarray(places)
    in_range = array.dtype.kind in "iu" and bool(((array >= 0) & (array < count)).all())
    if array.ndim != 1 or not (in_range or array.size == 0):
        raise InvalidEpisode(
            "there are no such rows",
            got=f"places {array.tolist()!r:.60}",
            allowed=f"a list of integers from 0 to {count - 1}",
            remedy="Count the rows from 0 in the order of `fit` and `add`.",
        )
    return np.unique(array.astype(np.int64))


def class_quota(shots: NDArray[np.int64], limit: int) -> int:
    """Return the largest number of rows per class such that all together keep at most `limit`."""
    quotas = np.sort(shots)
    sharing = np.arange(len(quotas), 0, -1)  # number of classes at least as large as each
    smaller = np.concatenate([[0], np.cumsum(quotas)[:-1]])
    fair = (limit - smaller) // sharing  # the quota if only the smaller classes keep all rows
    over = np.flatnonzero(quotas > fair)
    return max(1, int(fair[over[0]])) if len(over) else int(quotas[-1])


def reduced(rows: Rows, limit: int | None, seed: int) -> Rows:
    """Replace rows by at most `limit` rows and cluster centres; deterministic given the seed."""
    if limit is None or len(rows) <= limit:
        return rows
    quota = class_quota(rows.shots, limit)
    kept = [
        rows.features[places]
        if len(places) <= quota
        else centres(rows.features[places], quota, seed)
        for places in rows.members()
    ]
    class_indices = np.repeat(np.arange(rows.ways), [len(features) for features in kept])
    return Rows(np.concatenate(kept), class_indices, rows.ways)


def centres(features: NDArray[Any], count: int, seed: int) -> NDArray[Any]:
    """Return the centres of `count` clusters; fewer if there are fewer distinct rows."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    # Initialisation by k-means++ would take far longer than the clustering itself, and hardly helps
    # with so many centres.
    clusters = KMeans(count, init="random", n_init=1, max_iter=MAX_ROUNDS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        clusters.fit(features)
    used: NDArray[Any] = clusters.cluster_centers_[np.unique(clusters.labels_)]
    return used
