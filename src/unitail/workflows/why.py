"""Why answers are as they are: examples, and of tables columns, that speak for them or are near."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unitail.encoders.encoder import Modality
from unitail.encoders.encoding import Vectors
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.influence import Influence, column_spans
from unitail.inputs.input_encoder import InputEncoder
from unitail.workflows.answers import Answers, Because

NAMED = 3
"""Examples, and columns, that are named beside an answer."""
MAX_EXPLAINED = 1000
"""Answers that are explained, the least sure ones."""
MAX_VALUES = 2**25
"""Answers times examples: of very many examples, fewer answers are explained."""
MAX_WALKED = 200_000
"""Rows of exchanged columns that are answered for all of them."""
MIN_WALKS, MAX_WALKS = 4, 32


def explain(
    result: Answers,
    classifier: TailClassifier,
    by: InputEncoder,
    asked: Vectors,
    examples: Sequence[tuple[int, str, str]],
) -> Answers:
    """Let the least sure answers name what speaks for them.

    `examples` are places, names and labels of the rows that the classifier was fitted on. Models
    that cannot say it refuse, and so is it with examples that were averaged.
    """
    most = min(MAX_EXPLAINED, max(1, MAX_VALUES // max(1, len(examples))))
    chosen = [answer.place for answer in result.by_uncertainty()[:most]]
    if not chosen:
        return result
    rows = asked.features[np.searchsorted(asked.kept, chosen)]
    by_place = {answer.place: answer for answer in result.answers}
    labels = _as_classes(classifier, [by_place[place].label for place in chosen])
    of_rows = classifier.influence(rows, labels)
    because = dict(zip(chosen, _because(of_rows, examples), strict=True))
    columns = {}
    if result.modality is Modality.TABLE:
        columns = dict(zip(chosen, _columns(classifier, by, rows, labels), strict=True))
    explained = (
        replace(
            each, because=because.get(each.place, ()), because_columns=columns.get(each.place, ())
        )
        for each in result.answers
    )
    return replace(result, answers=tuple(explained))


def _as_classes(classifier: TailClassifier, labels: Sequence[str]) -> NDArray[Any]:
    """Return labels as the classifier has them; answers name them as strings."""
    known = {str(label): place for place, label in enumerate(classifier.classes_)}
    chosen: NDArray[Any] = classifier.classes_[[known[label] for label in labels]]
    return chosen


def _because(
    influence: Influence, examples: Sequence[tuple[int, str, str]]
) -> list[tuple[Because, ...]]:
    return [
        tuple(
            Because(place=place, name=name, label=label, share=float(shares[row]))
            for row in top
            for place, name, label in [examples[row]]
            if shares[row] > 0
        )
        for top, shares in zip(influence.top(NAMED), influence.shares, strict=True)
    ]


def _columns(
    classifier: TailClassifier, by: InputEncoder, rows: NDArray[Any], labels: NDArray[Any]
) -> list[tuple[tuple[str, float], ...]]:
    """Name the columns that speak for each answer; of many answers, for the least sure alone."""
    spans = column_spans(by, None, rows.shape[1])
    walks = MAX_WALKED // (len(rows) * (len(spans) + 1))
    walks = min(max(walks, MIN_WALKS), MAX_WALKS)
    most = max(1, MAX_WALKED // (walks * (len(spans) + 1)))
    said = classifier.column_influence(rows[:most], labels[:most], n_walks=walks, columns=spans)
    named = [
        tuple((said.names[place], float(shares[place])) for place in top if shares[place] > 0)
        for top, shares in zip(said.top(NAMED), said.shares, strict=True)
    ]
    return named + [()] * (len(rows) - len(named))


def with_nearest(
    result: Answers,
    number: int,
    known: NDArray[np.float64],
    places: NDArray[np.int64],
    asked: Vectors,
) -> Answers:
    """Let the least sure answers name the examples nearest to them."""
    chosen = [answer.place for answer in result.by_uncertainty()[:number]]
    rows = asked.features[np.searchsorted(asked.kept, chosen)]
    nearest = dict(zip(chosen, places[nearest_rows(known, rows)].tolist(), strict=True))
    answers = (replace(each, nearest=tuple(nearest.get(each.place, ()))) for each in result.answers)
    return replace(result, answers=tuple(answers))


def nearest_rows(known: NDArray[Any], asked: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places of the examples nearest to each row, (m, `NAMED`), the nearest first.

    Near is what points the same way, seen from the mean of the examples.
    """
    centre = known.mean(axis=0)
    cosines = _directions(asked - centre) @ _directions(known - centre).T
    return np.argsort(-cosines, axis=1, kind="stable")[:, :NAMED]


def _directions(rows: NDArray[Any]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1))
