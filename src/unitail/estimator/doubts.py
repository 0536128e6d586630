r"""How far answers and labels can be relied on: prediction sets, novelty, suspicious labels.

Prediction sets promise a coverage. The score of a row that was left out (`held_out`) is
1 - p(true class). With the n scores, the set of a query is {k : 1 - p_k <= q}, where q is the
ceil((n + 1) coverage)-th smallest score; where there are fewer scores, q is infinite and the set
holds all classes.

A label is suspicious if another class is more probable than it, and its own probability is below
`MAX_PROBABILITY`. That limit was chosen on clothing17, intel_scenes6, trashnet5, monkeys10 and
neu_steel, where limits on how probable the other class is found fewer of the wrong labels at the
same precision. How many of those that are named are wrong is measured by bench/label_noise.py, on
other data sets.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from unitail.answer_defaults import COVERAGE
from unitail.errors import InvalidConfig, require
from unitail.estimator.fit_predict import FittingEstimator, Floats
from unitail.estimator.held_out import HeldOut, calibration_folds
from unitail.inputs.encode import Examples
from unitail.nn.episode_model import Visibility

MAX_PROBABILITY = 0.05
"""Of a suspicious label, given all other examples."""


@dataclass(frozen=True, kw_only=True)
class SuspiciousLabel:
    """An example whose label the others contradict."""

    place: int
    """Its place among the examples, from 0."""
    label: Any
    """What it is called."""
    likely: Any
    """What it looks like."""
    label_probability: float
    likely_probability: float


def suspicious_labels(
    held_out: HeldOut,
    class_indices: NDArray[np.int64],
    classes: Sequence[Any] | NDArray[Any],
    max_probability: float = MAX_PROBABILITY,
) -> list[SuspiciousLabel]:
    """List the labels that look wrong, the least probable first."""
    require(
        0 < max_probability <= 1,
        "max_probability",
        got=max_probability,
        allowed="a number above 0, up to 1",
    )
    labels = class_indices[held_out.places]
    own = held_out.probabilities[np.arange(len(labels)), labels]
    likely = held_out.probabilities.argmax(axis=1)
    chosen = np.flatnonzero((own < max_probability) & (likely != labels))
    return [
        SuspiciousLabel(
            place=int(held_out.places[each]),
            label=classes[labels[each]],
            likely=classes[likely[each]],
            label_probability=float(own[each]),
            likely_probability=float(held_out.probabilities[each, likely[each]]),
        )
        for each in chosen[np.argsort(own[chosen], kind="stable")]
    ]


class DoubtingEstimator(FittingEstimator):
    """What lets `TailClassifier` say how far its answers can be relied on."""

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
        if (X is None) == (log_proba is None):
            raise InvalidConfig(
                "it is not clear what is asked of predict_set",
                got="neither X nor log_proba" if X is None else "both X and log_proba",
                allowed="one of them",
            )
        check_coverage(coverage)  # before what takes long
        scores = self._fitted.held_out_scores
        if log_proba is not None:
            _check_isolated(self._fitted.settings.visibility)
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

        Every row whose class has another is left out and asked, as for `predict_set`
        (which asks some of a large support's only). Its label is
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
        held_out = self._fitted.held_out(calibration_folds(rows))
        return suspicious_labels(held_out, rows.class_indices, self.classes_, max_probability)


def _check_isolated(visibility: Visibility) -> None:
    """Refuse to make prediction sets of answers that depend on what else was asked."""
    if not visibility.isolates_queries:
        raise InvalidConfig(
            "prediction sets need answers to one row at a time",
            got=f"log_proba with visibility='{visibility}'",
            allowed="X, or log_proba with visibility='isolated'",
        )


def check_coverage(coverage: object, name: str = "coverage") -> None:
    """Refuse what is no number between 0 and 1."""
    if not isinstance(coverage, int | float | np.number) or not 0 < float(coverage) < 1:
        raise InvalidConfig(
            f"{name} is out of range",
            got=repr(coverage),
            allowed="a number between 0 and 1",
            remedy="Give the share of sets that shall hold the true class, such as 0.9.",
        )


def threshold(scores: NDArray[np.float64], coverage: float) -> float:
    """Return the largest score that a class in the set may have."""
    rank = math.ceil((len(scores) + 1) * coverage)
    return float(np.sort(scores)[rank - 1]) if rank <= len(scores) else math.inf


def prediction_sets(
    probabilities: NDArray[np.float64], scores: NDArray[np.float64], coverage: float
) -> NDArray[np.bool_]:
    """Choose the classes of each query: (m, K), (n,) -> (m, K).

    Without scores it is the most probable classes until their probabilities reach the coverage. The
    most probable class is always in.
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
