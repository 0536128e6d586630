"""Answer a user's items from labelled examples: fit, predict and explain."""

from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.answer_defaults import COVERAGE, TOP
from unitail.encoders.cache import FeatureCache
from unitail.encoders.encoder import Vectors
from unitail.errors import CannotSolve, InvalidConfig, InvalidInput, require
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.prediction_sets import check_coverage
from unitail.inputs.items import Items, LabelledItems
from unitail.learners.in_context import MAX_ROWS
from unitail.nn.episode_model import Visibility
from unitail.progress import OnProgress
from unitail.workflows.answers import Answer, Answers
from unitail.workflows.explanations import Example, explain, with_nearest
from unitail.workflows.fit import BY_DEFAULT, ClassifierOptions, FittedFiles, fit_files


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """The user's options for the answers."""

    coverage: float = COVERAGE
    top: int = TOP
    why: bool = False
    """Whether to explain the least certain answers; an error if the model cannot."""
    cards: int = 0
    """Number of the least certain answers that a report shows: they get their nearest examples, and
    up to `MAX_EXPLAINED` of them an explanation if the model can give one."""

    def __post_init__(self) -> None:
        check_coverage(self.coverage, "--coverage")
        require(self.top >= 1, "--top", got=self.top, allowed="1 or more")


PLAIN_ANSWERS = PredictOptions()


def predict_files(
    examples: LabelledItems,
    queries: Items,
    options: ClassifierOptions = BY_DEFAULT,
    wanted: PredictOptions = PLAIN_ANSWERS,
    *,
    saved: TailClassifier | None = None,
    pool: Items | None = None,
    cache: FeatureCache | None = None,
    on_progress: OnProgress | None = None,
    on_answered: OnProgress | None = None,
    on_explained: OnProgress | None = None,
) -> Answers:
    """Answer all readable queries from all readable examples: `fit_files`, then `answer_files`."""
    _check_same_kind(examples, queries)
    fitted = fit_files(
        examples,
        options,
        saved=saved,
        pool=pool,
        queries=queries,
        why=wanted.why,
        cache=cache,
        on_progress=on_progress,
    )
    return answer_files(fitted, queries, wanted, on_answered=on_answered, on_explained=on_explained)


def answer_files(
    fitted: FittedFiles,
    queries: Items,
    wanted: PredictOptions = PLAIN_ANSWERS,
    *,
    on_answered: OnProgress | None = None,
    on_explained: OnProgress | None = None,
) -> Answers:
    """Answer the queries that `fit_files` has encoded.

    `on_answered` counts answers, `on_explained` answers whose columns are explained.
    """
    assert fitted.queries is not None
    classifier, examples = fitted.classifier.with_encoder(None), fitted.examples
    result = Answers(
        answers=_answers(classifier, queries, fitted.queries, wanted, on_answered),
        unreadable=fitted.unreadable,
        modality=examples.modality,
        encoder=fitted.encoder.name,
        examples=fitted.class_counts,
        coverage=wanted.coverage,
        joint=classifier.visibility_ == Visibility.JOINT,
        num_cached=fitted.num_cached,
        notes=(*fitted.notes, *fitted.encoder.notes_on(examples.items, queries.items)),
        why=wanted.why,
    )
    cards = wanted.cards if len(examples.items) else 0  # a saved classifier has none to show
    if wanted.why or cards:
        with nullcontext() if wanted.why else suppress(CannotSolve, InvalidConfig):
            result = explain(
                result,
                classifier,
                fitted.encoder,
                fitted.queries,
                [Example(at, examples.names[at], examples.labels[at]) for at in fitted.places],
                on_explained=on_explained,
            )
    if not cards:
        return result
    vectors, places = classifier.kept_examples().vectors, np.asarray(fitted.places)
    return with_nearest(result, cards, vectors, places, fitted.queries)


def _check_same_kind(examples: Items, queries: Items) -> None:
    if queries.modality is not examples.modality:
        raise InvalidInput(
            "the files are of another kind than the examples",
            got=queries.modality,
            allowed=str(examples.modality),
            remedy="Name files like the examples, or set the kind of all of them: --modality KIND.",
        )


def answer_rows(
    classifier: TailClassifier, rows: NDArray[np.float32], coverage: float, top: int
) -> list[dict[str, Any]]:
    """Answer rows; return for each the fields of an `Answer` that depend on its vector."""
    log_proba = classifier.predict_log_proba(rows)
    probabilities = np.exp(log_proba)
    sets = classifier.predict_set(rows, coverage, log_proba=log_proba)
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
    wanted: PredictOptions,
    on_answered: OnProgress | None,
) -> tuple[Answer, ...]:
    """Answer the readable queries: in chunks if isolated, each reported, all at once if joint."""
    count = len(query_vectors.kept)
    size = MAX_ROWS if classifier.visibility_ == Visibility.ISOLATED else max(1, count)
    answers: list[dict[str, Any]] = []
    for start in range(0, count, size):
        rows = query_vectors.features[start : start + size]
        answers += answer_rows(classifier, rows, wanted.coverage, wanted.top)
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
