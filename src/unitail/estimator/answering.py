"""What a fitted classifier says: labels, probabilities, and its doubts about them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from unitail.answer_defaults import COVERAGE
from unitail.configuration import require
from unitail.estimator.conformal import folds, prediction_sets
from unitail.estimator.fitted import Fitted
from unitail.estimator.label_check import MAX_PROBABILITY, SuspiciousLabel, suspicious_labels
from unitail.estimator.settings import check_isolated
from unitail.inputs.examples import FLOATS, Examples, TakesExamples, vectors_of_asked
from unitail.inputs.input_encoder import InputEncoder

Floats = NDArray[np.float64]


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


class AnsweringEstimator(TakesExamples):
    """What lets `TailClassifier` answer, and say how far its answers can be relied on."""

    _fitted: Fitted
    _inputs: InputEncoder | None

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

    def predict_set(
        self,
        X: Examples | None = None,
        coverage: float = COVERAGE,
        *,
        log_proba: Floats | None = None,
    ) -> NDArray[np.bool_]:
        """Return for each row the classes that hold the true one with probability `coverage`.

        Sets are conformal: support rows are left out and asked, and tell how sure an answer must
        be. The promise is for the average over supports and rows that come like the support's, not
        for each class. With few rows it is kept by sets of all classes: 0.9 needs nine rows. If no
        class has two rows, the model's own probabilities decide. The most probable class is always
        in. Rows are answered in isolation, whatever `visibility` is.

        Parameters
        ----------
        X : array-like of shape (m, n_features), or m items for the encoder
            What is asked.
        coverage : float, default=0.9
            Between 0 and 1.
        log_proba : ndarray of shape (m, n_classes), default=None
            In place of X: what `predict_log_proba` told of the rows, isolated ones.

        Returns
        -------
        ndarray of shape (m, n_classes)
            Booleans, in the order of `classes_`; `set_labels` turns them into labels.

        """
        check_is_fitted(self)
        require(
            (X is None) != (log_proba is None),
            "what is asked of predict_set",
            got="neither X nor log_proba" if X is None else "both X and log_proba",
            allowed="one of them",
        )
        scores = self._fitted.held_out_scores
        if log_proba is not None:
            check_isolated(self._fitted.settings.visibility)
            return prediction_sets(np.exp(log_proba), scores, coverage)
        rows = self._validated(X)
        answers = self._answers(self._fitted.isolated, rows)
        sets = prediction_sets(np.exp(answers), scores, coverage)
        sets[self._unknown(rows)] = True  # nothing can be ruled out
        return sets

    def set_labels(self, sets: NDArray[np.bool_]) -> list[NDArray[Any]]:
        """Turn prediction sets (m, n_classes) into a list of the labels in each."""
        check_is_fitted(self)
        return [self.classes_[member] for member in sets]

    def novelty(self, X: Examples) -> Floats:
        """Return 0 to 1 for each row: the higher, the less it looks like any of the classes.

        It is the quantile of the row's strangeness among the support's own rows: 0.95 says that
        about one in twenty rows of the known classes is as strange. It follows from distances
        alone, not from the model; see `unitail.estimator.novelty`.

        Parameters
        ----------
        X : array-like of shape (m, n_features), or m items for the encoder
            What is asked.

        Returns
        -------
        ndarray of shape (m,)
            Novelty of each row.

        """
        check_is_fitted(self)
        fitted, rows = self._fitted, self._validated(X)
        novelty: Floats = fitted.novelty(fitted.scaling(rows))
        novelty[self._unknown(rows)] = 1.0  # what says nothing looks like no class
        return novelty

    def flag_labels(self, max_probability: float = MAX_PROBABILITY) -> list[SuspiciousLabel]:
        """Name the labels of the support that look wrong.

        Every row whose class has another is left out and asked, as for `predict_set`. Its label is
        named if another class is more probable and the label's own probability is small. Of those
        named about three in four are wrong where one label in twenty is (results/label_noise.md),
        fewer where classes are alike: look at them, do not drop them.

        Parameters
        ----------
        max_probability : float, default=0.05
            Labels are named that are less probable.

        Returns
        -------
        list of SuspiciousLabel
            With `place` (the row in `fit`), `label`, `likely` and their probabilities; the least
            probable label first.

        """
        check_is_fitted(self)
        rows = self._fitted.rows
        held_out = self._fitted.held_out(folds(rows))
        return suspicious_labels(held_out, rows.class_indices, self.classes_, max_probability)

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

    def _validated(self, X: Examples | None) -> NDArray[Any]:
        vectors = vectors_of_asked(self._inputs, X, self.cache)
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
