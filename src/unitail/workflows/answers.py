"""Answers about a user's items."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from unitail.encoders.encoder import Modality
from unitail.inputs.encode import Unread

DOUBTFUL = 0.8
"""Answers of a lower probability are doubtful: one in five or more of those just below is wrong."""
NOVEL = 0.95
"""Novelty that is marked: about one in twenty items of the known classes is as strange."""


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

    @property
    def repeated(self) -> tuple[str, ...]:
        """The names of items that equal an example."""
        return tuple(answer.name for answer in self.answers if answer.repeated)

    def by_uncertainty(self) -> list[Answer]:
        """Return the answers, the least probable first."""
        return sorted(self.answers, key=lambda answer: (answer.probability, answer.place))
