"""Answers about a user's items, and their scores if the items have labels."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scipy import stats

from unitail.answer_defaults import DOUBTFUL, NOVEL
from unitail.encoders.encoder import Modality
from unitail.framework.statistics import LEVEL
from unitail.inputs.encode import Unread
from unitail.inputs.items import Items

DIGITS = 6
"""Decimal digits of probabilities, novelty and scores in files."""


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
