"""`fit` and `predict`: labelled rows and a pool in, labels and probabilities out."""

import warnings
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from unitail.errors import InvalidInput, TableSizeWarning
from unitail.estimator.fitted import Fitted
from unitail.estimator.held_out import SavedScores
from unitail.estimator.rows import Rows, drawn_pool, plain_labels, weighted_rows
from unitail.estimator.scaling import Scales, for_parts, scale_after
from unitail.estimator.settings import Settings, class_weights, draw_seed
from unitail.inputs.encode import (
    EncoderChoice,
    Examples,
    choose_encoder,
    no_numbers,
    vectors_of,
    vectors_of_asked,
)
from unitail.inputs.input_encoder import InputEncoder, MixedEncoder

Floats = NDArray[np.float64]
FLOATS = [np.float64, np.float32]
"""Taken as they are; others as the first."""
MAX_NUMBER = 1e300
"""Sums of some larger ones are infinite."""
MANY_ROWS = 2000
"""From this many labelled rows of a table on, boosting is usually ahead (results/tables)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class KeptExamples:
    """What there is of the examples that a classifier was fitted on; not they themselves."""

    vectors: NDArray[np.float64]
    """(n, d_T)."""
    labels: NDArray[Any]
    """(n,)."""
    encoder: InputEncoder | None
    """What made the vectors; None if they were given."""
    pool: NDArray[Any] | None = None
    """The unlabelled rows that were read with them, (u, d_T)."""


class FittingEstimator(BaseEstimator):  # type: ignore[misc]
    """What lets `TailClassifier` learn and answer."""

    encoder: EncoderChoice
    device: str
    random_state: int | np.random.RandomState | None
    cache: str | Path | bool
    _fitted: Fitted
    _inputs: InputEncoder | None
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
        vectors = self._vectors(inputs, X)
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

    def predict(self, X: Examples) -> NDArray[Any]:
        """Return the most probable label of each row.

        Parameters
        ----------
        X : array-like of shape (m, n_features), or m items for the encoder
            What is asked.

        Returns
        -------
        ndarray of shape (m,)
            Labels, of the dtype of `classes_`.

        """
        chosen = self.predict_log_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    def predict_proba(self, X: Examples) -> Floats:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like of shape (m, n_features), or m items for the encoder
            What is asked.

        Returns
        -------
        ndarray of shape (m, n_classes)
            Probabilities, in the order of `classes_`.

        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Examples) -> Floats:
        """Return the logarithms of what `predict_proba` returns."""
        check_is_fitted(self)
        return self._answers(self._fitted, self._validated(X))

    def kept_examples(self) -> KeptExamples:
        """Return what a fitted classifier knows of its examples."""
        check_is_fitted(self)
        rows = self._fitted.rows
        return KeptExamples(
            vectors=rows.features,
            labels=self.classes_[rows.class_indices],
            encoder=self._inputs,
            pool=self._fitted.pool,
        )

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what X may hold."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        return tags

    def _checked(self, vectors: Any, *labels: Any, **options: Any) -> Any:  # noqa: ANN401
        """Return vectors, and labels, that are checked; what is missing is filled in later."""
        data = vectors, *map(plain_labels, labels)
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # of sums that look for infinity
                valid = validate_data(self, *data, ensure_all_finite="allow-nan", **options)
            rows = valid[0] if isinstance(valid, tuple) else valid
            ends = [np.fmax.reduce(rows, None, initial=0), np.fmin.reduce(rows, None, initial=0)]
            largest = float(np.abs(ends).max())
            if largest > MAX_NUMBER:
                raise OverflowError(f"{largest:g}")
        except OverflowError as error:
            raise InvalidInput(
                "X holds a number that is too large",
                got=str(error),
                allowed=f"numbers within ±{MAX_NUMBER:g}",
                remedy="Divide the column by some power of ten.",
            ) from error
        except (ValueError, TypeError) as error:
            if (told := no_numbers(vectors, error)) is None:
                raise
            raise told from error
        return valid

    def _vectors(self, encoder: InputEncoder | None, X: Examples) -> Any:  # noqa: ANN401
        """Return X as vectors, or as what scikit-learn makes them of; arrays are taken as is."""
        is_array = encoder is None and type(X) is np.ndarray
        return X if is_array else vectors_of(encoder, X, self.cache)

    def _pool(self, pool: Examples, inputs: InputEncoder | None, seed: int) -> NDArray[np.float64]:
        """Return the vectors of unlabelled rows, or of some that are drawn."""
        vectors = self._vectors(inputs, pool)
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

    def _validated(self, X: Examples | None) -> NDArray[Any]:
        is_array = self._inputs is None and type(X) is np.ndarray
        vectors = X if is_array else vectors_of_asked(self._inputs, X, self.cache)
        vectors = self._checked(vectors, dtype=FLOATS, reset=False)
        return np.require(vectors, requirements=["C", "W"])  # unlike a data frame's columns

    def _answers(self, fitted: Fitted, rows: NDArray[Any]) -> Floats:
        """Ask for rows (m, d_T) that say something; others have shares, and no say: (m, K)."""
        told = ~self._unknown(rows)
        if told.all():
            return fitted.log_probabilities(rows)
        answers = np.tile(_shares_of(fitted), (len(rows), 1))
        if told.any():
            answers[told] = fitted.log_probabilities(rows[told])
        return answers

    def _unknown(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Tell which rows are of items that say nothing; see `vectors_of_asked`."""
        if self._inputs is None:  # what is missing from vectors of the user's own is filled in
            return np.zeros(len(rows), dtype=bool)
        return np.asarray(np.isnan(rows).all(axis=1))


def _shares_of(fitted: Fitted) -> Floats:
    """Answer what nothing is known of: the logarithms of the classes' shares, (K,).

    Of all rows: what stands for those of a large support has other shares.
    """
    rows = fitted.rows.repeated()
    shares = np.log(rows.shots / len(rows))
    offsets = fitted.settings.offsets(rows.class_indices[None], rows.ways)
    shares = shares if offsets is None else shares + offsets[0].cpu().numpy()
    return np.asarray(shares - np.logaddexp.reduce(shares))


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
