"""Explain answers: name the examples, and the columns of a table, that support or resemble them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.encoder import Modality, Vectors
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.influence import Influence, column_spans
from unitail.inputs.input_encoder import InputEncoder
from unitail.progress import OnProgress
from unitail.workflows.answers import Answers, Because

NAMED = 3
"""Number of examples, and of columns, that are named beside an answer."""
MAX_EXPLAINED = 1000
"""Largest number of explained answers: the least certain ones."""
MAX_CONTRIBUTIONS = 2**25
"""Limit on answers times examples: with very many examples, fewer answers are explained."""
MAX_WALKED_IN_ALL = 200_000
"""Largest number of rows with exchanged columns that are answered to explain all answers."""
MAX_COLUMN_CARDS = 100
"""Largest number of answers whose columns are explained if only a report needs them."""
COLUMNS_AT_ONCE = 50
"""Number of answers whose columns are explained together; progress is reported after each."""
MIN_WALKS, MAX_WALKS = 4, 32
"""Bounds on the permutations per answer in the influence of columns."""


@dataclass(frozen=True)
class Example:
    """An example that the classifier was fitted on."""

    place: int
    """Index of the example, from 0; unreadable examples count too."""
    name: str
    label: str


def explain(
    result: Answers,
    classifier: TailClassifier,
    encoder: InputEncoder,
    queries: Vectors,
    examples: Sequence[Example],
    *,
    on_explained: OnProgress | None = None,
) -> Answers:
    """Return the answers with explanations of the least certain ones.

    `examples` are the rows that the classifier was fitted on. Columns take most of the time: unless
    the user asked why, they are named for the first cards of a report only. `on_explained` counts
    the answers whose columns are explained. Raises an error for models without explanations.
    """
    limit = min(MAX_EXPLAINED, max(1, MAX_CONTRIBUTIONS // max(1, len(examples))))
    chosen = [answer.place for answer in result.by_uncertainty()[:limit]]
    if not chosen:
        return result
    rows = queries.features[np.searchsorted(queries.kept, chosen)]
    by_place = {answer.place: answer for answer in result.answers}
    labels = _as_classes(classifier, [by_place[place].label for place in chosen])
    influence = classifier.influence(rows, labels)
    kept = classifier.kept_examples().places
    influence = replace(influence, values=influence.values[:, kept])
    because = dict(zip(chosen, _because(influence, examples), strict=True))
    columns = {}
    if result.modality is Modality.TABLE:
        limit = len(rows) if result.why else MAX_COLUMN_CARDS
        named = _columns(classifier, encoder, rows[:limit], labels[:limit], on_explained)
        columns = dict(zip(chosen, named, strict=False))
    explained = (
        replace(
            each, because=because.get(each.place, ()), because_columns=columns.get(each.place, ())
        )
        for each in result.answers
    )
    return replace(result, answers=tuple(explained))


def _as_classes(classifier: TailClassifier, labels: Sequence[str]) -> NDArray[Any]:
    """Return labels with the classifier's type; answers hold them as strings."""
    places = {str(label): place for place, label in enumerate(classifier.classes_)}
    chosen: NDArray[Any] = classifier.classes_[[places[label] for label in labels]]
    return chosen


def _because(influence: Influence, examples: Sequence[Example]) -> list[tuple[Because, ...]]:
    return [
        tuple(
            Because(**vars(examples[row]), share=float(shares[row]))
            for row in top
            if shares[row] > 0
        )
        for top, shares in zip(influence.top(NAMED), influence.shares, strict=True)
    ]


def _columns(
    classifier: TailClassifier,
    encoder: InputEncoder,
    rows: NDArray[Any],
    labels: NDArray[Any],
    on_explained: OnProgress | None,
) -> list[tuple[tuple[str, float], ...]]:
    """Name the columns that support each answer; if there are many, only for the first ones.

    The rows are sorted, the least certain first.
    """
    spans = column_spans(encoder, None, rows.shape[1])
    walks = MAX_WALKED_IN_ALL // (len(rows) * (len(spans) + 1))
    walks = min(max(walks, MIN_WALKS), MAX_WALKS)
    count = min(len(rows), max(1, MAX_WALKED_IN_ALL // (walks * (len(spans) + 1))))
    named: list[tuple[tuple[str, float], ...]] = []
    for start in range(0, count, COLUMNS_AT_ONCE):
        chunk = slice(start, min(start + COLUMNS_AT_ONCE, count))
        influence = classifier.column_influence(  # its walks depend on neither rows nor labels
            rows[chunk], labels[chunk], n_walks=walks, columns=spans
        )
        named += [
            tuple((influence.names[at], float(shares[at])) for at in top if shares[at] > 0)
            for top, shares in zip(influence.top(NAMED), influence.shares, strict=True)
        ]
        if on_explained is not None:
            on_explained(len(named), count)
    return named


def with_nearest(
    result: Answers,
    number: int,
    examples: NDArray[np.float64],
    places: NDArray[np.int64],
    queries: Vectors,
) -> Answers:
    """Return the answers with the nearest examples of the `number` least certain ones.

    `examples` are the vectors of the examples with the indices `places`.
    """
    chosen = [answer.place for answer in result.by_uncertainty()[:number]]
    rows = queries.features[np.searchsorted(queries.kept, chosen)]
    nearest = dict(zip(chosen, places[nearest_rows(examples, rows)].tolist(), strict=True))
    answers = (replace(each, nearest=tuple(nearest.get(each.place, ()))) for each in result.answers)
    return replace(result, answers=tuple(answers))


def nearest_rows(examples: NDArray[Any], queries: NDArray[Any]) -> NDArray[np.int64]:
    """Return the indices of the examples nearest to each query, (m, `NAMED`), the nearest first.

    Distance is the cosine distance after centring by the mean of the examples.
    """
    centre = examples.mean(axis=0)
    cosines = _directions(queries - centre) @ _directions(examples - centre).T
    return np.argsort(-cosines, axis=1, kind="stable")[:, :NAMED]


def _directions(rows: NDArray[Any]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1))
