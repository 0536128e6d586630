"""What a fitted classifier says of its own answers: why they are as they are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from unitail.configuration import require
from unitail.estimator.answering import AnsweringEstimator
from unitail.estimator.influence import (
    Influence,
    above_mean,
    class_places,
    column_influence,
    column_spans,
    row_influence,
)
from unitail.inputs.examples import Examples


class ExplainingEstimator(AnsweringEstimator):
    """What lets `TailClassifier` say why."""

    cache: str | Path | bool
    _weightless: NDArray[np.int64]

    def influence(self, X: Examples, label: Any = None) -> Influence:  # noqa: ANN401
        """Say which labelled rows decided each answer, and by how much.

        What is taken apart is log p(label) less the mean of log p over all classes, of isolated
        answers, whatever `visibility` is. Of two labels, the difference of their values is what
        each row adds to the log of the odds. Exact for the regressions that the model starts from,
        by integrated gradients for what its blocks correct (`unitail.relational.influence`). A
        pool's rows have no labels: they are given, and what they change is in all values and in
        `base`. Where rows were averaged (a pool or several parts, beyond `max_support` rows), those
        of an average share alike in what it adds. It is
        not what would change if a row was left out; ranks correlate with that at 0.41 to 0.59, and
        the row that matters most is among the first three in 80 to 100 % (results/influence.md).

        Parameters
        ----------
        X : array-like of shape (m, n_features), or m items for the encoder
            What is asked.
        label : label or array-like of m labels, default=None
            The class to speak of; None: the most probable one of each row.

        Returns
        -------
        Influence
            With `values` (m, n) in the order of the rows of `fit` and `add`, above zero if a row
            speaks for the label, zero for rows of weight zero; those are not kept by `save`, after
            which the order is that of `kept_examples()`.
            `values.sum(axis=1) + base` is `score`. `shares` are parts of all that speaks for it,
            `top(3)` the places of the three strongest rows. No row decides what is said of an item
            that says nothing: its values are zero.

        """
        check_is_fitted(self)
        fitted, rows = self._fitted.isolated, self._validated(X)
        log_proba = self._answers(fitted, rows)
        places = class_places(self.classes_, label, log_proba)
        told, values = ~self._unknown(rows), np.zeros((len(rows), len(fitted.rows)))
        if told.any():
            values[told] = row_influence(fitted, rows[told], places[told])
        weightless = self._weightless  # rows that were given, but not read
        return Influence(
            labels=self.classes_[places],
            score=above_mean(log_proba, places),
            values=np.insert(values, weightless - np.arange(len(weightless)), 0, axis=1),
        )

    def column_influence(
        self,
        X: Examples,
        label: Any = None,  # noqa: ANN401
        *,
        n_walks: int = 32,
        columns: Mapping[str, slice] | None = None,
    ) -> Influence:
        """Say which columns decided each answer, and by how much.

        By permutation: the columns of a labelled row are exchanged for those asked, in random
        order, and the answer is watched (`unitail.estimator.influence`). So values sum to the
        difference between the score of what is asked and the mean score of the labelled rows that
        were drawn, which is `base`; they estimate Shapley's values.

        Parameters
        ----------
        X : array-like of shape (m, n_features), or a table for the encoder
            What is asked.
        label : label or array-like of m labels, default=None
            The class to speak of; None: the most probable one of each row.
        n_walks : int, default=32
            Orders that are averaged; time grows with it, and with the number of columns.
        columns : dict of str to slice, default=None
            Which coordinates of vectors belong to which column. None: as the encoder of a table
            has it; of vectors, each is a column.

        Returns
        -------
        Influence
            With `values` (m, n_columns) in the order of `names`.

        """
        check_is_fitted(self)
        require(n_walks >= 1, "n_walks", got=n_walks, allowed="1 or more")
        fitted, rows = self._fitted.isolated, self._validated(X)
        named = getattr(self, "feature_names_in_", None)
        spans = columns or column_spans(self._inputs, named, rows.shape[1])
        log_proba = self._answers(fitted, rows)
        places = class_places(self.classes_, label, log_proba)

        def score(asked: NDArray[Any], classes: NDArray[np.int64]) -> NDArray[np.float64]:
            return above_mean(self._answers(fitted, asked), classes)

        known = fitted.rows.features
        seed = fitted.settings.seed
        return Influence(
            labels=self.classes_[places],
            score=above_mean(log_proba, places),
            values=column_influence(score, rows, places, known, spans, n_walks, seed),
            names=tuple(spans),
        )
