"""TailClassifier: in-context learning behind scikit-learn's interface.

Every method that users call is here, with its documentation. The work is done by the modules next
to this one: `fitted` (a support that the model has read), `prediction_sets`, `novelty`,
`influence`, `suspicious_labels` and `saving`.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from unitail.answer_defaults import COVERAGE
from unitail.encoders.encoder import Encoder
from unitail.errors import InvalidInput, TableSizeWarning, warn_user
from unitail.estimator.cost import Plan, Sizes, make_plan
from unitail.estimator.fitted import Fitted, KeptExamples, read_only
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
    checked_log_proba,
    prediction_sets,
)
from unitail.estimator.rows import (
    Rows,
    check_expected,
    check_later_classes,
    drawn_pool,
    fewer_rows,
    more_rows,
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
from unitail.estimator.settings import (
    MAX_SUPPORT,
    Settings,
    checked_count,
    draw_seed,
    parameters_of,
    unchanged_on_error,
)
from unitail.estimator.suspicious_labels import (
    MAX_PROBABILITY,
    SuspiciousLabel,
    check_max_probability,
    suspicious_labels,
)
from unitail.inputs.conversion import not_numeric
from unitail.inputs.encode import (
    EncoderChoice,
    Examples,
    choose_encoder,
    vectors_of,
    vectors_of_queries,
)
from unitail.inputs.input_encoder import (
    AUTO,
    InputEncoder,
    ItemEncoder,
    describe_encoder,
    restore_encoder,
)
from unitail.learners.pretrained import DEFAULT
from unitail.nn.episode_model import AnyModel

Floats = NDArray[np.float64]
FLOATS = [np.float64, np.float32]
"""Dtypes that are kept; any other is converted to the first."""
MAX_NUMBER = 1e300
"""Largest absolute value allowed in X; sums of larger values may overflow."""


class TailClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify from a few labelled examples, in one forward pass of a meta-trained model.

    `fit` shows the model the labelled rows (the support); no weights are updated. Vectors may come
    from anywhere and have any width and dtype; columns with units of their own are standardised
    (see `scale`). Missing values (NaN) are imputed, infinite ones are refused, and sparse matrices
    are made dense. With an `encoder`, X may hold files, images, texts, sounds or a table.

    Parameters
    ----------
    model : str, Path or model, default="default"
        "default", "tail" or "tail-50w" for the models that come with the package, the folder of a
        saved model, or a model object. "tail" is the paper's model, for few classes; "tail-50w" is
        for up to 50 classes and more.
    visibility : {"auto", "isolated", "joint", "causal"}, default="auto"
        Which other queries the model may look at when it answers one. "isolated": none, so a
        prediction depends on the support and that row alone. "joint": all rows of the same call
        (transductive inference), so predictions depend on which rows are passed together. Use it
        when the whole batch is at hand, every class occurs in it, and labels are few; not for
        single rows or streams. With two or more labels per class, joint predictions of "default"
        approach the isolated ones as more of the labelled rows lie far from their class mean.
        "causal": the rows before it. "auto": the model's own mode, which is "isolated" for
        "default" and "joint" for "tail" and "tail-50w". A mode that the model was not trained for
        is refused; these three models were trained for both "isolated" and "joint".
    class_shares : "balanced", array-like of shape (n_classes,) or None, default=None
        For "joint": how often each class occurs among the rows of one call, if that is known.
        "balanced", or one number per class in the order of `classes_`, summing to one. Predictions
        are adjusted to agree with it. This gains some points of accuracy if the shares are right,
        and costs more than that if they are wrong.
    n_draws : int or None, default=None
        Number of random draws to average over, for randomised models. None: the number on the
        card of a shipped model (8 for "tail" and "tail-50w"; the default model is not random),
        otherwise 1.
    device : str, default="auto"
        "auto" (a CUDA device if there is one), "cpu", "cuda", ...
    random_state : int, RandomState or None, default=None
        Seeds the random draws and the reduction of large supports, both of which happen in `fit`.
    chunk_size : int or None, default=None
        Number of isolated rows to process at once; None takes as many as fit into a few hundred
        MB. It affects speed and memory, not predictions.
    max_support : int or None, default=4000
        Largest number of labelled rows that the model compares with one another; this takes memory
        quadratic in their number. For isolated predictions of the default model, supports of more
        than 1,000 rows (or `max_support`, if smaller), of more than 256 classes, or of more than
        131,072 rows times classes are read by regressions on all rows and blocks of some
        (`unitail.relational.large`). Joint predictions, a pool, `parts` and other models use
        cluster centres of each class instead of its rows (`unitail.estimator.fitted`), and keep the
        class shares of all rows. None compares all rows, whatever memory that takes.
    precision : {"auto", "single", "double"}, default="auto"
        Dtype of the computation; "auto" is double for up to 256 rows, those of a pool included. In
        double precision, the order of rows and which rows are passed together do not change
        predictions; in single precision they change probabilities by about 1e-5, and by up to 1e-4
        where supports have a thousand rows or more.
    encoder : str, Encoder, dict or None, default=None
        How the items in X become vectors. None: X already holds vectors. "auto": decided by what X
        holds in `fit`. Paths (or strings that name files) are encoded by file suffix; other strings
        are texts; PIL images and arrays of pixels (uint8, or three-dimensional) are images; pairs
        (samples, rate) are sounds; a DataFrame is a table, whose encoding is learned from the rows
        of `fit` (columns of texts or paths use the encoders of these); other arrays are vectors.
        Otherwise the name of an encoder ("minilm"), a model's hub id or folder, an `Encoder`, or,
        for some columns of a table, {column: name, "text", "image", "audio", "table" or "skip"}.
        Items that cannot be decoded raise `Unreadable`. Blank queries (an empty text, None) get
        the class shares of the support, with a `BlankWarning`.
    scale : {"auto", "none", "standard", "table", "columns"} or a sequence of them, default="auto"
        How the columns of vectors are preprocessed. "standard": each is scaled to mean 0 and
        standard deviation 1 over the support, and clipped at ten deviations. Missing values become
        the median; a column with missing values in the support gets an indicator column. "table":
        like "standard", and each column also gets steps at its quantiles, and a weight by its
        information about the classes (`unitail.encoders.table_view`). "columns": only the steps and
        weights of "table", for vectors that the encoder of a table has made. "none": only missing
        values are imputed; a constant column that is not zero then shifts all rows away from the
        origin, from which the model measures some angles. "auto": "table" for data frames read by
        an `encoder`, and for arrays that look like a table (`unitail.estimator.scaling`): few
        columns carry all distances and their spreads differ by much, or values are missing, or
        there are at most 8 columns and at least 20 rows per class. Otherwise "none".
    parts : sequence of int or None, default=None
        For vectors that several encoders made, side by side: the number of columns of each, in
        order. Each part is classified on its own and the predictions are multiplied
        (`unitail.learners.parts`), so a part without information does little harm. `scale` then
        defaults to "none", or is given for each part, such as ["none", "table"] for vectors next
        to numeric columns. None: for a table with columns of texts or paths, one part for each
        encoder; otherwise all columns are one part.
    class_prior : "balanced", array-like of shape (n_classes,) or None, default=None
        How often each class occurs among the queries. None: as often as in the support. Otherwise
        "balanced", or one number per class, summing to one: p(k | x) becomes
        p(k | x) prior(k) / share(k), normalised, where share(k) is the share of class k among the
        rows that the model read (Bayes' rule). Use it if the class shares of the support are an
        accident of labelling, or if a rare class matters.
    class_weight : "balanced", dict of label to float or None, default=None
        Weight of each class, as in scikit-learn: probabilities are multiplied by it and
        normalised. By Bayes' rule this is a `class_prior` proportional to the weight times the
        class's share of the support. "balanced" is n / (n_classes * rows of the class), which is
        the balanced prior: classes of few rows are not drowned out. Classes that are not named have
        weight 1; labels that no row has are ignored, with a `WeightWarning`.
    cache : "auto", bool, str or Path, default="auto"
        Where the vectors that an encoder makes are cached, so equal items are encoded only once.
        "auto": in the user's cache (see `unitail cache`); a single item is looked up but not
        stored, since storing it would double the response time. True: single items are stored, too.
        False: nothing is looked up or stored. Otherwise a folder.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.
    visibility_ : str
        The visibility in use, with "auto" resolved.
    fitted_ : Fitted
        The support as the model has read it, for extensions (`unitail.estimator.fitted`); not part
        of the stable interface.
    scaled_ : bool
        Whether columns are standardised: what `scale` was resolved to in `fit`. `add` keeps it.
    dropped_columns_ : dict of str to str
        Columns of a table that are not used, with the reasons; `fit` warns about them
        (`ColumnWarning`).
    n_features_in_ : int
        Width of the vectors.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names, if X was a DataFrame.

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

    fitted_: Fitted
    _inputs: InputEncoder | None
    """Turns items into vectors; None if X holds vectors."""
    _expected: NDArray[Any] | None = None
    """The `classes` given to `partial_fit`, sorted; None: any label may occur."""

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
        """Fit the classifier: the model reads the labelled rows.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or n items for the encoder
            The labelled rows: vectors of any dtype, or files, images, texts, sounds or a table.
        y : array-like of shape (n,)
            Labels of two or more classes: strings, numbers or booleans.
        sample_weight : array-like of shape (n,), default=None
            How often each row counts. An integer counts as exactly that many copies of the row in
            predictions; zero leaves it out. Prediction sets are calibrated with one score for each
            row, however much it counts: all of its copies are left out at once, whereas of equal
            rows in X one is left out while another answers for it. Novelty counts each row once,
            too. Other weights are turned into whole numbers of copies: the smallest weight becomes
            as few copies, ten at most, as keep all ratios within 5 %, so (1, 1.5) becomes (2, 3).
            The copies are limited to 10,000, or twice the rows of X if that is more. Beyond that
            limit, weights are rounded so as to make at most 1,000 copies, or twice the rows of X if
            that is more, with a `WeightWarning`.
        pool : array-like of shape (u, n_features), or u items for the encoder, default=None
            Unlabelled rows that resemble the queries to come; for isolated predictions of models
            that take a pool, as the default model does. The pool is read once, with the labelled
            rows. Predictions gain most of what "joint" gains, yet none depends on the other
            queries. From a pool of more than 1,000 rows, 1,000 are drawn at random.

        Returns
        -------
        TailClassifier
            The classifier itself.

        """
        with unchanged_on_error(self):
            # 1. Encode items, after a look at the labels: encoding may take long.
            inputs = None
            if self.encoder is not None:
                check_consistent_length(X, y)
                inputs = choose_encoder(self.encoder, X, self.device)
            vectors = self._vectors(inputs, X)
            # 2. Validate; rows are kept in double precision, so their dtype makes no difference.
            features, labels = checked(self, vectors, y, dtype=np.float64, order="C", copy=True)
            # 3. Number the classes; leave out rows of weight zero.
            rows, classes = weighted_rows(features, labels, sample_weight)
            # 4. Let the model read the rows and the pool, with this fit's own draws.
            seed = draw_seed(self.random_state)
            drawn = None if pool is None else self._pool(pool, inputs, seed)
            self._learn(rows, classes, seed, inputs, None, drawn)
        self._expected = None
        # 5. Warn if another method is likely to be better.
        for note in self.fitted_.size_notes:
            warn_user(f"{note}.", TableSizeWarning)
        return self

    def predict(self, X: Examples) -> NDArray[Any]:
        """Return the most probable label of each row.

        Parameters
        ----------
        X : array-like of shape (m, n_features), or m items for the encoder
            The queries.

        Returns
        -------
        ndarray of shape (m,)
            Predicted labels, with the dtype of `classes_`.

        """
        chosen = self.predict_log_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    def predict_proba(self, X: Examples) -> Floats:
        """Return the probability of each class for each row.

        Parameters
        ----------
        X : array-like of shape (m, n_features), or m items for the encoder
            The queries.

        Returns
        -------
        ndarray of shape (m, n_classes)
            Probabilities, in the order of `classes_`.

        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Examples) -> Floats:
        """Return the logarithm of `predict_proba`.

        Parameters
        ----------
        X : array-like of shape (m, n_features), or m items for the encoder
            The queries.

        Returns
        -------
        ndarray of shape (m, n_classes)
            Log-probabilities, in the order of `classes_`.

        """
        check_is_fitted(self)
        return self._log_probabilities(self.fitted_, self._validated(X))

    def predict_set(
        self,
        X: Examples,
        coverage: float = COVERAGE,
        *,
        log_proba: ArrayLike | None = None,
    ) -> NDArray[np.bool_]:
        """Return a set of classes for each row that holds the true one with probability `coverage`.

        The sets are conformal: support rows are held out and classified, which shows how probable a
        class must be to enter a set. The guarantee holds on average over supports and over rows
        drawn like the support's, not for each class. With too few rows to guarantee more, sets hold
        all classes: a coverage of 0.9 needs nine rows. If no class has two rows, the model's own
        probabilities decide. The most probable class is always included. Rows are classified in
        isolation, whatever `visibility` is.

        Parameters
        ----------
        X : array-like of shape (m, n_features), or m items for the encoder
            The queries.
        coverage : float, default=0.9
            Probability that a set holds the true class, between 0 and 1.
        log_proba : ndarray of shape (m, n_classes), default=None
            What `predict_log_proba(X)` returned, if that was called already. Isolated predictions
            are then not computed again; where predictions are joint, the predicted class of each
            row is added to its set.

        Returns
        -------
        ndarray of shape (m, n_classes)
            True for each class in the set, in the order of `classes_`; `set_labels` turns the sets
            into labels. The set of a blank item holds all classes.

        """
        check_is_fitted(self)
        check_coverage(coverage)  # before the slow part
        fitted, rows, answers = self.fitted_, self._validated(X), None
        if log_proba is not None:
            answers = checked_log_proba(log_proba, (len(rows), len(self.classes_)))
        if answers is None or not fitted.settings.visibility.isolates_queries:
            isolated = self._log_probabilities(fitted.isolated, rows)
        else:
            isolated = answers
        sets = prediction_sets(np.exp(isolated), fitted.held_out_scores, coverage)
        if answers is not None:  # a joint prediction may be another class
            sets[np.arange(len(sets)), answers.argmax(axis=1)] = True
        sets[self._is_blank(rows)] = True  # no class can be ruled out
        return sets

    def set_labels(self, sets: NDArray[np.bool_]) -> list[NDArray[Any]]:
        """Return the labels in each prediction set.

        Parameters
        ----------
        sets : ndarray of shape (m, n_classes)
            The sets, as `predict_set` returns them.

        Returns
        -------
        list of m ndarrays
            The labels in each set, in the order of `classes_`.

        """
        check_is_fitted(self)
        return [self.classes_[member] for member in sets]

    def novelty(self, X: Examples) -> Floats:
        """Return how unlike all of the classes each row looks, from 0 to 1 (most novel).

        Novelty is the quantile of a row's strangeness among the support's own rows: at 0.95, about
        one in twenty rows of the known classes is as strange. It is computed from distances alone,
        without the model; see `unitail.estimator.novelty`.

        Parameters
        ----------
        X : array-like of shape (m, n_features), or m items for the encoder
            The queries.

        Returns
        -------
        ndarray of shape (m,)
            Novelty of each row.

        """
        check_is_fitted(self)
        fitted, rows = self.fitted_, self._validated(X)
        novelty: Floats = fitted.novelty(fitted.scaling(rows))
        novelty[self._is_blank(rows)] = 1.0  # a blank item looks like no class
        return novelty

    def influence(self, X: Examples, label: Any = None) -> Influence:  # noqa: ANN401
        """Return how much each labelled row contributed to each prediction.

        The score that is decomposed is log p(label) minus the mean of log p over all classes, of
        isolated predictions, whatever `visibility` is. The difference between the values for two
        labels is what each row adds to their log-odds. The decomposition is exact for the
        regressions that the model starts from, and uses integrated gradients for the corrections
        by its blocks (`unitail.relational.influence`). Rows of a pool have no labels: they are
        taken as given, and their effect is part of all values and of `base`. Where cluster centres
        were read in place of rows (with a pool or several parts, beyond `max_support` rows), the
        rows of a cluster share its contribution equally.

        The values are not what would change if a row were left out. Their ranks correlate with that
        at 0.41 to 0.59, and the row with the largest such change is among the top three in 80 to
        100 % of the cases (results/influence.md).

        Parameters
        ----------
        X : array-like of shape (m, n_features), or m items for the encoder
            The queries.
        label : label or array-like of m labels, default=None
            The class whose score is explained; None: the most probable one of each row.

        Returns
        -------
        Influence
            With `values` (m, n) in the order of the rows of `fit` and `add`: positive if a row
            supports the label, zero for rows of weight zero.
            `values.sum(axis=1) + base` equals `score`. `shares` are each row's share of all
            positive values, and `top(3)` gives the places of the three strongest rows. The values
            for a blank query are zero, as no row decides its prediction.

        """
        check_is_fitted(self)
        fitted, rows = self.fitted_.isolated, self._validated(X)
        log_proba = self._log_probabilities(fitted, rows)
        places = class_places(self.classes_, label, log_proba)
        mask = ~self._is_blank(rows)
        values = np.zeros((len(rows), fitted.rows.num_given))
        if mask.any():
            chosen = np.ix_(mask, fitted.rows.places)
            values[chosen] = row_influence(fitted, rows[mask], places[mask])
        score = above_mean(log_proba, places)
        return Influence(labels=self.classes_[places], score=score, values=values)

    def column_influence(
        self,
        X: Examples,
        label: Any = None,  # noqa: ANN401
        *,
        n_walks: int = 32,
        columns: Mapping[str, slice] | None = None,
    ) -> Influence:
        """Return how much each column contributed to each prediction.

        By permutation: starting from a labelled row, columns are replaced by the query's in random
        order, and the change of the score at each step is recorded
        (`unitail.estimator.influence`). The values sum to the difference between the query's score
        and the mean score of the labelled rows that were drawn, which is `base`; they estimate
        Shapley values.

        Parameters
        ----------
        X : array-like of shape (m, n_features), or a table for the encoder
            The queries.
        label : label or array-like of m labels, default=None
            The class whose score is explained; None: the most probable one of each row.
        n_walks : int, default=32
            Number of random orders to average over; time is proportional to it, and grows with the
            number of columns.
        columns : dict of str to slice, default=None
            Which coordinates of the vectors belong to each column. None: taken from the encoder of
            a table; for vectors, each coordinate is a column.

        Returns
        -------
        Influence
            With `values` (m, n_columns) in the order of `names`.

        """
        check_is_fitted(self)
        n_walks = checked_count(n_walks, "n_walks")
        fitted, rows = self.fitted_.isolated, self._validated(X)
        named = getattr(self, "feature_names_in_", None)
        spans = columns or column_spans(self._inputs, named, rows.shape[1])
        log_proba = self._log_probabilities(fitted, rows)
        places = class_places(self.classes_, label, log_proba)

        def score(queries: NDArray[Any], classes: NDArray[np.int64]) -> NDArray[np.float64]:
            return above_mean(self._log_probabilities(fitted, queries), classes)

        starts, seed = fitted.rows.features, fitted.settings.seed
        return Influence(
            labels=self.classes_[places],
            score=above_mean(log_proba, places),
            values=column_influence(score, rows, places, starts, spans, n_walks, seed),
            names=tuple(spans),
        )

    def flag_labels(self, max_probability: float = MAX_PROBABILITY) -> list[SuspiciousLabel]:
        """List the labels of the support that look wrong.

        Every row whose class has another row is held out and classified, as for `predict_set`
        (which holds out only some rows of a large support). Its label is listed if another class is
        more probable and the label itself is improbable. If one label in twenty is wrong, about
        three in four of those listed are wrong (results/label_noise.md), fewer if classes are
        similar: check them before you drop them.

        Parameters
        ----------
        max_probability : float, default=0.05
            Only labels less probable than this are listed.

        Returns
        -------
        list of SuspiciousLabel
            With `place` (the index of the row, as `remove` and `influence` count), `label`,
            `likely` (the more probable class) and the probabilities of both; the least probable
            label comes first.

        """
        check_is_fitted(self)
        check_max_probability(max_probability)  # before the slow part
        rows = self.fitted_.rows
        held_out = self.fitted_.held_out(calibration_folds(rows))
        flagged = suspicious_labels(held_out, rows.class_indices, self.classes_, max_probability)
        return [replace(each, place=int(rows.places[each.place])) for each in flagged]

    def add(self, X: Examples, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add labelled rows, of known or new classes; the result equals a fit on all rows.

        Earlier rows were kept. The whole support is read again, since how the model represents a
        row depends on all others. The random draws, the pool, the resolved `scale` and the encoding
        of a table do not change.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or n items for the encoder
            The new rows.
        y : array-like of shape (n,)
            Their labels, of the same kind (strings, numbers or booleans) as before.
        sample_weight : array-like of shape (n,), default=None
            How often each row counts, as in `fit`.

        Returns
        -------
        TailClassifier
            The classifier itself.

        """
        check_is_fitted(self)
        return self._add(X, y, sample_weight, self.fitted_.settings.scale)

    def partial_fit(
        self,
        X: Examples,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn incrementally: the first call is a `fit`, later ones re-read all rows so far.

        After any number of calls the result equals a fit on all rows together, with `scale` chosen
        for all of them; only the encoding of a table stays that of the first call. There are no
        classes without rows: `classes_` holds those seen so far, and the first call needs two.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or n items for the encoder
            The labelled rows of this call.
        y : array-like of shape (n,)
            Their labels.
        classes : array-like, default=None
            All labels that may ever occur, given at the first call, as in scikit-learn; any other
            label is then refused. Later calls may repeat the list, or give it if no earlier call
            did. None: any label may occur.
        sample_weight : array-like of shape (n,), default=None
            How often each row counts, as in `fit`.

        Returns
        -------
        TailClassifier
            The classifier itself.

        """
        first = not hasattr(self, "fitted_")
        expected = None if first else self._expected
        if classes is not None:
            named = np.unique(np.asarray(plain_labels(classes)))
            if not first:
                check_later_classes(named, expected, self.classes_)
            expected = named
        if expected is not None:
            check_expected(expected, np.asarray(plain_labels(y)))
        learned = self.fit(X, y, sample_weight) if first else self._add(X, y, sample_weight, None)
        self._expected = expected
        return learned

    def remove(self, places: ArrayLike) -> Self:
        """Remove labelled rows; the result equals a fit on the remaining ones.

        The random draws, the pool, the resolved `scale` and the encoding of a table do not change,
        as with `add`. A class that loses all its rows is dropped.

        Parameters
        ----------
        places : array-like of int
            Indices of the rows in the order they were passed to `fit` and `add`, as `influence`
            counts them, from 0. Rows of weight zero are counted, too.

        Returns
        -------
        TailClassifier
            The classifier itself.

        """
        check_is_fitted(self)
        fitted = self.fitted_
        rows, classes = fewer_rows(fitted.rows, self.classes_, places)
        scale = fitted.settings.scale
        return self._learn(rows, classes, fitted.settings.seed, self._inputs, scale, fitted.pool)

    def add_pool(self, X: Examples) -> Self:
        """Add unlabelled rows to the pool; the result equals a fit with the whole pool.

        Parameters
        ----------
        X : array-like of shape (u, n_features), or u items for the encoder
            Unlabelled rows that resemble the queries to come.

        Returns
        -------
        TailClassifier
            The classifier itself.

        """
        check_is_fitted(self)
        fitted, seed = self.fitted_, self.fitted_.settings.seed
        pool = self._pool(X, self._inputs, seed)
        if fitted.pool is not None:
            pool = drawn_pool(np.concatenate([fitted.pool, pool]), seed)
        scale = fitted.settings.scale
        return self._learn(fitted.rows, self.classes_, seed, self._inputs, scale, pool)

    def calibrate_on(self, representative: ArrayLike) -> Self:
        """Calibrate prediction sets and novelty on some of the labelled rows only.

        Use it if other rows are easier to classify than the queries to come. If too few rows
        remain, all rows calibrate. Rows added or removed later calibrate as usual.

        Parameters
        ----------
        representative : array-like of bool of shape (n,)
            True for each row that resembles the queries, in the order of `kept_examples()`.

        Returns
        -------
        TailClassifier
            The classifier itself.

        """
        check_is_fitted(self)
        mask, count = np.asarray(representative), len(self.fitted_.rows)
        if mask.dtype != np.bool_ or mask.shape != (count,):
            raise InvalidInput(
                "what calibrates is not a mask of the labelled rows",
                got=f"an array of {mask.dtype} of shape {mask.shape}",
                allowed=f"{count} booleans, one for each row of kept_examples()",
            )
        self.fitted_ = self.fitted_.calibrated_on(mask)
        return self

    def kept_examples(self) -> KeptExamples:
        """Return the vectors and labels that the fitted classifier keeps of its examples.

        The arrays cannot be written to; copy what you want to change.

        Returns
        -------
        KeptExamples
            With `vectors` (n, n_features) and `labels` (n,) of the labelled rows in the order of
            `fit` and `add`, without those of weight zero; their `places` (n,) among all rows, which
            `influence`, `flag_labels` and `remove` count; the `encoder` that made the vectors, or
            None; and the `pool`, or None.

        """
        check_is_fitted(self)
        fitted = self.fitted_
        return KeptExamples(
            vectors=read_only(fitted.rows.features),
            labels=self.classes_[fitted.rows.class_indices],
            places=fitted.rows.places,
            encoder=self._inputs,
            pool=None if fitted.pool is None else read_only(fitted.pool),
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

        Classes are assumed to have equally many rows.

        Parameters
        ----------
        n_support : int
            Number of labelled rows.
        n_classes : int
            Number of their classes.
        n_queries : int
            Number of rows to predict.
        n_features : int, default=None
            Width of the vectors. None: that of the last fit, or 1,024 before any.
        n_pool : int, default=0
            Number of unlabelled rows.

        Returns
        -------
        Plan
            With `memory_bytes` and `seconds`, how the rows would be read (`chunk_size`, `reduced`,
            `support_read`, `pool_read`) and the `precision`; `str` sums it up in a sentence.

        """
        width = getattr(self, "n_features_in_", 1024) if n_features is None else n_features
        sizes = Sizes(
            support=n_support, classes=n_classes, queries=n_queries, width=width, pool=n_pool
        )
        return make_plan(Settings.of(self, seed=0), sizes)

    def save(self, path: Path | str, *, calibrate: bool = True) -> Path:
        """Save the fitted classifier to a folder, without pickle.

        The folder holds all rows, and the model unless it is a shipped one. Shipped models and
        encoders are referred to by hash. A README.md describes the classifier. Labels may be
        strings, numbers and booleans.

        Parameters
        ----------
        path : Path or str
            A new or empty folder, or one with a classifier to replace.
        calibrate : bool, default=True
            Whether to save the calibration scores of `predict_set`, too. If `predict_set` was not
            called yet, computing them takes some seconds for 1,000 rows, now rather than after
            every load.

        Returns
        -------
        Path
            The folder.

        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        saved = SavedClassifier(
            rows=self.fitted_.rows,
            classes=self.classes_,
            seed=self.fitted_.settings.seed,
            parameters=plain_parameters(self._learned_with),
            feature_names=None if names is None else list(names),
            model=self.fitted_.settings.model,
            inputs=describe_encoder(self._inputs),
            scale=plain(self.fitted_.settings.scale),
            pool=self.fitted_.pool,
            saved_scores=self.fitted_.scores_to_save() if calibrate else None,
            representative=self.fitted_.representative,
            expected=self._expected,
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
        """Load a classifier from a folder that `save` wrote.

        Parameters
        ----------
        path : Path or str
            The folder.
        device : str, default=None
            Replaces the device that it was fitted on.
        encoder : Encoder, default=None
            Needed if it was fitted with an encoder of your own, which cannot be rebuilt by name.
        visibility : str, default=None
            Replaces the visibility that it was fitted with.
        class_shares : "balanced" or array-like, default=None
            Replaces the class shares that it was fitted with.

        Returns
        -------
        TailClassifier
            A classifier that predicts as the saved one did.

        """
        saved = load_classifier(Path(path))
        overrides = {
            "device": device,
            "encoder": encoder,
            "visibility": visibility,
            "class_shares": class_shares,
        }
        changes = {name: value for name, value in overrides.items() if value is not None}
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
            loaded.fitted_ = replace(loaded.fitted_, representative=saved.representative)
            loaded._expected = saved.expected
        return loaded

    def with_encoder(self, encoder: InputEncoder | None) -> Self:
        """Return a copy that takes this encoder's items; with None, it takes vectors.

        The copy's `scale` is set so that a fit with the encoder, or on the vectors, resolves to the
        scaling in use.

        Parameters
        ----------
        encoder : InputEncoder or None
            Turns items into vectors of the same width as those of the support. None: X will hold
            vectors.

        Returns
        -------
        TailClassifier
            The copy, fitted on the same rows.

        """
        check_is_fitted(self)
        other = copy.copy(self)
        other._inputs = encoder
        named = isinstance(encoder, ItemEncoder)
        other.encoder = None if encoder is None else encoder.name if named else AUTO
        scale = self.fitted_.settings.scale
        other.scale = plain(Scale.AUTO if scale == scale_after(Scale.AUTO, encoder) else scale)
        other.parts = self.fitted_.settings.parts if encoder is None else None
        changed = {"encoder": other.encoder, "scale": other.scale, "parts": other.parts}
        other._learned_with = {**self._learned_with, **changed}
        return other

    def __sklearn_tags__(self) -> Tags:
        """Declare to scikit-learn that X may hold NaN, and may be sparse."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        return tags

    def _vectors(self, encoder: InputEncoder | None, X: Examples) -> Any:  # noqa: ANN401
        """Encode X, or return it in a form that scikit-learn can validate; arrays are unchanged."""
        is_array = encoder is None and type(X) is np.ndarray
        return X if is_array else vectors_of(encoder, X, self.cache)

    def _validated(self, X: Examples | None) -> NDArray[Any]:
        is_array = self._inputs is None and type(X) is np.ndarray
        vectors = X if is_array else vectors_of_queries(self._inputs, X, self.cache)
        vectors = checked(self, vectors, dtype=FLOATS, reset=False)
        return np.require(vectors, requirements=["C", "W"])  # a data frame's may be neither

    def _pool(self, pool: Examples, inputs: InputEncoder | None, seed: int) -> NDArray[np.float64]:
        """Return the vectors of unlabelled rows; a random draw if there are too many."""
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
        """Let the model read the support; attributes are set only once that has succeeded."""
        settings = Settings.of(self, seed, classes.tolist(), inputs)
        if scale is not None:
            parts = settings.parts
            settings = replace(settings, scale=for_parts(scale, parts) if parts else scale)
        scores = saved.scores_for(rows, settings, pool) if saved else None
        fitted = Fitted.of(rows, settings, pool, scores)
        self.classes_, self._inputs, self.fitted_ = classes, inputs, fitted
        self._learned_with = parameters_of(self)
        self.visibility_ = str(fitted.settings.visibility)
        self.dropped_columns_ = {} if inputs is None else dict(inputs.dropped)
        self.scaled_ = any(each.standardises for each in for_parts(fitted.settings.scale, [0]))
        return self

    def _add(
        self, X: Examples, y: ArrayLike, sample_weight: ArrayLike | None, scale: Scales | None
    ) -> Self:
        """Add labelled rows; a `scale` of None is chosen anew, as a fit on all rows would."""
        vectors = self._vectors(self._inputs, X)
        features, labels = checked(self, vectors, y, dtype=np.float64, reset=False)
        fitted = self.fitted_
        rows, classes = more_rows(fitted.rows, self.classes_, features, labels, sample_weight)
        return self._learn(rows, classes, fitted.settings.seed, self._inputs, scale, fitted.pool)

    def _log_probabilities(self, fitted: Fitted, rows: NDArray[Any]) -> Floats:
        """Return log-probabilities (m, K) of rows (m, d_T); blank rows get the class shares.

        Blank rows are not passed to the model, so they cannot affect joint answers to the others.
        """
        mask = ~self._is_blank(rows)
        if mask.all():
            return fitted.log_probabilities(rows)
        answers = np.tile(fitted.log_shares, (len(rows), 1))
        if mask.any():
            answers[mask] = fitted.log_probabilities(rows[mask])
        return answers

    def _is_blank(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Return a mask of the rows that come from blank items; see `vectors_of_queries`."""
        if self._inputs is None:  # missing values in the user's own vectors are imputed
            return np.zeros(len(rows), dtype=bool)
        return np.asarray(np.isnan(rows).all(axis=1))


def checked(estimator: BaseEstimator, vectors: Any, *labels: Any, **options: Any) -> Any:  # noqa: ANN401
    """Validate vectors, and labels if given; missing values are allowed and imputed later."""
    data = vectors, *map(plain_labels, labels)
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # the check for infinities sums X
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
        if (explained := not_numeric(vectors, error)) is None:
            raise
        raise explained from error
    return valid
