"""TailClassifier: in-context learning behind scikit-learn's interface.

Here are its parameters. `fit` and `predict` stand in `fit_predict`, rows that come or go in
`updates`, prediction sets and novelty in `doubts`, reasons in `influence`, folders in `saving`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin

from unitail.estimator.cost import Plan, Sizes, make_plan
from unitail.estimator.doubts import DoubtingEstimator
from unitail.estimator.influence import ExplainingEstimator
from unitail.estimator.saving.savable import SavableEstimator
from unitail.estimator.settings import Settings
from unitail.estimator.support_size import MAX_SUPPORT
from unitail.estimator.updates import UpdatableEstimator
from unitail.inputs.encode import EncoderChoice
from unitail.learners.pretrained import DEFAULT
from unitail.nn.episode_model import AnyModel


class TailClassifier(
    ClassifierMixin,  # type: ignore[misc]
    UpdatableEstimator,
    DoubtingEstimator,
    ExplainingEstimator,
    SavableEstimator,
):
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
