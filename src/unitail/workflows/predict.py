"""A user's labelled examples and items in, answers out."""

import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.answer_defaults import COVERAGE, TOP
from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoding import Vectors
from unitail.errors import CannotSolve, InvalidConfig, InvalidInput, TableSizeWarning, require
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.prediction_sets import check_coverage
from unitail.estimator.scaling import Scale, plain, scale_after
from unitail.estimator.support_size import MAX_SUPPORT
from unitail.inputs.encode import (
    Unread,
    beyond_examples,
    contradictions,
    encode,
    fit_encoder,
    fit_layout,
    long_texts,
    unread_items,
)
from unitail.inputs.input_encoder import AUTO, InputEncoder, ItemEncoder, MixedEncoder
from unitail.inputs.items import Items, LabelledItems
from unitail.learners.pretrained import DEFAULT
from unitail.nn.episode_model import Visibility
from unitail.progress import OnProgress
from unitail.workflows.answers import Answer, Answers, explain, with_nearest

AT_ONCE = 4096
"""Rows that are answered before it is told how far the work is."""


def predict_files(
    support: LabelledItems,
    queries: Items,
    *,
    encoder: str | None = None,
    model: str = DEFAULT,
    saved: TailClassifier | None = None,
    pool: Items | None = None,
    joint: bool = False,
    balanced: bool = False,
    coverage: float = COVERAGE,
    top: int = TOP,
    explained: int = 0,
    why: bool = False,
    cache: FeatureCache | None = None,
    device: str = "auto",
    on_progress: OnProgress | None = None,
    on_answered: OnProgress | None = None,
) -> Answers:
    """Answer all queries that can be read from all examples that can be read.

    Without `encoder` the modality's default is used. `model` is the name of a shipped one or a
    folder, asked in its own way: the default one isolated, TAIL joint. With `joint`, queries are
    answered together and see each other; `balanced` then says that all classes occur equally often
    among them. `saved` is a classifier in place of all these; then `support` is what it remembers.
    `pool` are items without labels that are read with the examples. `explained` of the least sure
    answers name the examples nearest to them, and what speaks for them as far as the model can say;
    `why` asks for that alone. `on_progress` counts what is encoded, `on_answered` what is answered.
    """
    check_coverage(coverage)
    require(top >= 1, "top", got=top, allowed="1 or more")
    _check_same_kind(support, queries)
    by = saved.kept_examples().encoder if saved else choose_for(support, encoder, device)
    assert by is not None
    given = (support.items, queries.items, *([] if pool is None else [pool.items]))
    known, asked, *others = encode(
        by, *given, on_unreadable="skip", cache=cache, on_progress=on_progress
    )
    if saved is not None:
        classifier = with_pool(saved.with_encoder(None), others)
    else:
        classifier = make_classifier(
            model, encoder=by, joint=joint, balanced=balanced, device=device
        )
        fit_examples(classifier, support, known, others)
    check_together(classifier, len(asked.kept))
    kept = classifier.kept_examples()
    result = Answers(
        answers=_answers(classifier, queries, asked, coverage, top, on_answered),
        unreadable=_unread(support, known, queries, asked, pool, others),
        modality=support.modality,
        encoder=by.name,
        examples=dict(sorted(Counter(map(str, kept.labels)).items())),
        coverage=coverage,
        joint=classifier.visibility_ == Visibility.JOINT,
        num_cached=sum(each.num_cached for each in (known, asked, *others)),
        notes=(
            *by.notes,
            *contradictions(support, known),
            *classifier._fitted.size_notes,
            *long_texts(by, support.items, queries.items),
            *beyond_examples(by, support.items, queries.items),
        ),
        why=why,
    )
    places = known.kept.tolist() if saved is None else range(len(kept.labels))
    examples = [(place, support.names[place], support.labels[place]) for place in places]
    shown = explained if saved is None else 0  # what is saved has no examples to show
    if why or shown:
        with nullcontext() if why else suppress(CannotSolve, InvalidConfig):
            result = explain(result, classifier, by, asked, examples)
    return with_nearest(result, shown, kept.vectors, known.kept, asked) if shown else result


def _unread(
    support: LabelledItems,
    known: Vectors,
    queries: Items,
    asked: Vectors,
    pool: Items | None,
    others: Sequence[Vectors],
) -> tuple[Unread, ...]:
    """Name all that cannot be read, and what it was meant for."""
    return (
        *unread_items("examples", support, known),
        *unread_items("files", queries, asked),
        *unread_pool(pool, others),
    )


def choose_for(support: LabelledItems, encoder: str | None, device: str) -> InputEncoder:
    """Return what makes vectors of items like the examples."""
    if support.layout is not None:
        return fit_layout(support.layout, support.items, encoder or AUTO, device)
    by = fit_encoder(encoder or AUTO, support.items, support.modality, device=device)
    if isinstance(by, ItemEncoder):
        return replace(by, content_column=support.content_column)
    return by


def make_classifier(
    model: str = DEFAULT,
    *,
    encoder: InputEncoder,
    joint: bool = False,
    balanced: bool = False,
    device: str,
) -> TailClassifier:
    """Return the classifier of what this encoder makes, which `unitail evaluate` measures.

    It answers as one that has the encoder itself: tables are seen with steps and weights, and parts
    of mixed ones each have a say.
    """
    return TailClassifier(
        model,
        visibility="joint" if joint else "auto",
        class_shares="balanced" if balanced else None,
        device=device,
        random_state=0,
        scale=plain(scale_after(Scale.AUTO, encoder)),
        parts=encoder.widths if isinstance(encoder, MixedEncoder) else None,
    )


def fit_examples(
    classifier: TailClassifier, support: LabelledItems, known: Vectors, pool: Sequence[Vectors]
) -> None:
    """Fit on the examples that could be read, and on as much of a pool if there is one."""
    labels = [support.labels[place] for place in known.kept]
    _check_classes(support, labels)
    rows = [each.features for each in pool if len(each.kept)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableSizeWarning)  # it is among the notes
        classifier.fit(known.features, labels, pool=np.concatenate(rows) if rows else None)


def with_pool(classifier: TailClassifier, pool: Sequence[Vectors]) -> TailClassifier:
    """Let a fitted classifier read more unlabelled rows, if there are any."""
    for each in pool:
        if len(each.kept):
            classifier.add_pool(each.features)
    return classifier


def unread_pool(pool: Items | None, vectors: Sequence[Vectors]) -> tuple[Unread, ...]:
    """Name what cannot be read of a pool."""
    return tuple(one for each in vectors if pool for one in unread_items("pool", pool, each))


def check_options(model: str, *, joint: bool, balanced: bool, pool: bool = False) -> None:
    """Refuse options of the command line that contradict each other."""
    if pool and joint:
        raise InvalidConfig(
            "with a pool every file is answered by itself",
            got="--pool and --joint",
            allowed="one of them",
            remedy="Leave out --joint for answers that do not depend on each other.",
        )
    if balanced and not joint and model == DEFAULT:
        raise InvalidConfig(
            "--balanced is about files that are answered together",
            got="--balanced without --joint",
            allowed="--joint --balanced",
            remedy="Add --joint, or leave out --balanced.",
        )


def check_together(classifier: TailClassifier, number: int) -> None:
    """Refuse more files than can inform each other, in the words of the command line."""
    limit = max(classifier.max_support or number, MAX_SUPPORT)
    if classifier.visibility_ == Visibility.JOINT and number > limit:
        raise InvalidInput(
            "too many files to be answered together",
            got=f"{number:,} files with --joint",
            allowed=f"at most {limit:,}, or any number without --joint",
            remedy="Leave out --joint, or ask for fewer files at a time.",
        )


def _check_same_kind(support: Items, queries: Items) -> None:
    if queries.modality is not support.modality:
        raise InvalidInput(
            "the files are of another kind than the examples",
            got=queries.modality,
            allowed=str(support.modality),
            remedy="Name files like the examples, or say what all of them are: --modality KIND.",
        )


def _check_classes(support: LabelledItems, labels: Sequence[str]) -> None:
    """Refuse to go on without a class."""
    lost = [label for label in support.classes if label not in set(labels)]
    if lost:
        raise InvalidInput(
            "no example of a class can be read",
            got=", ".join(map(repr, lost)),
            allowed="at least one readable example of each class",
            remedy="Fix the files, or remove the class.",
        )


def answer_rows(
    classifier: TailClassifier, rows: NDArray[np.float32], coverage: float, top: int
) -> list[dict[str, Any]]:
    """Answer each row: the fields of an `Answer` that depend on its vector."""
    log_proba = classifier.predict_log_proba(rows)
    probabilities = np.exp(log_proba)
    if classifier.visibility_ == "isolated":
        sets = classifier.predict_set(coverage=coverage, log_proba=log_proba)
    else:
        # Sets follow from isolated answers; the joint answer may be another class, and belongs in.
        sets = classifier.predict_set(rows, coverage)
        sets[np.arange(len(rows)), probabilities.argmax(axis=1)] = True
    order = np.argsort(-probabilities, axis=1, kind="stable")
    novelty = classifier.novelty(rows)
    names = [str(name) for name in classifier.classes_]
    return [
        {
            "label": names[best[0]],
            "probability": float(row[best[0]]),
            "top": tuple((names[index], float(row[index])) for index in best[:top]),
            "members": tuple(names[index] for index in best if members[index]),
            "novelty": float(strange),
        }
        for row, best, members, strange in zip(probabilities, order, sets, novelty, strict=True)
    ]


def _answers(
    classifier: TailClassifier,
    queries: Items,
    asked: Vectors,
    coverage: float,
    top: int,
    on_answered: OnProgress | None,
) -> tuple[Answer, ...]:
    """Answer the queries that could be read, as many at once as may see each other."""
    count = len(asked.kept)
    size = AT_ONCE if classifier.visibility_ == Visibility.ISOLATED else max(1, count)
    answers: list[dict[str, Any]] = []
    for start in range(0, count, size):
        answers += answer_rows(classifier, asked.features[start : start + size], coverage, top)
        if on_answered is not None:
            on_answered(len(answers), count)
    repeated = _repeated(classifier.kept_examples().vectors, asked)
    return tuple(
        Answer(place=place, name=queries.names[place], repeated=again, **answer)
        for place, again, answer in zip(asked.kept.tolist(), repeated, answers, strict=True)
    )


def _repeated(known: NDArray[np.float64], asked: Vectors) -> list[bool]:
    """Tell which queries have the vector of an example; items of equal content share theirs."""
    with np.errstate(over="ignore"):  # a saved classifier may know larger numbers
        vectors = {row.tobytes() for row in known.astype(np.float32)}
    return [row.tobytes() in vectors for row in asked.features]
