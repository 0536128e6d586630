"""Answers about a user's items: their explanation, their nearest examples, and their scores.

An explanation names the examples, and the columns of a table, that support an answer.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from unitail.answer_defaults import DOUBTFUL, NOVEL
from unitail.encoders.encoder import Modality
from unitail.encoders.encoding import Vectors
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.influence import Influence, column_spans
from unitail.framework.statistics import LEVEL
from unitail.inputs.encode import Unread
from unitail.inputs.input_encoder import InputEncoder
from unitail.inputs.items import Items
from unitail.progress import OnProgress

DIGITS = 6
"""Decimal digits of probabilities, novelty and scores in files."""
NAMED = 3
"""Number of examples, and of columns, that are named beside an answer."""
MAX_EXPLAINED = 1000
"""Largest number of explained answers: the least certain ones."""
MAX_VALUES = 2**25
"""Limit on answers times examples: with very many examples, fewer answers are explained."""
MAX_WALKED = 200_000
"""Largest number of rows with exchanged columns that are answered to explain all answers."""
MAX_COLUMN_CARDS = 100
"""Largest number of answers whose columns are explained if only a report needs them."""
COLUMNS_AT_ONCE = 50
"""Number of answers whose columns are explained together; progress is reported after each."""
MIN_WALKS, MAX_WALKS = 4, 32
"""Bounds on the permutations per answer in the influence of columns."""


class State(StrEnum):
    """How far an answer can be trusted."""

    LIKELY = "likely"
    """Its probability is `DOUBTFUL` or more, and the item resembles the examples."""
    DOUBTFUL = "doubtful"
    """Its probability is lower."""
    NOVEL = "novel"
    """The item differs so much from the examples that it may belong to none of the classes."""
    GIVEN = "given"
    """It is the user's own label."""
    SKIPPED = "skipped"
    """There is no answer."""


@dataclass(frozen=True)
class Example:
    """An example that the classifier was fitted on."""

    place: int
    """Index of the example, from 0; unreadable examples count too."""
    name: str
    label: str


@dataclass(frozen=True, kw_only=True)
class Because:
    """An example that supports an answer."""

    place: int
    """Index of the example, from 0; unreadable examples count too."""
    name: str
    label: str
    share: float
    """Its share of the total support for the answer, 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The prediction for one item."""

    place: int
    """Index of the item among all queries, from 0; unreadable items count too."""
    name: str
    label: str
    """The most probable class."""
    probability: float
    top: tuple[tuple[str, float], ...]
    """The most probable classes with their probabilities; the first is `label`."""
    members: tuple[str, ...]
    """The prediction set, the most probable class first: it contains the true class with the
    probability `Answers.coverage`."""
    novelty: float
    """0 to 1: the higher, the less the item resembles any of the classes."""
    nearest: tuple[int, ...] = ()
    """Indices of the nearest examples, the nearest first."""
    because: tuple[Because, ...] = ()
    """The examples that support it most; empty unless an explanation was requested."""
    because_columns: tuple[tuple[str, float], ...] = ()
    """The columns of a table that support it most, with their shares of the total support."""
    repeated: bool = False
    """Whether the item equals an example: then the answer is no evidence about new items."""

    @property
    def state(self) -> State:
        """How far the answer can be trusted."""
        if self.novelty >= NOVEL:
            return State.NOVEL
        return State.DOUBTFUL if self.probability < DOUBTFUL else State.LIKELY


@dataclass(frozen=True, kw_only=True)
class Answers:
    """All answers of one call, in the order of the queries."""

    answers: tuple[Answer, ...]
    unreadable: tuple[Unread, ...]
    modality: Modality
    encoder: str
    examples: Mapping[str, int]
    """Number of examples of each class that were read."""
    coverage: float
    joint: bool
    """Whether queries were answered together."""
    num_cached: int = 0
    """Number of items whose vectors came from the cache."""
    notes: tuple[str, ...] = ()
    """Further notes for the user, a phrase each."""
    why: bool = False
    """Whether the user requested explanations."""

    @property
    def repeated(self) -> tuple[str, ...]:
        """The names of items that equal an example."""
        return tuple(answer.name for answer in self.answers if answer.repeated)

    def by_uncertainty(self) -> list[Answer]:
        """Return the answers, the least probable first."""
        return sorted(self.answers, key=lambda answer: (answer.probability, answer.place))


@dataclass(frozen=True)
class ClassScore:
    """The score of the answers for one class."""

    label: str
    items: int
    """Number of items that belong to the class."""
    answers: int
    """Number of items that were answered with the class."""
    right: int
    confused_with: Mapping[str, int]
    """The wrong answers for its items, the most frequent first."""

    @property
    def recall(self) -> float | None:
        """The share of its items that were answered correctly."""
        return self.right / self.items if self.items else None

    @property
    def precision(self) -> float | None:
        """The share of its answers that are correct."""
        return self.right / self.answers if self.answers else None


@dataclass(frozen=True)
class AnswerScores:
    """Answers compared with true labels."""

    confusion: Mapping[str, Mapping[str, int]]
    """True label -> answer -> count; true labels may be of classes without examples."""
    num_repeated: int
    """Number of items with a label that are not counted because they equal an example."""

    @property
    def num_items(self) -> int:
        """Number of counted answers."""
        return sum(sum(row.values()) for row in self.confusion.values())

    @property
    def num_right(self) -> int:
        """Number of counted answers that are correct."""
        return sum(row.get(label, 0) for label, row in self.confusion.items())

    @property
    def accuracy(self) -> float:
        """The share of correct answers."""
        return self.num_right / self.num_items

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the accuracy on new items like these."""
        counted = stats.binomtest(self.num_right, self.num_items)
        interval = counted.proportion_ci(LEVEL, method="wilson")
        return float(interval.low), float(interval.high)

    def by_class(self) -> list[ClassScore]:
        """Return the score of each class that is a true label or an answer."""
        answers = Counter[str]()
        for row in self.confusion.values():
            answers.update(row)
        labels = sorted({*self.confusion, *answers})
        rows = {label: Counter(self.confusion.get(label, {})) for label in labels}
        return [
            ClassScore(
                label=label,
                items=row.total(),
                answers=answers[label],
                right=row[label],
                confused_with={other: n for other, n in row.most_common() if other != label},
            )
            for label, row in rows.items()
        ]


def score(result: Answers, queries: Items) -> AnswerScores | None:
    """Compare the answers with the labels of the records; None if no answered item has one.

    Items that equal an example are no evidence about new ones, and are left out.
    """
    truths = {record.item: record.label for record in queries.records if record.label}
    labelled = [answer for answer in result.answers if answer.place in truths]
    counted = [answer for answer in labelled if not answer.repeated]
    if not counted:
        return None
    confusion: dict[str, Counter[str]] = {}
    for answer in counted:
        confusion.setdefault(truths[answer.place], Counter())[answer.label] += 1
    return AnswerScores(dict(sorted(confusion.items())), len(labelled) - len(counted))


def scores_as_json(scores: AnswerScores) -> dict[str, Any]:
    """Return the scores, ready for JSON."""
    low, high = (round(value, DIGITS) for value in scores.interval)
    return {
        "items": scores.num_items,
        "right": scores.num_right,
        "accuracy": round(scores.accuracy, DIGITS),
        "accuracy_interval_95": [low, high],
        "not_counted_equal_to_an_example": scores.num_repeated,
        "classes": {
            each.label: {
                "items": each.items,
                "answers": each.answers,
                "right": each.right,
                "recall": None if each.recall is None else round(each.recall, DIGITS),
                "precision": None if each.precision is None else round(each.precision, DIGITS),
            }
            for each in scores.by_class()
        },
        "confusion": {label: dict(row) for label, row in scores.confusion.items()},
    }


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
    limit = min(MAX_EXPLAINED, max(1, MAX_VALUES // max(1, len(examples))))
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
    walks = MAX_WALKED // (len(rows) * (len(spans) + 1))
    walks = min(max(walks, MIN_WALKS), MAX_WALKS)
    count = min(len(rows), max(1, MAX_WALKED // (walks * (len(spans) + 1))))
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
