"""More to learn from, or less: rows and a pool that come or go after `fit`."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from unitail.errors import InvalidConfig, InvalidEpisode
from unitail.estimator.fit_predict import FittingEstimator
from unitail.estimator.rows import (
    check_same_kind,
    drawn_pool,
    encode_labels,
    plain_labels,
    weighted_rows,
)
from unitail.estimator.scaling import Scales
from unitail.inputs.encode import Examples
from unitail.wording import some


class UpdatableEstimator(FittingEstimator):
    """What lets `TailClassifier` take rows in and forget them."""

    def add(self, X: Examples, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Take more labelled rows in, of old classes or new ones; the result equals a fit on all.

        The rows from before were kept. The support is read again, since what the model makes of a
        row depends on all others. Draws, the pool, the choice of `scale` and a table's encoding
        stay.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or n items for the encoder
            The new rows.
        y : array-like of shape (n,)
            Their labels, of the same kind as before.
        sample_weight : array-like of shape (n,), default=None
            How often each counts, as in `fit`.

        Returns
        -------
        TailClassifier
            The classifier itself.

        """
        check_is_fitted(self)
        return self._add(X, y, sample_weight, self._fitted.settings.scale)

    def _add(
        self, X: Examples, y: ArrayLike, sample_weight: ArrayLike | None, scale: Scales | None
    ) -> Self:
        """Take rows in; a `scale` of None is chosen anew, as a fit on all rows would."""
        vectors = self._vectors(self._inputs, X)
        features, labels = self._checked(vectors, y, dtype=np.float64, reset=False)
        check_same_kind(self.classes_, labels)
        known, seed = self._fitted.rows, self._fitted.settings.seed
        new = _check_sample_weight(sample_weight, features, dtype=np.float64)
        rows, classes = weighted_rows(
            np.concatenate([known.features, features]),
            np.concatenate([self.classes_[known.class_indices], labels]),
            np.concatenate([known.given_weights, new]),
        )
        self._learn(rows, classes, seed, self._inputs, scale, self._fitted.pool)
        added = len(known) + len(self._weightless) + np.flatnonzero(new == 0)
        self._weightless = np.concatenate([self._weightless, added])
        return self

    def partial_fit(
        self,
        X: Examples,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from some rows at a time: `fit` at the first call, then all rows are read again.

        After any number of calls the result equals a fit on all rows together, `scale` as it is
        chosen for all of them; only a table's encoding stays that of the first call. There is no
        class without rows: `classes_` has those that came so far, and the first call needs two.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or n items for the encoder
            Labelled rows.
        y : array-like of shape (n,)
            Their labels.
        classes : array-like, default=None
            The labels that may ever come, at the first call, as scikit-learn has it; others are
            refused then. Later calls may repeat them, or name them after calls that did not.
            None: any may come.
        sample_weight : array-like of shape (n,), default=None
            How often each counts, as in `fit`.

        Returns
        -------
        TailClassifier
            The classifier itself.

        """
        first = not hasattr(self, "_fitted")
        expected = None if first else getattr(self, "_expected", None)
        if classes is not None:
            given = np.unique(np.asarray(plain_labels(classes)))
            if not first:
                _check_classes(given, expected, self.classes_)
            expected = given
        if expected is not None:
            _check_expected(expected, np.asarray(plain_labels(y)))
        learned = self.fit(X, y, sample_weight) if first else self._add(X, y, sample_weight, None)
        self._expected = expected
        return learned

    def remove(self, places: ArrayLike) -> Self:
        """Forget labelled rows; the result equals a fit on the others.

        Draws, the pool, the choice of `scale` and a table's encoding stay, as with `add`. A class
        without rows is a class no more.

        Parameters
        ----------
        places : array-like of int
            Places among the rows of `fit` and `add` as they were given, as `influence` counts
            them; the first is 0. Rows of weight zero have a place, too, but not after `save`.

        Returns
        -------
        TailClassifier
            The classifier itself.

        """
        check_is_fitted(self)
        rows, settings = self._fitted.rows, self._fitted.settings
        given = np.arange(len(rows) + len(self._weightless))
        gone = _checked_places(places, len(given))
        rest = rows.take(~np.isin(np.delete(given, self._weightless), gone))
        classes, indices = encode_labels(self.classes_[rest.class_indices])
        rest = replace(rest, class_indices=indices, ways=len(classes))
        rest = rest.weighing(rest.given_weights)
        pool = self._fitted.pool
        self._learn(rest, classes, settings.seed, self._inputs, settings.scale, pool)
        self._weightless = np.flatnonzero(np.isin(np.delete(given, gone), self._weightless))
        return self

    def add_pool(self, X: Examples) -> Self:
        """Take more unlabelled rows in; the result equals a fit with all of them as its pool.

        Parameters
        ----------
        X : array-like of shape (u, n_features), or u items for the encoder
            Rows like those that will be asked.

        Returns
        -------
        TailClassifier
            The classifier itself.

        """
        check_is_fitted(self)
        fitted = self._fitted
        seed, pool = fitted.settings.seed, self._pool(X, self._inputs, fitted.settings.seed)
        if fitted.pool is not None:
            pool = drawn_pool(np.concatenate([fitted.pool, pool]), seed)
        scale = fitted.settings.scale
        return self._learn(fitted.rows, self.classes_, seed, self._inputs, scale, pool)


def _check_expected(expected: NDArray[Any], labels: NDArray[Any]) -> None:
    """Refuse labels that the first call of `partial_fit` did not name."""
    strange = np.setdiff1d(labels, expected)
    if len(strange):
        raise InvalidEpisode(
            "there are labels that the first call did not name",
            got=some(map(repr, strange.tolist()), 5),
            allowed=some(map(repr, expected.tolist()), 5),
            remedy="Name all labels in `classes` at the first call, or leave it out.",
        )


def _check_classes(given: NDArray[Any], expected: NDArray[Any] | None, known: NDArray[Any]) -> None:
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


def _checked_places(places: ArrayLike, count: int) -> NDArray[np.int64]:
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
