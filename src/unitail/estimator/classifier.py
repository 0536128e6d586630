"""TailClassifier: in-context learning behind scikit-learn's interface."""

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from unitail.encoders.encoder import Encoder
from unitail.estimator import saving
from unitail.estimator.choices import DEFAULT
from unitail.estimator.conformal import Conformal
from unitail.estimator.fitted import FittedSupport
from unitail.estimator.labels import Labels, check_same_kind, encode
from unitail.estimator.novelty import Novelty
from unitail.estimator.options import draw_seed, make_reading
from unitail.estimator.plan import USUAL_WIDTH, Plan, Sizes, make_plan
from unitail.estimator.reduction import Rows
from unitail.inputs.encode import Examples, choose_encoder, vectors_of
from unitail.inputs.input_encoder import InputEncoder, describe_encoder, restore_encoder
from unitail.learners.checkpoint import load_model
from unitail.nn.episode_model import AnyModel

FLOATS = [np.float64, np.float32]
"""Queries of these dtypes are taken as they are, others as the first."""


class TailClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learn from a few labelled examples in one forward pass of a meta-trained model.

    `fit` shows the model the labelled rows; nothing is optimised. Vectors may come from anywhere
    and have any width; scale them as you would for nearest neighbours. NaN and infinite values are
    refused (impute them first). Equal rows are fine, and constant columns: one of zeros changes
    nothing, another moves all rows away from the origin, from which some angles are measured. X may
    hold files, images, texts, sounds or a table if there is an `encoder`.

    Parameters
    ----------
    model
        "default" for the model that comes with the package, the folder of a model, or a model.
    visibility
        Who sees whom. "isolated": every row is answered by itself, so an answer depends on the
        support and that row alone. "joint": all rows of one call see each other (transduction).
        Answers then depend on which rows are asked together: use it when you have the whole batch
        at hand, in which every class occurs, and few labels; not for single rows or streams. Ask
        for predictions and probabilities of the same rows in calls of the same rows.
    class_shares
        With "joint": how often the classes occur among the rows of a call, if that is known:
        "balanced", or a number for each class in the order of `classes_`, adding up to one.
        Answers then agree with it, which is worth some points; a wrong claim costs more.
    n_draws
        How many random draws are averaged, for models that are random; the default model is not.
    device
        "auto" (a CUDA device if there is one), "cpu", "cuda", ...
    random_state
        Decides the draws and the reduction of large supports, both in `fit`.
    chunk_size
        How many isolated rows are answered at once; by default what fits into some hundred MB.
        It changes speed and memory, not answers.
    max_support
        The most rows that the model reads; larger supports are reduced class by class to cluster
        centres (see `unitail.estimator.reduction`), and so are supports of very many classes. None
        reads all, whatever the memory it takes.
    precision
        "double", "single", or "auto": double for supports of up to 256 rows. In double precision
        the order of rows, and which are asked together, change nothing; in single precision they
        move probabilities by about 1e-5.
    encoder
        What makes vectors of X. None: X holds vectors. "auto": by what X holds in `fit`: paths (or
        their names) go by suffix, other strings are texts, PIL images and arrays of pixels (uint8,
        or three-dimensional) images, pairs (samples, rate) sounds, a DataFrame is a table, encoded
        by the rows of `fit`, other arrays are vectors. Else an encoder's name ("minilm"), a model's
        hub id or folder, or an `Encoder`. Vectors are cached on disk (`unitail cache`); items that
        cannot be read raise `Unreadable`.

    Attributes
    ----------
    classes_
        The labels, sorted.
    n_features_in_, feature_names_in_
        Width, and column names if there were any.

    """

    def __init__(
        self,
        model: str | Path | AnyModel = DEFAULT,
        *,
        visibility: str = "isolated",
        class_shares: str | ArrayLike | None = None,
        n_draws: int = 1,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        chunk_size: int | None = None,
        max_support: int | None = 4000,
        precision: str = "auto",
        encoder: str | Encoder[Any] | None = None,
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

    @classmethod
    def from_checkpoint(cls, folder: Path | str, **params: Any) -> Self:  # noqa: ANN401
        """Return an unfitted classifier with the model in `folder`, and its visibility."""
        model = load_model(folder)
        return cls(model=str(folder), **{"visibility": str(model.visibility), **params})

    def fit(self, X: Examples, y: ArrayLike) -> Self:  # noqa: N803 - scikit-learn's name
        """Read the labelled rows X, (n, d_T) or n items, with labels y (n,)."""
        if self.encoder is not None:  # encoding may take long
            check_consistent_length(X, y)
        inputs = choose_encoder(self.encoder, X, self.device)
        features, labels = validate_data(
            self, vectors_of(inputs, X), y, dtype=np.float64, order="C", copy=True
        )
        return self._learn(features, encode(labels), draw_seed(self.random_state), inputs)

    def add(self, X: Examples, y: ArrayLike) -> Self:  # noqa: N803
        """Take more labelled rows in, of old classes or new ones; the result equals a fit on all.

        The rows from before are kept, so they need not be given again. The support is read again
        (and, above `max_support`, reduced again), since what the model makes of a row depends on
        all others. Draws, and how a table is encoded, stay as they were made in `fit`.
        """
        check_is_fitted(self)
        vectors = vectors_of(self._inputs, X)
        features, labels = validate_data(self, vectors, y, dtype=np.float64, reset=False)
        check_same_kind(self.classes_, labels)
        known = self._fitted.rows
        return self._learn(
            np.concatenate([known.features, features]),
            encode(np.concatenate([self.classes_[known.class_indices], labels])),
            self._fitted.reading.seed,
            self._inputs,
        )

    def predict(self, X: Examples) -> NDArray[Any]:  # noqa: N803
        """Return the most probable label of each row."""
        places = self._answer(X).argmax(axis=1)
        return np.asarray(self.classes_[places])

    def predict_proba(self, X: Examples) -> NDArray[np.float64]:  # noqa: N803
        """Return the probability of each class, (m, K), in the order of `classes_`."""
        return np.exp(self._answer(X))

    def predict_log_proba(self, X: Examples) -> NDArray[np.float64]:  # noqa: N803
        """Return the logarithm of the probability of each class, (m, K)."""
        return self._answer(X)

    def predict_set(self, X: Examples, coverage: float = 0.9) -> NDArray[np.bool_]:  # noqa: N803
        """Return for each row the classes that hold the true one with probability `coverage`.

        A boolean array (m, K) in the order of `classes_`; `set_labels` turns it into labels. Sets
        are conformal: each support row whose class has another one is left out and asked, together
        with one of every other class (or a twentieth of them, if there are more than twenty), and
        the scores 1 - p(true class) are pooled. The promise is for the average over supports and
        rows that come like the support's, not for each class. With few rows it is kept by sets of
        all classes: 0.9 needs nine rows. If no class has two rows nothing can be left out, and a
        set is the most probable classes until the model's own probabilities reach the coverage.
        The most probable class is always in. Rows are answered in isolation, also if `visibility`
        is "joint".
        """
        check_is_fitted(self)
        features = self._validated(X)
        return self._conformal(self._fitted.isolated.log_probabilities(features), coverage)

    def set_labels(self, sets: NDArray[np.bool_]) -> list[NDArray[Any]]:
        """Turn prediction sets (m, K) into the labels in each."""
        check_is_fitted(self)
        return [self.classes_[member] for member in sets]

    def novelty(self, X: Examples) -> NDArray[np.float64]:  # noqa: N803
        """Return 0 to 1 for each row: the higher, the less it looks like any of the classes.

        It is the quantile of the row's strangeness among the support's own rows, each left out in
        turn: 0.95 says that about one in twenty rows of the known classes is as strange. It follows
        from distances alone (see `unitail.estimator.novelty`), not from the model. If no class has
        two rows, it says how strange a row is among classes that are novel to each other.
        """
        check_is_fitted(self)
        return self._novelty(self._validated(X))

    def plan(
        self, n_support: int, n_classes: int, n_queries: int, n_features: int | None = None
    ) -> Plan:
        """Estimate memory and time of a fit on so many rows and a prediction, without running it.

        Without `n_features`, the width is that of the last fit, or 1024.
        """
        known = getattr(self, "n_features_in_", USUAL_WIDTH)
        width = known if n_features is None else n_features
        sizes = Sizes(support=n_support, classes=n_classes, queries=n_queries, width=width)
        return make_plan(make_reading(self, seed=0), sizes)

    def save(self, path: Path | str) -> Path:
        """Write the fitted classifier to a folder, without pickle.

        The folder holds all rows, and the model unless it is the shipped one, which is referred to
        by hash, as is the encoder. Labels may be strings, numbers and truth values.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        saved = saving.SavedClassifier(
            rows=self._fitted.rows,
            classes=self.classes_,
            seed=self._fitted.reading.seed,
            parameters=saving.plain_parameters(self.get_params()),
            feature_names=None if names is None else list(names),
            model=self._fitted.reading.model,
            inputs=describe_encoder(self._inputs),
        )
        return saving.save_classifier(saved, Path(path))

    @classmethod
    def load(
        cls, path: Path | str, *, device: str | None = None, encoder: Encoder[Any] | None = None
    ) -> Self:
        """Read a classifier that `save` wrote; `device` replaces the one it was fitted on.

        The encoder is made again by its name; an `Encoder` of one's own must be given.
        """
        saved = saving.load_classifier(Path(path))
        params = saved.parameters
        changes = {"device": device or params["device"], "encoder": encoder or params["encoder"]}
        classifier = cls(DEFAULT if saved.model is None else saved.model, **{**params, **changes})
        inputs = restore_encoder(saved.inputs, encoder, classifier.device)
        classifier.n_features_in_ = saved.rows.features.shape[1]
        if saved.feature_names is not None:
            classifier.feature_names_in_ = np.array(saved.feature_names, dtype=object)
        labels = Labels(saved.classes, saved.rows.class_indices)
        return classifier._learn(saved.rows.features, labels, saved.seed, inputs)

    def _learn(
        self, features: NDArray[Any], labels: Labels, seed: int, inputs: InputEncoder | None
    ) -> Self:
        """Read the support; only what succeeds is remembered."""
        rows = Rows(features, labels.indices, len(labels.classes))
        fitted = FittedSupport(rows, make_reading(self, seed))
        fitted.class_shares, fitted.hypothesis  # noqa: B018 - read now, so that errors show in `fit`
        self.classes_, self._inputs = labels.classes, inputs
        self._fitted, self._conformal = fitted, Conformal(fitted)
        self._novelty = Novelty(rows, seed)
        return self

    def _answer(self, X: Examples) -> NDArray[np.float64]:  # noqa: N803
        check_is_fitted(self)
        return self._fitted.log_probabilities(self._validated(X))

    def _validated(self, X: Examples) -> NDArray[Any]:  # noqa: N803
        vectors = validate_data(self, vectors_of(self._inputs, X), dtype=FLOATS, reset=False)
        # As torch wants them: data frames give read-only columns.
        return np.require(vectors, requirements=["C", "W"])
