"""TailClassifier: in-context learning behind scikit-learn's interface.

Everything that users call is here, with its documentation. What it rests on stands beside it: a
support that was read (`fitted`), `prediction_sets`, `novelty`, `influence`, `suspicious_labels`,
`saving`.
"""

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from unitail.answer_defaults import COVERAGE
from unitail.encoders.encoder import Encoder
from unitail.errors import InvalidConfig, InvalidInput, TableSizeWarning, require
from unitail.estimator.cost import Plan, Sizes, make_plan
from unitail.estimator.fitted import Fitted, KeptExamples
from unitail.estimator.influence import (
    Influence,
    above_mean,
    class_places,
    column_influence,
    column_spans,
    row_influence,
)
from unitail.estimator.prediction_sets import (
    SavedScores,
    calibration_folds,
    check_coverage,
    check_isolated,
    prediction_sets,
)
from unitail.estimator.rows import (
    Rows,
    check_expected,
    check_later_classes,
    check_places,
    check_same_kind,
    drawn_pool,
    encode_labels,
    plain_labels,
    weighted_rows,
)
from unitail.estimator.saving.folder import (
    SavedClassifier,
    check_parameters,
    load_classifier,
    load_errors,
    plain_parameters,
    save_classifier,
)
from unitail.estimator.scaling import Scale, Scales, for_parts, from_plain, plain, scale_after
from unitail.estimator.settings import Settings, class_weights, draw_seed
from unitail.estimator.support_size import MAX_SUPPORT
from unitail.estimator.suspicious_labels import MAX_PROBABILITY, SuspiciousLabel, suspicious_labels
from unitail.inputs.encode import (
    EncoderChoice,
    Examples,
    choose_encoder,
    no_numbers,
    vectors_of,
    vectors_of_asked,
)
from unitail.inputs.input_encoder import (
    AUTO,
    InputEncoder,
    ItemEncoder,
    MixedEncoder,
    describe_encoder,
    restore_encoder,
)
from unitail.learners.pretrained import DEFAULT
from unitail.nn.episode_model import AnyModel

Floats = NDArray[np.float64]
FLOATS = [np.float64, np.float32]
"""Taken as they are; others as the first."""
MAX_NUMBER = 1e300
"""Sums of some larger ones are infinite."""


class TailClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learn from a few labelled examples in one forward pass of a meta-trained model.

    `fit` shows the model the labelled rows; nothing is optimised. Vectors may come from anywhere
    and have any width and dtype; columns in units of their own are standardised (see `scale`).
    Missing values (NaN) are filled in, infinite ones refused; sparse matrices are written out. A
    constant column other than zeros moves all rows away from the origin, from which some angles are
    measured. With an `encoder` X may hold files, images, texts, sounds or a table.

    Parameters
    ----------
    model : str, Path or model, default="default"
        "default", "tail" or "tail-50w" for the models that come with the package, the folder of a
        model, or a model. "tail" is the paper's, for few classes, "tail-50w" for up to 50 and more.
    visibility : {"auto", "isolated", "joint", "causal"}, default="auto"
        Who sees whom. "isolated": every row is answered by itself, so an answer depends on the
        support and that row alone. "joint": all rows of one call see each other (transduction).
        Answers then depend on which rows are asked together: use it when you have the whole batch
        at hand, in which every class occurs, and few labels; not for single rows or streams. With
        two labels of a class or more, joint answers of "default" come the nearer to isolated ones
        the more labelled rows lie far from the mean of their class.
        "causal": a row sees those before it. "auto": as the model has it, "default" isolated,
        "tail" and "tail-50w" joint. What a model was not trained for is refused; these three were
        trained for both.
    class_shares : "balanced", array-like of shape (n_classes,) or None, default=None
        With "joint": how often the classes occur among the rows of a call, if that is known:
        "balanced", or a number for each class in the order of `classes_`, adding up to one.
        Answers then agree with it, which is worth some points; a wrong claim costs more.
    n_draws : int or None, default=None
        How many random draws are averaged, for models that are random. None: as the card of a
        shipped model says (8 for "tail" and "tail-50w"; the default model is not random), else 1.
    device : str, default="auto"
        "auto" (a CUDA device if there is one), "cpu", "cuda", ...
    random_state : int, RandomState or None, default=None
        Decides the draws and the reduction of large supports, both in `fit`.
    chunk_size : int or None, default=None
        How many isolated rows are answered at once; None is what fits into some hundred MB. It
        changes speed and memory, not answers.
    max_support : int or None, default=4000
        The most rows that the model relates to each other. Beyond 1,000 of them, of
        more than 256 classes, or of 131,072 rows times classes, isolated answers of the default
        model follow from regressions on all rows and blocks of some (`unitail.relational.large`);
        joint ones, those with a pool and of other models follow from cluster centres of each class
        (`unitail.estimator.support_size`), with the shares of the classes among all rows. None
        relates all, whatever the memory it takes.
    precision : {"auto", "single", "double"}, default="auto"
        The dtype of the computation; "auto" is double for supports of up to 256 rows. In double
        precision the order of rows, and which are asked together, change nothing; in single
        precision they move probabilities by about 1e-5.
    encoder : str, Encoder, dict or None, default=None
        What makes vectors of X. None: X holds vectors. "auto": by what X holds in `fit`: paths (or
        their names) go by suffix, other strings are texts, PIL images and arrays of pixels (uint8,
        or three-dimensional) images, pairs (samples, rate) sounds, a DataFrame is a table, encoded
        by the rows of `fit` (columns of texts or paths by the encoders of these), other arrays are
        vectors. Else an encoder's name ("minilm"), a model's hub id or folder, an `Encoder`, or for
        some columns of a table {column: name, "text", "image", "audio", "table" or "skip"}.
        Unreadable items raise `Unreadable`. What is asked and says nothing (an empty text, None) is
        answered by the classes' shares in the support, with a `BlankWarning`.
    scale : {"auto", "none", "standard", "table"} or a sequence of them, default="auto"
        What is done to the columns of vectors. "standard": each is brought to mean 0 and deviation
        1 by the support's rows, ended at ten deviations; what is missing becomes the median, and a
        column of its own says so if the support has such. "table": then each also gets steps at its
        quantiles, and a weight by what it says about the classes (`unitail.encoders.table_view`).
        "none": only what is missing is filled in. "auto": "table" for data frames that an `encoder`
        reads and for what looks like a table by `unitail.estimator.scaling`: few columns carry all
        distances and spreads differ by much, or values are missing, or at most 8 columns have 20
        rows a class; else "none".
    parts : sequence of int or None, default=None
        For vectors of several encoders side by side: the columns of each, in their order. Each part
        answers by itself and answers multiply (`unitail.learners.parts`), so that one that says
        nothing does little harm. `scale` is then "none" by default, or one for each part, such as
        ["none", "table"] for vectors beside columns of numbers. None: of a table with columns of
        texts or paths, what each encoder made; else all columns are one part.
    class_prior : "balanced", array-like of shape (n_classes,) or None, default=None
        How often the classes occur among what is asked. None: as in the support. Else "balanced",
        or a number for each class, adding up to one: p(k | x) becomes p(k | x) prior(k) / share(k),
        normalised, where share(k) is that of the rows that the model read (Bayes' rule). Use it
        where the support's shares are an accident of labelling, or a rare class matters.
    class_weight : "balanced", dict of label to float or None, default=None
        What each class counts, as scikit-learn has it: probabilities are multiplied by it and
        normalised, which by Bayes' rule is a `class_prior` of that times the shares in the support.
        "balanced" is n / (n_classes * rows of the class): the balanced prior, so that a class of
        few rows is not drowned. Classes that are not named count 1.
    cache : "auto", bool, str or Path, default="auto"
        Where vectors that an encoder made are kept, so that equal items are encoded once. "auto":
        in the user's cache (see `unitail cache`), but a single item is only looked up, since to
        keep it would double the time of an answer. True: single items, too. False: nothing is
        looked up or kept. Else a folder.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    visibility_ : str
        Who sees whom: what "auto" came to.
    scaled_ : bool
        Whether columns are standardised: what `scale` came to in `fit`; `add` keeps to it.
    dropped_columns_ : dict of str to str
        Columns of a table that are not used, and why; `fit` warns of them (`ColumnWarning`).
    n_features_in_ : int
        The width of vectors.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        The names of columns, if X was a DataFrame.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from unitail import TailClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> classifier = TailClassifier(device="cpu").fit(X[:30], y[:30])
    >>> classifier.predict(X[100:104]).tolist()
    [4, 0, 5, 3]
    >>> classifier.predict_proba(X[100:104]).max(axis=1).round(2).tolist()
    [1.0, 0.96, 0.99, 0.53]

    """

    _fitted: Fitted
    _inputs: InputEncoder | None
    """What makes vectors of X; None where X holds vectors."""
    _weightless: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    """Places among the rows of `fit` and `add` of those that have no weight, and are not kept."""

    def __init__(
        self,
        model: str | Path | AnyModel = DEFAULT,
        *,
        visibility: str = "auto",
        class_shares: str | ArrayLike | None = None,
        n_draws: int | None = None,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        chunk_size: int | None = None,
        max_support: int | None = MAX_SUPPORT,
        precision: str = "auto",
        encoder: EncoderChoice = None,
        scale: str | Sequence[str] = "auto",
        parts: Sequence[int] | None = None,
        class_prior: str | ArrayLike | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        cache: str | Path | bool = "auto",
    ) -> None:
        self.model = model
        self.visibility = visibility
        self.class_shares = class_shares
        self.n_draws = n_draws
        self.device = device
        self.random_state = random_state
        self.chunk_size = chunk_size
        self.max_support = max_support
        self.precision = precision
        self.encoder = encoder
        self.scale = scale
        self.parts = parts
        self.class_prior = class_prior
        self.class_weight = class_weight
        self.cache = cache

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
        features, labels = checked(self, vectors, y, dtype=np.float64, order="C", copy=True)
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
        for note in self._fitted.size_notes:
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
                check_later_classes(given, expected, self.classes_)
            expected = given
        if expected is not None:
            check_expected(expected, np.asarray(plain_labels(y)))
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
        gone = check_places(places, len(given))
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

    def plan(
        self,
        n_support: int,
        n_classes: int,
        n_queries: int,
        n_features: int | None = None,
        n_pool: int = 0,
    ) -> Plan:
        """Estimate memory and time of a fit and a prediction of these sizes, without running them.

        Without `n_features`, the width is that of the last fit, or 1024.
        """
        width = getattr(self, "n_features_in_", 1024) if n_features is None else n_features
        sizes = Sizes(
            support=n_support, classes=n_classes, queries=n_queries, width=width, pool=n_pool
        )
        return make_plan(Settings.of(self, seed=0), sizes)

    def save(self, path: Path | str, *, calibrate: bool = True) -> Path:
        """Write the fitted classifier to a folder, without pickle.

        The folder holds all rows, and the model unless it is the shipped one, which is referred to
        by hash, as is the encoder; a card, README.md, says what it is. Labels may be strings,
        numbers and booleans.

        Parameters
        ----------
        path : Path or str
            A new or empty folder, or one with a classifier to replace.
        calibrate : bool, default=True
            Whether to save what `predict_set` needs, too. If it was not called yet, that takes some
            seconds for 1,000 rows, now rather than after every load.

        Returns
        -------
        Path
            The folder.

        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        saved = SavedClassifier(
            rows=self._fitted.rows,
            classes=self.classes_,
            seed=self._fitted.settings.seed,
            parameters=plain_parameters(self._learned_with),
            feature_names=None if names is None else list(names),
            model=self._fitted.settings.model,
            inputs=describe_encoder(self._inputs),
            scale=plain(self._fitted.settings.scale),
            pool=self._fitted.pool,
            saved_scores=self._fitted.scores_to_save() if calibrate else None,
            expected=getattr(self, "_expected", None),
        )
        return save_classifier(saved, Path(path))

    @classmethod
    def load(
        cls,
        path: Path | str,
        *,
        device: str | None = None,
        encoder: Encoder[Any] | None = None,
        visibility: str | None = None,
        class_shares: str | ArrayLike | None = None,
    ) -> Self:
        """Read a classifier that `save` wrote.

        Parameters
        ----------
        path : Path or str
            The folder.
        device : str, default=None
            In place of the one that it was fitted on.
        encoder : Encoder, default=None
            One of your own, which cannot be made again by its name.
        visibility : str, default=None
            In place of the one that it was fitted with.
        class_shares : "balanced" or array-like, default=None
            In place of those that it was fitted with.

        Returns
        -------
        TailClassifier
            It answers as the saved one did.

        """
        saved = load_classifier(Path(path))
        asked = {
            "device": device,
            "encoder": encoder,
            "visibility": visibility,
            "class_shares": class_shares,
        }
        changes = {name: value for name, value in asked.items() if value is not None}
        check_parameters(Path(path), saved.parameters, cls._get_param_names())
        with load_errors(Path(path)):
            classifier = cls(saved.model, **{**saved.parameters, **changes})
            inputs = restore_encoder(saved.inputs, encoder, classifier.device)
            classifier.n_features_in_ = saved.rows.features.shape[1]
            if saved.feature_names is not None:
                classifier.feature_names_in_ = np.array(saved.feature_names, dtype=object)
            scale = from_plain(saved.scale)
            loaded: Self = classifier._learn(
                saved.rows, saved.classes, saved.seed, inputs, scale, saved.pool, saved.saved_scores
            )
            loaded._expected = saved.expected
        return loaded

    def with_encoder(self, encoder: InputEncoder | None) -> Self:
        """Return the same classifier for what this encoder makes vectors of; None is vectors.

        Its `scale` is then the one that a fit with the encoder, or on the vectors, comes to again.
        """
        check_is_fitted(self)
        other = copy.copy(self)
        other._inputs = encoder
        named = isinstance(encoder, ItemEncoder)
        other.encoder = None if encoder is None else encoder.name if named else AUTO
        scale = self._fitted.settings.scale
        other.scale = plain(Scale.AUTO if scale == scale_after(Scale.AUTO, encoder) else scale)
        other.parts = self._fitted.settings.parts if encoder is None else None
        changed = {"encoder": other.encoder, "scale": other.scale, "parts": other.parts}
        other._learned_with = {**self._learned_with, **changed}
        return other

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what X may hold."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        return tags

    def _vectors(self, encoder: InputEncoder | None, X: Examples) -> Any:  # noqa: ANN401
        """Return X as vectors, or as what scikit-learn makes them of; arrays are taken as is."""
        is_array = encoder is None and type(X) is np.ndarray
        return X if is_array else vectors_of(encoder, X, self.cache)

    def _validated(self, X: Examples | None) -> NDArray[Any]:
        is_array = self._inputs is None and type(X) is np.ndarray
        vectors = X if is_array else vectors_of_asked(self._inputs, X, self.cache)
        vectors = checked(self, vectors, dtype=FLOATS, reset=False)
        return np.require(vectors, requirements=["C", "W"])  # unlike a data frame's columns

    def _pool(self, pool: Examples, inputs: InputEncoder | None, seed: int) -> NDArray[np.float64]:
        """Return the vectors of unlabelled rows, or of some that are drawn."""
        vectors = self._vectors(inputs, pool)
        return drawn_pool(checked(self, vectors, dtype=FLOATS, reset=False), seed)

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

    def _add(
        self, X: Examples, y: ArrayLike, sample_weight: ArrayLike | None, scale: Scales | None
    ) -> Self:
        """Take rows in; a `scale` of None is chosen anew, as a fit on all rows would."""
        vectors = self._vectors(self._inputs, X)
        features, labels = checked(self, vectors, y, dtype=np.float64, reset=False)
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

    def _answers(self, fitted: Fitted, rows: NDArray[Any]) -> Floats:
        """Ask for rows (m, d_T) that say something; others have shares, and no say: (m, K)."""
        told = ~self._unknown(rows)
        if told.all():
            return fitted.log_probabilities(rows)
        answers = np.tile(fitted.log_shares, (len(rows), 1))
        if told.any():
            answers[told] = fitted.log_probabilities(rows[told])
        return answers

    def _unknown(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Tell which rows are of items that say nothing; see `vectors_of_asked`."""
        if self._inputs is None:  # what is missing from vectors of the user's own is filled in
            return np.zeros(len(rows), dtype=bool)
        return np.asarray(np.isnan(rows).all(axis=1))


def checked(estimator: BaseEstimator, vectors: Any, *labels: Any, **options: Any) -> Any:  # noqa: ANN401
    """Return vectors, and labels, that are checked; what is missing is filled in later."""
    data = vectors, *map(plain_labels, labels)
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # of sums that look for infinity
            valid = validate_data(estimator, *data, ensure_all_finite="allow-nan", **options)
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


@cache
def parameter_names(kind: type[BaseEstimator]) -> tuple[str, ...]:
    """Return the names of an estimator's parameters, which are read off its signature, once."""
    return tuple(kind._get_param_names())
