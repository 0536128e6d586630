"""How a classifier learns: labelled rows, weights and a pool in, a support that was read out."""

import warnings
from dataclasses import replace
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted

from unitail.errors import TableSizeWarning
from unitail.estimator.conformal import SavedScores
from unitail.estimator.fitted import Fitted
from unitail.estimator.rows import (
    Rows,
    check_classes,
    check_expected,
    check_same_kind,
    checked_places,
    drawn_pool,
    encode_labels,
    weighted_rows,
)
from unitail.estimator.scaling import Scales, for_parts, scale_after
from unitail.estimator.settings import Settings, class_weights, draw_seed
from unitail.inputs.examples import (
    FLOATS,
    EncoderChoice,
    Examples,
    TakesExamples,
    choose_encoder,
    vectors_of,
)
from unitail.inputs.input_encoder import InputEncoder, MixedEncoder

MANY_ROWS = 2000
"""From this many labelled rows of a table on, boosting is usually ahead (results/tables)."""


class LearningEstimator(TakesExamples):
    """What lets `TailClassifier` learn."""

    encoder: EncoderChoice
    device: str
    random_state: int | np.random.RandomState | None
    _weightless: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    """Places among the rows of `fit` and `add` of those that have no weight, and are not kept."""

    def fit(
        self,
        X: Examples,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        pool: Examples | None = None,
    ) -> Self:
        """Read the labelled rows.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or n items for the encoder
            Vectors of any dtype, or files, images, texts, sounds, a table.
        y : array-like of shape (n,)
            Labels of two or more classes: strings, numbers or booleans.
        sample_weight : array-like of shape (n,), default=None
            How often each row counts. Whole numbers are exactly as many equal rows, zero is none.
            Of others the smallest becomes as many equal rows, ten at most, as keep all ratios to
            5 %: (1, 1.5) is (2, 3). More than 10,000 rows, or twice as many as X has, are not made
            of them: it is 1,000 then, or twice as many, with ratios rounded and a `WeightWarning`.
        pool : array-like of shape (u, n_features), or u items for the encoder, default=None
            Rows without labels, like those that will be asked; for isolated answers of models
            that take a pool, as the default model does. It is read once with the labelled rows, and
            answers gain most of what "joint" gains, though none depends on what else is asked. Of
            more than 1,000 rows that many are drawn.

        Returns
        -------
        TailClassifier
            The classifier itself.

        """
        self._expected: NDArray[Any] | None = None
        # 1. Encode items, after a look at the labels: encoding may take long.
        inputs = None
        if self.encoder is not None:
            check_consistent_length(X, y)
            inputs = choose_encoder(self.encoder, X, self.device)
        vectors = vectors_of(inputs, X, self.cache)
        # 2. Check, and keep rows in double precision, so that their dtype changes nothing.
        features, labels = self._checked(vectors, y, dtype=np.float64, order="C", copy=True)
        # 3. Number the classes; leave out rows without weight.
        rows, classes = weighted_rows(features, labels, sample_weight)
        # 4. Let the model read the rows, and the pool, with this fit's own draws.
        seed = draw_seed(self.random_state)
        drawn = None if pool is None else self._pool(pool, inputs, seed)
        self._learn(rows, classes, seed, inputs, None, drawn)
        self._weightless = np.empty(0, dtype=np.int64)
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, features, dtype=np.float64)
            self._weightless = np.flatnonzero(weights == 0)
        # 5. Say where another method is the better choice.
        for note in size_notes(self._fitted):
            warnings.warn(f"{note}.", TableSizeWarning, stacklevel=2)
        return self

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
        vectors = vectors_of(self._inputs, X, self.cache)
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
            given = np.unique(np.asarray(classes))
            if not first:
                check_classes(given, expected, self.classes_)
            expected = given
        if expected is not None:
            check_expected(expected, np.asarray(y))
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
        gone = checked_places(places, len(given))
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

    def _pool(self, pool: Examples, inputs: InputEncoder | None, seed: int) -> NDArray[np.float64]:
        """Return the vectors of unlabelled rows, or of some that are drawn."""
        vectors = vectors_of(inputs, pool, self.cache)
        return drawn_pool(self._checked(vectors, dtype=FLOATS, reset=False), seed)

    def _learn(
        self,
        rows: Rows,
        classes: NDArray[Any],
        seed: int,
        inputs: InputEncoder | None,
        scale: Scales | None,
        pool: NDArray[Any] | None,
        saved: SavedScores | None = None,
    ) -> Self:
        """Read the support; only what succeeds is remembered."""
        settings = Settings.of(self, seed)
        if not isinstance(settings.class_weight, str):
            weights = class_weights(settings.class_weight, classes.tolist())
            settings = replace(settings, class_weight=weights)
        if settings.parts is None and isinstance(inputs, MixedEncoder):
            settings = replace(settings, parts=inputs.widths)
        scale = scale_after(scale or settings.scale, inputs, settings.parts)
        settings = replace(settings, scale=scale)
        scores = saved.scores_for(rows, settings, pool) if saved else None
        fitted = Fitted.of(rows, settings, pool, scores)
        self.classes_, self._inputs, self._fitted = classes, inputs, fitted
        names = parameter_names(type(self))  # type: ignore[arg-type]
        self._learned_with = {name: getattr(self, name) for name in names}
        self.visibility_ = str(fitted.settings.visibility)
        self.dropped_columns_ = {} if inputs is None else dict(inputs.dropped)
        self.scaled_ = any(one.standardises for one in for_parts(fitted.settings.scale, [0]))
        return self


@cache
def parameter_names(kind: type[BaseEstimator]) -> tuple[str, ...]:
    """Return the names of an estimator's parameters, which are read off its signature, once."""
    return tuple(kind._get_param_names())


def size_notes(fitted: Fitted) -> list[str]:
    """Say where another method is better for this number of rows, a phrase each."""
    scale = fitted.settings.scale
    if isinstance(scale, tuple) or not scale.views or len(fitted.rows) < MANY_ROWS:
        return []
    return [
        f"A table of {len(fitted.rows):,} labelled rows: from about {MANY_ROWS:,} on, gradient"
        " boosting (HistGradientBoostingClassifier) is usually better, and faster"
    ]
