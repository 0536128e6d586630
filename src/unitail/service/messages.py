"""What requests and answers look like: the types behind the OpenAPI description."""

from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from unitail.answer_defaults import COVERAGE

MAX_INFLUENCE = 100
"""Examples that are named for an answer."""
Label = StrictStr | StrictBool | StrictInt | StrictFloat
Number = StrictFloat | None
Item = TypeVar("Item")
Many = Annotated[list[Item], Field(fail_fast=True)]
"""A list of which the first fault is told: a large one may have millions."""


class Exact(BaseModel):
    """A message without fields that nobody knows; `true` and "1" are no numbers."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Content(Exact):
    """Items of one kind: vectors, texts, or rows of a table."""

    vectors: Many[Many[Number]] | None = Field(
        None, description="Vectors, all of one width; null where a value is missing."
    )
    texts: Many[str] | None = Field(None, description="Texts.")
    rows: Many[dict[str, Any]] | None = Field(
        None, description="Rows of a table, each a mapping from columns to values."
    )


class Question(Content):
    """What to answer, and what to tell of each item."""

    version: int | None = Field(None, description="A version of the classifier; else the newest.")
    probabilities: bool = Field(True, description="Whether to tell the probability of each class.")
    coverage: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        COVERAGE, description="How often sets should hold the true label; null is no sets."
    )
    novelty: bool = Field(True, description="Whether to tell how unlike all classes an item is.")
    influence: Annotated[int, Field(ge=0, le=MAX_INFLUENCE)] = Field(
        0, description="How many of the examples that decided an answer to name."
    )


class Deciding(BaseModel):
    """An example that decided an answer."""

    example: int = Field(description="Its place among the examples of this version, from 0.")
    label: Label
    value: float = Field(description="What it adds to log p(label) above the mean of classes.")
    share: float = Field(description="Its part in all that speaks for the label, 0 to 1.")


class Answer(BaseModel):
    """The answer to one item."""

    label: Label = Field(description="The most probable class.")
    probability: float = Field(description="Of that class.")
    probabilities: list[float] | None = Field(None, description="In the order of `classes`.")
    set: list[Label] | None = Field(None, description="Labels that cannot be ruled out.")
    novelty: float | None = Field(None, description="From 0 to 1.")
    influence: list[Deciding] | None = Field(None, description="The strongest first.")


class Answers(BaseModel):
    """The answers to a request, in the order of its items."""

    classifier: str
    version: int
    classes: list[Label]
    answers: list[Answer]


class NewExamples(Content):
    """Labelled items; a label that is new makes a class."""

    labels: Many[Label] = Field(description="The class of each item.")


class Forgotten(Exact):
    """Examples to forget."""

    places: Many[int] = Field(min_length=1, description="Places among the examples, from 0.")
    version: int = Field(description="The newest version, in which the places were counted.")


class ClassSize(BaseModel):
    """A class, and how many examples it has."""

    label: Label
    examples: int


class Classifier(BaseModel):
    """What there is to know of a classifier."""

    name: str
    version: int
    takes: str = Field(description="vectors, image, text, audio or table.")
    encoder: str | None
    width: int = Field(description="Of vectors.")
    visibility: str
    classes: list[ClassSize]


class Examples(BaseModel):
    """The labels of the examples of a classifier, by place."""

    version: int
    labels: list[Label]


class Problem(BaseModel):
    """Why a request was refused."""

    error: str = Field(description="What is wrong, what was got, what is allowed, what to do.")
