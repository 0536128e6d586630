"""Answer a user's items from labelled examples: encode, fit, predict and explain."""

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
"""Rows per batch of independent answers; progress is reported after each batch."""


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
    """Answer all readable queries from all readable examples.

    Without `encoder`, the modality's default is used. `model` is the name of a shipped model or a
    folder; by default, the default model answers isolated, TAIL jointly. With `joint`, queries are
    answered together and see each other; `balanced` then assumes that all classes are equally
    frequent among them. `saved`, a fitted classifier, replaces all these; `support` is then what
    `remembered_examples` returns. `pool` are unlabelled items that are read with the examples.

    The `explained` least certain answers get their nearest examples, and an explanation if the
    model can give one. With `why`, the least certain answers are explained, and it is an error if
    the model cannot. `on_progress` counts encoded items, `on_answered` answered ones.
    """
    check_coverage(coverage)
    require(top >= 1, "top", got=top, allowed="1 or more")
    _check_same_kind(support, queries)
    chosen = saved.kept_examples().encoder if saved else choose_encoder(support, encoder, device)
    assert chosen is not None
    inputs = (support.items, queries.items, *([] if pool is None else [pool.items]))
    example_vectors, query_vectors, *pooled = encode(
        chosen, *inputs, on_unreadable="skip", cache=cache, on_progress=on_progress
    )
    if saved is not None:
        classifier = with_pool(saved.with_encoder(None), pooled)
    else:
        classifier = make_classifier(
            model, encoder=chosen, joint=joint, balanced=balanced, device=device
        )
        fit_examples(classifier, support, example_vectors, pooled)
    check_together(classifier, len(query_vectors.kept))
    kept = classifier.kept_examples()
    result = Answers(
        answers=_answers(classifier, queries, query_vectors, coverage, top, on_answered),
        unreadable=_unread(support, example_vectors, queries, query_vectors, pool, pooled),
        modality=support.modality,
        encoder=chosen.name,
        examples=dict(sorted(Counter(map(str, kept.labels)).items())),
        coverage=coverage,
        joint=classifier.visibility_ == Visibility.JOINT,
        num_cached=sum(vectors.num_cached for vectors in (example_vectors, query_vectors, *pooled)),
        notes=(
            *chosen.notes,
            *contradictions(support, example_vectors),
            *classifier._fitted.size_notes,
            *long_texts(chosen, support.items, queries.items),
            *beyond_examples(chosen, support.items, queries.items),
        ),
        why=why,
    )
    places = example_vectors.kept.tolist() if saved is None else range(len(kept.labels))
    examples = [(place, support.names[place], support.labels[place]) for place in places]
    shown = explained if saved is None else 0  # a saved classifier has no examples to show
    if why or shown:
        with nullcontext() if why else suppress(CannotSolve, InvalidConfig):
            result = explain(result, classifier, chosen, query_vectors, examples)
    return (
        with_nearest(result, shown, kept.vectors, example_vectors.kept, query_vectors)
        if shown
        else result
    )


def _unread(
    support: LabelledItems,
    example_vectors: Vectors,
    queries: Items,
    query_vectors: Vectors,
    pool: Items | None,
    pooled: Sequence[Vectors],
) -> tuple[Unread, ...]:
    """List all unreadable items among the examples, the queries and the pool."""
    return (
        *unread_items("examples", support, example_vectors),
        *unread_items("files", queries, query_vectors),
        *unread_pool(pool, pooled),
    )


def choose_encoder(support: LabelledItems, encoder: str | None, device: str) -> InputEncoder:
    """Return the encoder for items like the examples; None stands for the default one."""
    if support.layout is not None:
        return fit_layout(support.layout, support.items, encoder or AUTO, device)
    fitted = fit_encoder(encoder or AUTO, support.items, support.modality, device=device)
    if isinstance(fitted, ItemEncoder):
        return replace(fitted, content_column=support.content_column)
    return fitted


def make_classifier(
    model: str = DEFAULT,
    *,
    encoder: InputEncoder,
    joint: bool = False,
    balanced: bool = False,
    device: str,
) -> TailClassifier:
    """Return an unfitted classifier for the vectors of this encoder.

    It answers exactly like a classifier that holds the encoder: it scales tables in the same way,
    and answers mixed tables part by part. `unitail evaluate` measures this classifier.
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
    classifier: TailClassifier,
    support: LabelledItems,
    example_vectors: Vectors,
    pool: Sequence[Vectors],
) -> None:
    """Fit on the readable examples, and on the readable items of a pool if there is one."""
    labels = [support.labels[place] for place in example_vectors.kept]
    _check_classes(support, labels)
    rows = [each.features for each in pool if len(each.kept)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableSizeWarning)  # also given as a note
        classifier.fit(
            example_vectors.features, labels, pool=np.concatenate(rows) if rows else None
        )


def with_pool(classifier: TailClassifier, pool: Sequence[Vectors]) -> TailClassifier:
    """Add unlabelled rows, if there are any, to a fitted classifier, and return it."""
    for vectors in pool:
        if len(vectors.kept):
            classifier.add_pool(vectors.features)
    return classifier


def unread_pool(pool: Items | None, vectors: Sequence[Vectors]) -> tuple[Unread, ...]:
    """List the unreadable items of a pool."""
    return tuple(item for each in vectors if pool for item in unread_items("pool", pool, each))


def check_options(model: str, *, joint: bool, balanced: bool, pool: bool = False) -> None:
    """Raise an error for options of the command line that contradict each other."""
    if pool and joint:
        raise InvalidConfig(
            "with a pool every file is answered by itself",
            got="--pool and --joint",
            allowed="one of them",
            remedy="Leave out --joint for answers that do not depend on each other.",
        )
    if balanced and not joint and model == DEFAULT:
        raise InvalidConfig(
            "--balanced only applies to joint answers",
            got="--balanced without --joint",
            allowed="--joint --balanced",
            remedy="Add --joint, or leave out --balanced.",
        )


def check_together(classifier: TailClassifier, number: int) -> None:
    """Raise an error for too many joint queries, in terms of the command line's options."""
    limit = max(classifier.max_support or number, MAX_SUPPORT)
    if classifier.visibility_ == Visibility.JOINT and number > limit:
        raise InvalidInput(
            "too many files to be answered together",
            got=f"{number:,} files with --joint",
            allowed=f"at most {limit:,}, or any number without --joint",
            remedy="Leave out --joint, or answer fewer files at a time.",
        )


def _check_same_kind(support: Items, queries: Items) -> None:
    if queries.modality is not support.modality:
        raise InvalidInput(
            "the files are of another kind than the examples",
            got=queries.modality,
            allowed=str(support.modality),
            remedy="Name files like the examples, or set the kind of all of them: --modality KIND.",
        )


def _check_classes(support: LabelledItems, labels: Sequence[str]) -> None:
    """Raise an error if a class has no readable example."""
    unreadable = [label for label in support.classes if label not in set(labels)]
    if unreadable:
        raise InvalidInput(
            "no example of a class can be read",
            got=", ".join(map(repr, unreadable)),
            allowed="at least one readable example of each class",
            remedy="Fix the files, or remove the class.",
        )


def answer_rows(
    classifier: TailClassifier, rows: NDArray[np.float32], coverage: float, top: int
) -> list[dict[str, Any]]:
    """Answer rows; return for each the fields of an `Answer` that depend on its vector."""
    log_proba = classifier.predict_log_proba(rows)
    probabilities = np.exp(log_proba)
    if classifier.visibility_ == "isolated":
        sets = classifier.predict_set(coverage=coverage, log_proba=log_proba)
    else:
        # Sets are calibrated on isolated answers; the joint answer may be another class, so add it.
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
            "novelty": float(unlike),
        }
        for row, best, members, unlike in zip(probabilities, order, sets, novelty, strict=True)
    ]


def _answers(
    classifier: TailClassifier,
    queries: Items,
    query_vectors: Vectors,
    coverage: float,
    top: int,
    on_answered: OnProgress | None,
) -> tuple[Answer, ...]:
    """Answer the readable queries: in batches if isolated, all at once if joint."""
    count = len(query_vectors.kept)
    size = AT_ONCE if classifier.visibility_ == Visibility.ISOLATED else max(1, count)
    answers: list[dict[str, Any]] = []
    for start in range(0, count, size):
        answers += answer_rows(
            classifier, query_vectors.features[start : start + size], coverage, top
        )
        if on_answered is not None:
            on_answered(len(answers), count)
    repeated = _repeated(classifier.kept_examples().vectors, query_vectors)
    return tuple(
        Answer(place=place, name=queries.names[place], repeated=is_repeated, **answer)
        for place, is_repeated, answer in zip(
            query_vectors.kept.tolist(), repeated, answers, strict=True
        )
    )


def _repeated(example_vectors: NDArray[np.float64], query_vectors: Vectors) -> list[bool]:
    """Return whether each query has the vector of an example; equal items have equal vectors."""
    with np.errstate(over="ignore"):  # a saved classifier may hold larger numbers
        vectors = {row.tobytes() for row in example_vectors.astype(np.float32)}
    return [row.tobytes() in vectors for row in query_vectors.features]
