"""What a fitted classifier says about its own doubts: sets of classes, novelty, labels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from unitail.estimator.conformal import folds, prediction_sets
from unitail.estimator.label_check import MAX_PROBABILITY, SuspiciousLabel, suspicious_labels
from unitail.estimator.settings import check_isolated
from unitail.inputs.encode import Examples

Floats = NDArray[np.float64]


class DoubtsMixin(BaseEstimator):  # type: ignore[misc]
    """What lets `TailClassifier` say how far its answers can be relied on."""

    def predict_set(
        self, X: Examples | None = None, coverage: float = 0.9, *, log_proba: Floats | None = None
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
        if log_proba is None:
            log_proba = self._fitted.isolated.log_probabilities(self._validated(X))
        else:
            check_isolated(self._fitted.settings.visibility)
        return prediction_sets(np.exp(log_proba), self._fitted.held_out_scores, coverage)

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
        fitted = self._fitted
        novelty: Floats = fitted.novelty(fitted.scaling(self._validated(X)))
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
