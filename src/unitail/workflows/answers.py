"""Answers about a user's items: what speaks for each, and how right they are where that is known.

Examples and columns speak for an answer; the examples nearest to an item are shown beside it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from unitail.encoders.encoder import Modality
from unitail.encoders.encoding import Vectors
from unitail.estimator.classifier import TailClassifier
from unitail.estimator.influence import Influence, column_spans
from unitail.framework.statistics import LEVEL
from unitail.inputs.encode import Unread
from unitail.inputs.input_encoder import InputEncoder
from unitail.inputs.items import Items

DOUBTFUL = 0.8
"""Answers of a lower probability are doubtful: one in five or more of those just below is wrong."""
NOVEL = 0.95
"""Novelty that is marked: about one in twenty items of the known classes is as strange."""
DIGITS = 6
NAMED = 3
"""Examples, and columns, that are named beside an answer."""
MAX_EXPLAINED = 1000
"""Answers that are explained, the least sure ones."""
MAX_VALUES = 2**25
"""Answers times examples: of very many examples, fewer answers are explained."""
MAX_WALKED = 200_000
"""Rows of exchanged columns that are answered for all of them."""
MIN_WALKS, MAX_WALKS = 4, 32


class State(StrEnum):
    """How far an answer is to be believed."""

    LIKELY = "likely"
    """Its probability is `DOUBTFUL` or more, and the item looks like the examples."""
    DOUBTFUL = "doubtful"
    """Its probability is lower."""
    NOVEL = "novel"
    """The item is so strange that it may belong to none of the classes."""
    GIVEN = "given"
    """The user said so."""
    SKIPPED = "skipped"
    """There is no answer."""


@dataclass(frozen=True, kw_only=True)
class Because:
    """An example that speaks for an answer."""

    place: int
    """Its place among the examples, from 0; those that cannot be read count too."""
    name: str
    label: str
    share: float
    """Its part in all that speaks for the answer, 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What is said about one item."""

    place: int
    """The number of the item among all queries, from 0; those that cannot be read count too."""
    name: str
    label: str
    """The most probable class."""
    probability: float
    top: tuple[tuple[str, float], ...]
    """The most probable classes with their probabilities, the first is `label`."""
    members: tuple[str, ...]
    """The prediction set, the most probable first: it holds the true class with the probability
    `Answers.coverage`."""
    novelty: float
    """0 to 1: the higher, the less the item looks like any of the classes."""
    nearest: tuple[int, ...] = ()
    """The places of the examples nearest to it, the nearest first."""
    because: tuple[Because, ...] = ()
    """The examples that speak for it most, if that was asked; see `unitail.workflows.answers`."""
    because_columns: tuple[tuple[str, float], ...] = ()
    """The columns of a table that do, with their parts in all that speaks for it."""
    repeated: bool = False
    """Whether it equals an example: then the answer says nothing about new items."""

    @property
    def state(self) -> State:
        """How far it is to be believed."""
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
    """How many examples of each class were read."""
    coverage: float
    joint: bool
    """Whether queries were answered together."""
    num_cached: int = 0
    """How many items had been encoded before."""
    notes: tuple[str, ...] = ()
    """What else the user should know, a phrase each."""
    why: bool = False
    """Whether the user asked why."""

    @property
    def repeated(self) -> tuple[str, ...]:
        """The names of items that equal an example."""
        return tuple(answer.name for answer in self.answers if answer.repeated)

    def by_uncertainty(self) -> list[Answer]:
        """Return the answers, the least probable first."""
        return sorted(self.answers, key=lambda answer: (answer.probability, answer.place))


@dataclass(frozen=True)
class ClassScore:
    """How right the answers about one class are."""

    label: str
    items: int
    """How many belong to it."""
    answers: int
    """How many were said to."""
    right: int
    confused_with: Mapping[str, int]
    """What its items were taken for instead, the most frequent first."""

    @property
    def recall(self) -> float | None:
        """The share of its items that were recognised."""
        return self.right / self.items if self.items else None

    @property
    def precision(self) -> float | None:
        """The share of its answers that are right."""
        return self.right / self.answers if self.answers else None


@dataclass(frozen=True)
class AnswerScores:
    """Answers beside true labels."""

    confusion: Mapping[str, Mapping[str, int]]
    """True label -> answer -> how many; true labels may be of classes without examples."""
    num_repeated: int
    """Items with a label that were not counted, since they equal an example."""

    @property
    def num_items(self) -> int:
        """How many answers were counted."""
        return sum(sum(row.values()) for row in self.confusion.values())

    @property
    def num_right(self) -> int:
        """How many of them are right."""
        return sum(row.get(label, 0) for label, row in self.confusion.items())

    @property
    def accuracy(self) -> float:
        """The share of them that is right."""
        return self.num_right / self.num_items

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the accuracy on new items like these."""
        counted = stats.binomtest(self.num_right, self.num_items)
        interval = counted.proportion_ci(LEVEL, method="wilson")
        return float(interval.low), float(interval.high)

    def by_class(self) -> list[ClassScore]:
        """Return the score of each class that is a true label or an answer."""
        said = Counter[str]()
        for row in self.confusion.values():
            said.update(row)
        labels = sorted({*self.confusion, *said})
        rows = {label: Counter(self.confusion.get(label, {})) for label in labels}
        return [
            ClassScore(
                label=label,
                items=row.total(),
                answers=said[label],
                right=row[label],
                confused_with={other: n for other, n in row.most_common() if other != label},
            )
            for label, row in rows.items()
        ]


def score(result: Answers, queries: Items) -> AnswerScores | None:
    """Hold answers to the labels of the records; None if no answered item has one.

    Items that equal an example say nothing about new ones, and are left out.
    """
    truths = {record.item: record.label for record in queries.records if record.label}
    known = [answer for answer in result.answers if answer.place in truths]
    counted = [answer for answer in known if not answer.repeated]
    if not counted:
        return None
    confusion: dict[str, Counter[str]] = {}
    for answer in counted:
        confusion.setdefault(truths[answer.place], Counter())[answer.label] += 1
    return AnswerScores(dict(sorted(confusion.items())), len(known) - len(counted))


def scores_as_json(scores: AnswerScores) -> dict[str, Any]:
    """Return all of it, for `json`."""
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
