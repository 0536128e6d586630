"""Fit a classifier on labelled files, or take a saved one in their place."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Modality, Vectors
from unitail.encoders.tables import Kind, TableEncoder
from unitail.errors import (
    CannotSolve,
    InvalidCheckpoint,
    InvalidConfig,
    InvalidInput,
    TableSizeWarning,
    optional,
)
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.fitted import joint_limit
from unitail.estimator.saving.folder import is_classifier
from unitail.estimator.scaling import Scale, plain, scale_after
from unitail.estimator.settings import Settings
from unitail.inputs.cells import ORDERS, with_reading
from unitail.inputs.columns import Layout
from unitail.inputs.encode import (
    Among,
    Unread,
    encode,
    fit_encoder,
    fit_layout,
    unread_items,
)
from unitail.inputs.input_encoder import AUTO, InputEncoder, ItemEncoder, MixedEncoder
from unitail.inputs.items import Items, LabelledItems, ReadOptions
from unitail.inputs.read import read_labelled
from unitail.learners.checkpoint import is_model, load_model
from unitail.learners.pretrained import DEFAULT, SHIPPED_DRAWS
from unitail.nn.episode_model import AnyModel, Visibility
from unitail.progress import OnProgress
from unitail.wording import shown


@dataclass(frozen=True, kw_only=True)
class ClassifierOptions:
    """The user's options for the encoder and the classifier."""

    encoder: str | None = None
    """Its name; None for the default encoder of the modality."""
    model: str = DEFAULT
    """A shipped model, or the folder of a trained model or of a saved classifier. By default the
    default model answers isolated, TAIL jointly."""
    joint: bool = False
    """Whether queries are answered together and see each other."""
    balanced: bool = False
    """Whether to assume that all classes are equally frequent among joint queries."""
    device: str = "auto"

    def check(self, *, pool: bool = False) -> None:
        """Raise an error for options that contradict each other."""
        if pool and self.joint:
            raise InvalidConfig(
                "with a pool every file is answered by itself",
                got="--pool and --joint",
                allowed="one of them",
                remedy="Leave out --joint for answers that do not depend on each other.",
            )
        if self.balanced and not self.joint and self.model == DEFAULT:
            raise InvalidConfig(
                "--balanced only applies to joint answers",
                got="--balanced without --joint",
                allowed="--joint --balanced",
                remedy="Add --joint, or leave out --balanced.",
            )

    def check_unfitted(self) -> None:
        """Raise an error unless `model` names one that learns from examples."""
        folder = Path(self.model)
        if self.model not in SHIPPED_DRAWS and is_classifier(folder):
            raise InvalidCheckpoint(
                f"{shown(folder)} is a classifier that was fitted before",
                got=f"--model {shown(folder)}",
                allowed=f"the folder of a trained model, or {', '.join(SHIPPED_DRAWS)}",
                remedy=f"To use it: unitail predict --model {shown(folder)} FILES.",
            )
        self.load_saved()

    def load_saved(self) -> TailClassifier | None:
        """Load the classifier saved by `unitail fit`; None if the model learns from examples."""
        folder = Path(self.model)
        if self.model in SHIPPED_DRAWS or (is_model(folder) and not is_classifier(folder)):
            return None
        if not is_classifier(folder):
            raise InvalidCheckpoint(
                f"{shown(folder)} is not a model",
                got="another folder or file" if folder.exists() else "no such folder",
                allowed=f"a folder that `unitail fit --save` wrote, or {', '.join(SHIPPED_DRAWS)}",
                remedy="Unpack it, and name the folder."
                if folder.suffix.lower() == ".zip"
                else "Name another folder with --model.",
            )
        if self.encoder is not None:
            raise InvalidInput(
                f"{shown(folder)} has its own encoder",
                got=f"--encoder {self.encoder}",
                allowed="--model without --encoder",
                remedy="Leave out --encoder, or fit again with it.",
            )
        return TailClassifier.load(
            folder,
            device=self.device,
            visibility="joint" if self.joint else None,
            class_shares="balanced" if self.balanced else None,
        )

    @cached_property
    def loaded_model(self) -> AnyModel | str:
        """The model of a folder, which is loaded once; the name of a shipped model."""
        return self.model if self.model in SHIPPED_DRAWS else load_model(self.model)

    def encoder_for(self, examples: LabelledItems) -> InputEncoder:
        """Return the encoder for items like the examples."""
        name = self.encoder or AUTO
        if examples.layout is not None:
            return fit_layout(examples.layout, examples.items, name, self.device)
        fitted = fit_encoder(name, examples.items, examples.modality, device=self.device)
        assert isinstance(fitted, ItemEncoder)
        return replace(fitted, content_column=examples.content_column)

    def classifier(self, encoder: InputEncoder | None = None) -> TailClassifier:
        """Return an unfitted classifier for the vectors of this encoder.

        It answers exactly like a classifier that holds the encoder: it scales tables in the same
        way, and answers mixed tables part by part. `unitail evaluate` measures this classifier.
        """
        return TailClassifier(
            self.loaded_model,
            visibility="joint" if self.joint else "auto",
            class_shares="balanced" if self.balanced else None,
            device=self.device,
            random_state=0,
            scale=plain(scale_after(Scale.AUTO, encoder)),
            parts=encoder.widths if isinstance(encoder, MixedEncoder) else None,
        )


BY_DEFAULT = ClassifierOptions()


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedFiles:
    """A classifier that takes files, texts or rows like the examples, and what was read for it."""

    classifier: TailClassifier
    encoder: InputEncoder
    examples: LabelledItems
    places: Sequence[int]
    """Indices of the examples that it was fitted on: those that could be read."""
    queries: Vectors | None
    """Vectors of the items to answer, if there are any; see `fit_files`."""
    unreadable: tuple[Unread, ...]
    num_cached: int
    """Number of items whose vectors came from the cache."""
    notes: tuple[str, ...] = ()
    """Further notes for the user, a phrase each."""

    @property
    def class_counts(self) -> Mapping[str, int]:
        """Number of examples of each class that it was fitted on."""
        labels = self.classifier.kept_examples().labels
        return dict(sorted(Counter(map(str, labels)).items()))


def read_examples(
    path: Path,
    options: ReadOptions,
    *,
    also: Sequence[Path] = (),
    saved: TailClassifier | None = None,
) -> LabelledItems:
    """Read the examples, and more of them from `also`; or recall those of a saved classifier."""
    if saved is None and path.is_dir() and is_classifier(path):
        raise InvalidInput(
            f"{shown(path)} is a saved classifier",
            got="it in place of labelled examples",
            allowed="a folder with a subfolder for each class, or a table",
            remedy=f"To use it: unitail predict --model {shown(path)} FILES.",
        )
    if saved is None:
        return read_labelled(path, options, also=also)
    given = {"--also": also, "--column": options.columns}
    named = " and ".join(name for name, value in given.items() if value)
    if named:
        raise InvalidConfig(
            "a saved classifier has read its examples already",
            got=named,
            allowed="with EXAMPLES only",
            remedy=f"Leave out {named}, or use it with `unitail fit` to save another classifier.",
        )
    return remembered_examples(saved)


def fit_files(
    examples: LabelledItems,
    options: ClassifierOptions = BY_DEFAULT,
    *,
    saved: TailClassifier | None = None,
    pool: Items | None = None,
    queries: Items | None = None,
    why: bool = False,
    cache: FeatureCache | None = None,
    on_progress: OnProgress | None = None,
) -> FittedFiles:
    """Fit a classifier on all readable examples, and on an unlabelled pool if there is one.

    `saved`, a fitted classifier, replaces the options and is extended by the pool; `examples` are
    then what `remembered_examples` returns. `queries` are encoded together with the examples, so
    that what occurs among both is encoded once; `answer_files` answers them, and explains the
    answers if `why`.
    """
    classifier = saved or options.classifier()
    check_model(classifier, options, queries=queries, pool=pool, why=why)
    encoder = options.encoder_for(examples) if saved is None else saved.kept_examples().encoder
    assert encoder is not None
    given = {Among.EXAMPLES: examples, Among.FILES: queries, Among.POOL: pool}
    inputs = {among: items for among, items in given.items() if items is not None}
    encoded = encode(
        encoder,
        *(items.items for items in inputs.values()),
        on_unreadable="skip",
        cache=cache,
        on_progress=on_progress,
    )
    vectors = dict(zip(inputs, encoded, strict=True))
    has_pool = Among.POOL in vectors and len(vectors[Among.POOL].kept) > 0
    pooled = vectors[Among.POOL].features if has_pool else None
    if saved is None:
        classifier = options.classifier(encoder)
        _fit(classifier, examples, vectors[Among.EXAMPLES], pooled)
    elif pooled is not None:
        classifier = saved.with_encoder(None).add_pool(pooled)
    return FittedFiles(
        classifier=classifier.with_encoder(encoder),
        encoder=encoder,
        examples=examples,
        places=vectors[Among.EXAMPLES].kept.tolist() if saved is None else range(len(examples)),
        queries=vectors.get(Among.FILES),
        unreadable=tuple(
            unread
            for among, items in inputs.items()
            for unread in unread_items(among, items, vectors[among])
        ),
        num_cached=sum(each.num_cached for each in encoded),
        notes=(
            *encoder.notes,
            *examples.contradictions(vectors[Among.EXAMPLES]),
            *classifier.fitted_.size_notes,
        ),
    )


def _fit(
    classifier: TailClassifier,
    examples: LabelledItems,
    vectors: Vectors,
    pool: NDArray[np.float32] | None,
) -> None:
    """Fit on the readable examples, and on the vectors of a pool if there is one."""
    labels = [examples.labels[place] for place in vectors.kept]
    _check_classes(examples, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableSizeWarning)  # also given as a note
        classifier.fit(vectors.features, labels, pool=pool)


def check_model(
    classifier: TailClassifier,
    options: ClassifierOptions,
    *,
    queries: Items | None = None,
    pool: Items | None = None,
    why: bool = False,
    workers: bool = False,
) -> None:
    """Raise an error for what the model cannot do, before anything is encoded.

    `why` is whether the answers will be explained, `workers` whether workers will give them.
    """
    settings = Settings.of(classifier, seed=0)
    model = settings.given_model
    if pool is not None and not model.takes_pool:
        raise CannotSolve(
            "the model takes no pool of unlabelled rows",
            got=f"--pool with --model {options.model}",
            allowed="no pool",
            remedy="Leave out --pool, or choose a relational model, such as the default.",
        )
    if why and not model.explains:
        raise CannotSolve(
            "the model cannot attribute its answers to labelled rows",
            got=f"--why with --model {options.model}",
            allowed="a relational model, such as the default",
            remedy="Leave out --why, or choose the default model.",
        )
    if (workers or pool is not None) and not settings.visibility.isolates_queries:
        needed_by = "workers answer every row" if workers else "with a pool every file is answered"
        raise _not_isolated(f"{needed_by} by itself", classifier, settings.visibility, options)
    if queries is not None and settings.visibility is Visibility.JOINT:
        _check_together(len(queries), joint_limit(settings.max_support))


def _not_isolated(
    what: str, classifier: TailClassifier, visibility: Visibility, options: ClassifierOptions
) -> InvalidConfig:
    """Return the error for a model that answers rows together where each is answered by itself."""
    chosen = classifier.visibility == Visibility.JOINT
    return InvalidConfig(
        what,
        got="--joint" if options.joint else f"--model {options.model} with {visibility} answers",
        allowed="a model with isolated answers",
        remedy="Leave out --joint; a saved classifier keeps it: fit it again without."
        if chosen
        else "Choose the default model, or one that was trained for isolated answers.",
    )


def _check_together(number: int, limit: int | None) -> None:
    """Raise an error for too many joint queries, in terms of the command line's options."""
    if limit is not None and number > limit:
        raise InvalidInput(
            "too many files to be answered together",
            got=f"{number:,} files with --joint",
            allowed=f"at most {limit:,}, or any number without --joint",
            remedy="Leave out --joint, or answer fewer files at a time.",
        )


def _check_classes(examples: LabelledItems, labels: Sequence[str]) -> None:
    """Raise an error if a class has no readable example."""
    unreadable = [label for label in examples.classes if label not in set(labels)]
    if unreadable:
        raise InvalidInput(
            "no example of a class can be read",
            got=", ".join(map(repr, unreadable)),
            allowed="at least one readable example of each class",
            remedy="Fix the files, or remove the class.",
        )


def remembered_examples(classifier: TailClassifier) -> LabelledItems:
    """Return a saved classifier's examples by label and layout; the items are not stored."""
    kept = classifier.kept_examples()
    encoder = kept.encoder
    if encoder is None:
        raise InvalidInput(
            "the saved classifier was fitted on vectors",
            got="files, texts or rows to answer",
            allowed="a classifier that `unitail fit` made, or that was fitted with an encoder",
            remedy="Use it in Python: TailClassifier.load(folder).predict(vectors).",
        )
    labels = tuple(str(label) for label in kept.labels)
    names = tuple(f"example {place + 1}" for place in range(len(labels)))
    if isinstance(encoder, ItemEncoder):
        return LabelledItems(
            items=(),
            names=names,
            labels=labels,
            modality=encoder.encoder.modality,
            content_column=encoder.content_column,
        )
    cells = encoder.cells if isinstance(encoder, MixedEncoder) else encoder
    contents = encoder.contents if isinstance(encoder, MixedEncoder) else {}
    table = _empty_table(cells) if cells else optional("pandas", extra="encoders").DataFrame()
    layout = Layout(contents, tuple(table), encoder.dropped)
    for name in contents:
        table[name] = None
    return LabelledItems(
        items=table, names=names, labels=labels, modality=Modality.TABLE, layout=layout
    )


def _empty_table(encoder: TableEncoder) -> Any:  # noqa: ANN401 - a DataFrame
    """Return a table without rows, with the column types of the examples."""
    pandas = optional("pandas", extra="encoders")
    types = {
        column.name: "float64" if getattr(column, "kind", None) is Kind.NUMBER else object
        for column in encoder.columns
    }
    table = pandas.DataFrame({name: pandas.Series(dtype=kind) for name, kind in types.items()})
    dates = [
        column.name for column in encoder.columns if getattr(column, "kind", None) is Kind.DATE
    ]
    orders = {**dict.fromkeys(dates), **encoder.reading.get(ORDERS, {})}
    return with_reading(table, {**encoder.reading, ORDERS: orders})
